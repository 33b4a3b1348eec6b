"""A call as it came."""

import pytest

from offbook.wire.http_call import HttpCall


@pytest.mark.parametrize(
    ("told", "attempt"),
    [
        ("0", 1),
        ("2", 3),
        (None, None),
        ("", None),
        ("-1", None),
        ("x", None),
        ("²", None),
        ("1.5", None),
        ("9" * 6, None),
    ],
)
def test_a_client_may_tell_which_try_it_is(told, attempt):
    headers = {} if told is None else {"x-stainless-retry-count": told}
    assert HttpCall("POST", "/", "", headers, b"").attempt == attempt
