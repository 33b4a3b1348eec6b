"""Faults of HTTP."""

import asyncio
import json

import pytest

from offbook import At, FaultInjector, FaultPlan, Response, run
from offbook.clock import VIRTUAL_EPOCH
from offbook.errors import InputError, ProviderError, RateLimitError
from offbook.faults import Slow, WrongContentType
from tests.fakes import Scripted, user

BODY = '{"error": {"message": "slow down"}}'


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status_code", [400, 401, 404, 408, 500, 503, 529])
def test_a_status_raises_a_provider_error_with_status_headers_and_body(apply, status_code, stream):
    fault = {"type": "http_error", "status_code": status_code, "headers": {"x-request-id": "r1"}, "body": BODY}
    came, error, _ = apply(fault, stream=stream)
    assert came == []
    assert type(error) is ProviderError
    assert error.status_code == status_code
    assert error.headers == {"x-request-id": "r1"}
    assert error.body == BODY
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
def test_429_raises_a_rate_limit_error_that_reports_how_long_to_wait(apply, headers, retry_after_s):
    assert VIRTUAL_EPOCH.isoformat() == "2000-01-01T00:00:00+00:00"
    _, error, _ = apply({"type": "http_error", "status_code": 429, "headers": headers, "body": "x"})
    assert type(error) is RateLimitError
    assert error.status_code == 429
    assert error.retry_after_s == retry_after_s
    assert error.headers == headers
    assert error.body == "x"


def test_an_error_without_a_body_has_the_message_that_it_has_over_http(apply):
    _, error, _ = apply({"type": "http_error", "status_code": 500})
    assert error.body == ""
    assert error.headers == {}
    assert str(error) == "mock: HTTP 500: an injected error"


@pytest.mark.parametrize("stream", [True, False])
def test_it_raises_the_400_of_a_conversation_that_is_too_long(apply, stream):
    came, error, _ = apply({"type": "context_overflow"}, stream=stream)
    assert came == []
    assert type(error) is ProviderError
    assert error.status_code == 400
    error_fields = json.loads(error.body)["error"]
    assert error_fields["code"] == "context_length_exceeded"
    assert error_fields["type"] == "invalid_request_error"
    assert str(error) == f"mock: HTTP 400: {error_fields['message']}"


@pytest.mark.parametrize("fault", [WrongContentType("text/plain"), Slow(0.0)])
async def test_a_content_type_and_no_delay_change_nothing_without_http(fault):
    response = Response("fine", "m")
    provider = FaultInjector(Scripted(response), FaultPlan([At().fail(fault)]))
    assert await provider.complete(user("Hi"), "m") == response


def test_a_slow_answer_is_the_same_and_late():
    async def work():
        late = FaultInjector(Scripted(Response("fine", "m")), FaultPlan([At().fail(Slow(5000.0))]))
        response = await late.complete(user("Hi"), "m")
        return response.content, asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == ("fine", 5.0)


@pytest.mark.parametrize(
    "content_type", ["", " ", " a", "a ", "a\n", "a\r\nx: y", "a\tb", "\x00", "a\x7f", "ä", "a\u2028"]
)
def test_what_no_header_may_have_is_refused(content_type):
    with pytest.raises(InputError, match="content_type"):
        FaultPlan([At().fail(WrongContentType(content_type))])


@pytest.mark.parametrize("content_type", ["a", "text/html", 'multipart/mixed; boundary="a b"', "~!"])
def test_any_other_text_is_taken(content_type):
    plan = FaultPlan([At().fail(WrongContentType(content_type))])
    assert plan.faults[0].fault.content_type == content_type
