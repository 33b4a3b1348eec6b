"""The malformed_response fault."""

import pytest

from offbook.errors import MalformedResponseError


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "raw", ["not valid json", "", "{", "[]", '{"choices": []}', '{"choices": [{"message": 5}]}', "ÿ"]
)
def test_the_parse_error_of_the_real_codec_surfaces_with_what_arrived(strike, raw, stream):
    came, error, _ = strike({"type": "malformed_response", "raw": raw}, stream=stream)
    assert came == []
    assert type(error) is MalformedResponseError
    assert (error.raw, error.body, error.provider) == (raw, raw, "mock")


def test_it_fails_also_with_what_the_codec_could_read(strike):
    raw = '{"choices": [{"message": {"content": "fine"}}]}'
    _, error, _ = strike({"type": "malformed_response", "raw": raw})
    assert (type(error), error.raw) == (MalformedResponseError, raw)
