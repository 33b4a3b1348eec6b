"""What a call that fails tells: every try, in order."""

import pickle

import pytest

from offbook import (
    AllProvidersFailedError,
    BreakerOpenError,
    BreakerPolicy,
    ProviderConnectionError,
    ProviderError,
    RateLimitError,
    RetryPolicy,
)
from tests.gateway.parts import OK, Steady, ask, failure, gateway_of, mock, refusal, request, run, scripted

EXACT = RetryPolicy(max_retries=2, jitter=0.0)


def failed(*providers, **options):
    error = run(refusal(ask(gateway_of(*providers, **options))))
    assert isinstance(error, AllProvidersFailedError)
    return error


def test_the_attempts_tell_provider_number_error_and_wait_of_every_try():
    errors = [failure(500), RateLimitError("slow", retry_after_s=7.0), failure(503), failure(400), failure(401)]
    first = scripted(*errors[:3], name="a")
    error = failed(first, scripted(errors[3], name="b"), scripted(errors[4], name="c"), retry=EXACT)
    assert error.attempts == (
        ("a", 1, errors[0], 0.5, ""),
        ("a", 2, errors[1], 7.0, ""),
        ("a", 3, errors[2], 0.0, ""),
        ("b", 1, errors[3], 0.0, ""),
        ("c", 1, errors[4], 0.0, ""),
    )
    assert error.attempts[1].wait_s == 7.0
    assert error.__cause__ is errors[4]


def test_a_wait_that_is_too_long_to_be_granted_is_told():
    error = failed(scripted(RateLimitError("slow", retry_after_s=300.0), name="a"), retry=EXACT)
    assert "a, attempt 1: slow; it asks to wait 300 s, and max_retry_after_s is 60" in str(error)


def test_it_is_a_failure_with_the_status_headers_and_body_of_the_last_try():
    last = failure(503, headers={"x-request-id": "req_1"}, body="overloaded")
    error = failed(scripted(failure(500)), scripted(last), retry=RetryPolicy(max_retries=0))
    assert isinstance(error, ProviderError)
    assert (error.status_code, error.headers, error.body) == (503, {"x-request-id": "req_1"}, "overloaded")


def test_without_a_status_at_last_there_is_none():
    error = failed(scripted(failure(500), name="a"), scripted(ProviderConnectionError("cut")), retry=RetryPolicy(0))
    assert error.status_code is None


def test_the_message_tells_every_try_on_a_line_of_its_own():
    error = failed(
        mock({"ask": {"fault": {"type": "http_error", "status_code": 500, "body": "boom"}}}, name="openai"),
        mock({"ask": {"fault": {"type": "connection_reset"}}}, name="anthropic"),
        retry=RetryPolicy(max_retries=1, jitter=0.0),
    )
    assert str(error).splitlines() == [
        "no provider answered, in 4 attempts:",
        "  openai, attempt 1: HTTP 500: boom",
        "  openai, attempt 2: HTTP 500: boom",
        "  anthropic, attempt 1: connection reset",
        "  anthropic, attempt 2: connection reset",
    ]


def test_a_breaker_that_refuses_is_a_try_too():
    gateway = gateway_of(scripted(failure()), retry=RetryPolicy(0), breaker=BreakerPolicy(failures=1))

    async def scene():
        await refusal(ask(gateway))
        return await refusal(ask(gateway))

    (attempt,) = run(scene()).attempts
    assert (attempt.provider, attempt.attempt, type(attempt.error)) == ("scripted", 1, BreakerOpenError)


def test_it_can_cross_to_another_process():
    error = failed(scripted(failure(500)), retry=RetryPolicy(0))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.attempts[0].provider) == (str(error), "scripted")


@pytest.mark.parametrize("given", [1, 4])
def test_attempts_are_counted_by_the_gateway_and_by_provider(given):
    first, second = scripted(failure(), failure(), failure(), name="a"), Steady("b")
    assert run(ask(gateway_of(first, second, retry=EXACT), request(attempt=given))) == OK
    assert [asked.attempt for asked in first.requests] == [1, 2, 3]
    assert [asked.attempt for asked in second.requests] == [1]


def test_calls_are_counted_by_workflow_and_step():
    provider = Steady()
    gateway = gateway_of(provider)

    async def scene():
        for step_id, workflow in (("a", ""), ("b", ""), ("a", ""), ("a", "w"), (None, ""), (None, "")):
            await ask(gateway, request(step_id, workflow=workflow))
        await ask(gateway.using(deadline_s=5.0), request("a"))
        await ask(gateway, request("a", call=17))

    run(scene())
    assert [asked.call for asked in provider.requests] == [1, 1, 2, 1, 1, 2, 3, 17]
