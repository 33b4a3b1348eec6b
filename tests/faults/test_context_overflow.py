"""The context_overflow fault."""

import json

import pytest

from offbook import ProviderError


@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_the_400_of_a_conversation_that_is_too_long(strike, stream):
    came, error, _ = strike({"type": "context_overflow"}, stream=stream)
    assert (came, type(error), error.status_code) == ([], ProviderError, 400)
    told = json.loads(error.body)["error"]
    assert (told["code"], told["type"]) == ("context_length_exceeded", "invalid_request_error")
    assert str(error) == f"mock: HTTP 400: {told['message']}"
