"""The connection_reset fault."""

import pytest

from offbook.errors import ProviderConnectionError


@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_a_connection_error_at_once(strike, stream):
    came, error, after_s = strike({"type": "connection_reset"}, stream=stream, content="never seen")
    assert type(error) is ProviderConnectionError
    assert isinstance(error, ConnectionError)
    assert (came, after_s, error.status_code, error.provider) == ([], 0.0, None, "mock")
