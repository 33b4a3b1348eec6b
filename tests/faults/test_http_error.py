"""The http_error fault."""

import pytest

from offbook.clock import VIRTUAL_EPOCH
from offbook.errors import ProviderError, RateLimitError

BODY = '{"error": {"message": "slow down"}}'


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status_code", [400, 401, 404, 408, 500, 503, 529])
def test_a_status_raises_a_provider_error_with_status_headers_and_body(strike, status_code, stream):
    fault = {"type": "http_error", "status_code": status_code, "headers": {"x-request-id": "r1"}, "body": BODY}
    came, error, _ = strike(fault, stream=stream)
    assert came == []
    assert type(error) is ProviderError
    assert (error.status_code, error.headers, error.body) == (status_code, {"x-request-id": "r1"}, BODY)
    assert error.provider == "mock"
    assert str(status_code) in str(error)
    assert "slow down" in str(error)


@pytest.mark.parametrize(
    ("headers", "retry_after_s"),
    [
        ({}, None),
        ({"Retry-After": "30"}, 30.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Sat, 01 Jan 2000 00:01:00 GMT"}, 60.0),
    ],
)
def test_429_raises_a_rate_limit_error_that_tells_how_long_to_wait(strike, headers, retry_after_s):
    assert VIRTUAL_EPOCH.isoformat() == "2000-01-01T00:00:00+00:00"
    _, error, _ = strike({"type": "http_error", "status_code": 429, "headers": headers, "body": "x"})
    assert type(error) is RateLimitError
    assert (error.status_code, error.retry_after_s, error.headers, error.body) == (429, retry_after_s, headers, "x")


def test_an_error_without_a_body_says_so(strike):
    _, error, _ = strike({"type": "http_error", "status_code": 500})
    assert (error.body, error.headers) == ("", {})
    assert "no body" in str(error)
