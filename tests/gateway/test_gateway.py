"""The gateway as a whole: what users put together, and what they must be able to rely on."""

import asyncio
import logging
import time

import pytest

from offbook import (
    AllProvidersFailedError,
    At,
    BreakerPolicy,
    FaultInjector,
    FaultPlan,
    MemorySink,
    MockProvider,
    ProviderConnectionError,
    ProviderError,
    ProviderGateway,
    ProviderTimeoutError,
    RateLimit,
    RateLimitError,
    RecordingProvider,
    RetryPolicy,
)
from offbook.errors import InputError, MalformedResponseError, StreamInterruptedError
from offbook.events import AttemptEnded, CallEnded, CallRecorded, FallbackTaken, ReplayServed
from offbook.faults import HttpError, Timeout
from tests.fakes import Echo, events_of, read_until_broken, user
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    kinds_of,
    mock,
    now_s,
    outcome,
    refusal,
    run,
    scripted,
    texts_of,
    waits_of,
)

EXACT = RetryPolicy(max_retries=2, jitter=0.0)

RECORDING = {
    "classify": {
        "content": "question",
        "model": "gpt-4o-mini",
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
        "cost_usd": 0.0001,
    },
    "answer": {"fault": {"type": "timeout", "after_ms": 5000}},
    "summarize": {
        "fault": {
            "type": "http_error",
            "status_code": 429,
            "headers": {"Retry-After": "30"},
            "body": "Rate limit exceeded",
        }
    },
    "explain": {"fault": {"type": "http_error", "status_code": 500, "body": "Internal server error"}},
    "translate": {"fault": {"type": "malformed_response", "raw": "not valid json"}},
    "long": {
        "content": "one two three four five",
        "fault": {"type": "stream_truncate", "after_chunks": 3, "raise": "ConnectionError"},
    },
    "connect": {"fault": {"type": "connection_reset"}},
    "partial": {"content": "half", "usage": {"prompt_tokens": 9}, "fault": {"type": "partial_response"}},
}


class TestRecordedFaults:
    """A recording declares how each step goes; through a gateway every fault acts as the real failure would."""

    def failed(self, step_id, **options):
        """How the step fails on every try, and how long that takes."""

        async def scene():
            gateway = gateway_of(MockProvider(responses=RECORDING), retry=EXACT, **options)
            error = await refusal(gateway.complete(user("Hi"), "m", step_id=step_id))
            assert isinstance(error, AllProvidersFailedError)
            return [attempt.error for attempt in error.attempts], now_s()

        return run(scene())

    def test_a_step_without_a_fault_is_answered(self):
        response = run(gateway_of(MockProvider(responses=RECORDING)).complete(user("Hi"), "m", step_id="classify"))
        assert response.content == "question"
        assert response.cost_usd == 0.0001
        assert response.usage.total_tokens == 11

    def test_a_timeout_takes_its_time_on_every_try(self):
        errors, took_s = self.failed("answer")
        assert [type(error) for error in errors] == [ProviderTimeoutError] * 3
        assert took_s == pytest.approx(3 * 5.0 + 0.5 + 1.0)

    def test_a_rate_limit_is_waited_for_as_long_as_it_says(self):
        errors, took_s = self.failed("summarize")
        assert [type(error) for error in errors] == [RateLimitError] * 3
        assert {(error.status_code, error.retry_after_s, error.body) for error in errors} == {
            (429, 30.0, "Rate limit exceeded")
        }
        assert took_s == 60.0

    def test_a_server_error_keeps_its_status_and_body(self):
        errors, _ = self.failed("explain")
        assert {(type(error), error.status_code, error.body) for error in errors} == {
            (ProviderError, 500, "Internal server error")
        }

    def test_a_malformed_answer_fails_as_the_codec_does(self):
        errors, _ = self.failed("translate")
        assert {(type(error), error.raw) for error in errors} == {(MalformedResponseError, "not valid json")}

    def test_a_connection_that_is_reset_fails_at_once(self):
        errors, took_s = self.failed("connect")
        assert [isinstance(error, ProviderConnectionError) for error in errors] == [True] * 3
        assert took_s == pytest.approx(0.5 + 1.0)

    def test_a_partial_answer_is_an_answer(self):
        response = run(gateway_of(MockProvider(responses=RECORDING)).complete(user("Hi"), "m", step_id="partial"))
        assert response.content == "half"
        assert response.finish_reason == "length"
        assert response.usage.completion_tokens == 0

    def test_a_stream_breaks_where_the_recording_says(self):
        async def scene():
            gateway = gateway_of(MockProvider(responses=RECORDING), retry=EXACT)
            return await read_until_broken(await gateway.stream(user("Hi"), "m", step_id="long"))

        came, error = run(scene())
        assert texts_of(came) == ["one", " two", " three"]
        assert isinstance(error, StreamInterruptedError)
        assert isinstance(error.__cause__, ProviderConnectionError)

    def test_failures_reach_the_breaker(self):
        async def scene():
            sink = MemorySink()
            mock = MockProvider(responses=RECORDING, sink=sink)
            gateway = gateway_of(mock, retry=EXACT, breaker=BreakerPolicy(failures=3, reset_s=60.0), sink=sink)
            await refusal(gateway.complete(user("Hi"), "m", step_id="explain"))
            assert gateway.breakers["mock"].state == "open"
            await refusal(gateway.complete(user("Hi"), "m", step_id="classify"))
            assert len(mock.calls) == 3
            await asyncio.sleep(60.0)
            assert (await gateway.complete(user("Hi"), "m", step_id="classify")).content == "question"
            assert gateway.breakers["mock"].state == "closed"

        run(scene())

    def test_a_stream_that_its_reader_leaves_does_not(self):
        async def scene():
            gateway = gateway_of(MockProvider(responses=RECORDING), breaker=BreakerPolicy(failures=1))
            reply = await gateway.stream(user("Hi"), "m", step_id="long")
            await anext(aiter(reply))
            await reply.aclose()
            left = gateway.breakers["mock"].state
            await read_until_broken(await gateway.stream(user("Hi"), "m", step_id="long"))
            return left, gateway.breakers["mock"].state

        assert run(scene()) == ("closed", "open")

    def test_every_fault_that_fires_is_reported(self):
        sink = MemorySink()
        gateway = gateway_of(MockProvider(responses=RECORDING, sink=sink), retry=EXACT, breaker=None, sink=sink)

        async def scene():
            for step_id in ("classify", "answer", "translate"):
                await outcome(gateway.complete(user("Hi"), "m", step_id=step_id))

        run(scene())
        served = [(event.step_id, event.fault_type) for event in sink.events if isinstance(event, ReplayServed)]
        assert served == [("classify", None), *[("answer", "timeout")] * 3, *[("translate", "malformed_response")] * 3]


class TestComposition:
    """Failures and answers in one run."""

    def test_a_list_fails_first_and_is_answered_after_retry(self):
        sink = MemorySink()
        replay = mock(
            {"ask": [{"fault": {"type": "http_error", "status_code": 500}}, {"content": "success after retry"}]}
        )
        assert run(ask(gateway_of(replay, retry=EXACT, sink=sink))).content == "success after retry"
        assert replay.unused() == []
        assert waits_of(sink) == [0.5]

    def test_the_first_two_of_a_step_fail_and_the_third_is_answered(self):
        plan = FaultPlan([At(step_id="ask", attempt=attempt).fail(HttpError(503)) for attempt in (1, 2)])
        injector = FaultInjector(mock({"ask": {"content": "fine"}}), plan)
        assert run(ask(gateway_of(injector, retry=EXACT))).content == "fine"
        assert len(injector.fired) == 2

    def test_a_plan_fires_at_one_call_of_many(self):
        async def scene():
            plan = FaultPlan([At(step_id="ask", call=2).fail(Timeout(after_ms=5000))])
            gateway = gateway_of(FaultInjector(mock({"ask": {"content": "fine"}}), plan), retry=EXACT)
            return [type(await outcome(ask(gateway))) for _ in range(3)]

        answered, failed, again = run(scene())
        assert answered is again
        assert failed is AllProvidersFailedError

    def test_a_fallback_is_taken_and_answers(self):
        sink = MemorySink()
        down = mock({"ask": {"fault": {"type": "connection_reset"}}}, name="primary")
        up = mock({"ask": {"content": "from the fallback"}}, name="secondary")
        gateway = ProviderGateway(retry=EXACT, sink=sink)
        gateway.register(up, is_fallback=True)
        gateway.register(down)
        assert run(ask(gateway)).content == "from the fallback"
        (fallback,) = [event for event in sink.events if isinstance(event, FallbackTaken)]
        assert fallback.provider == "primary"
        assert fallback.to == "secondary"

    def test_a_recorder_behind_the_gateway_keeps_every_try(self, tmp_path):
        async def scene():
            sink = MemorySink()
            real = scripted(failure(500, body="boom"), OK)
            async with gateway_of(RecordingProvider(real, tmp_path / "run.json", sink=sink), retry=EXACT) as gateway:
                await ask(gateway)
            assert [event.fault_type for event in sink.events if isinstance(event, CallRecorded)] == [
                "http_error",
                None,
            ]
            replayed = gateway_of(MockProvider(tmp_path / "run.json", strict=True), retry=EXACT)
            return await ask(replayed)

        assert run(scene()).content == "fine"

    def test_a_recorder_before_the_gateway_keeps_what_the_caller_saw(self, tmp_path):
        async def scene():
            gateway = gateway_of(scripted(failure(500), OK), retry=EXACT)
            async with RecordingProvider(gateway, tmp_path / "run.json") as recorder:
                await ask(recorder)
            replay = MockProvider(tmp_path / "run.json", strict=True)
            return (await ask(replay)).content, replay.unused()

        assert run(scene()) == ("fine", [])

    def test_a_gateway_is_a_provider_behind_a_gateway(self):
        inner = gateway_of(scripted(failure(500), failure(500)), retry=RetryPolicy(max_retries=1, jitter=0.0))
        outer = gateway_of(inner, Steady("second"), retry=RetryPolicy(max_retries=0))
        assert run(ask(outer)) == OK


def test_every_way_to_ask_goes_through_it():
    gateway = gateway_of(Echo())
    assert gateway.complete_sync(user("Hi"), "m").content == "Hi #1"

    async def scene():
        return await gateway.complete(user("Hi"), "m"), await events_of(await gateway.stream(user("Hi"), "m"))

    whole, events = run(scene())
    assert whole.content == "Hi #2"
    assert texts_of(events) == ["Hi #3"]


class TestUsing:
    """One gateway, other rules for some calls."""

    def test_the_original_keeps_its_rules(self):
        gateway = gateway_of(scripted(failure(), failure(), OK), retry=RetryPolicy(max_retries=0))
        assert run(ask(gateway.using(retry=RetryPolicy(max_retries=2)))) == OK
        assert isinstance(run(outcome(ask(gateway))), IndexError)

    def test_what_is_not_reported_stays(self):
        async def scene():
            gateway = gateway_of(Steady(delay_s=9.0), deadline_s=5.0, retry=RetryPolicy(max_retries=0))
            await refusal(ask(gateway.using(retry=EXACT)))
            assert now_s() == 5.0
            await ask(gateway.using(deadline_s=10.0))
            return now_s()

        assert run(scene()) == 14.0

    def test_a_provider_registered_with_one_is_known_to_the_other(self):
        gateway = gateway_of()
        other = gateway.using(deadline_s=5.0)
        other.register(Steady())
        assert run(ask(gateway)) == OK


class TestClosing:
    def test_all_providers_are_closed(self):
        first, second = scripted(), scripted()
        gateway = gateway_of(first)
        gateway.register(second, rate_limit=RateLimit(requests_per_minute=1))
        run(gateway.close())
        assert first.closings == 1
        assert second.closings == 1

    def test_one_that_cannot_be_closed_does_not_keep_the_others(self):
        class Stuck(Steady):
            async def close(self):
                raise OSError("stuck")

        first, last = scripted(), scripted()
        error = run(refusal(gateway_of(first, Stuck(), last).close()))
        assert isinstance(error, OSError)
        assert first.closings == 1
        assert last.closings == 1

    def test_it_can_be_closed_twice_and_is_a_context(self):
        async def scene():
            provider = scripted()
            async with gateway_of(provider) as gateway:
                pass
            await gateway.close()
            return provider.closings

        assert run(scene()) == 2


def test_a_sink_that_fails_disturbs_no_call(caplog):
    class Failing:
        def emit(self, event):
            raise RuntimeError("full disk")

    with caplog.at_level(logging.ERROR):
        assert run(ask(gateway_of(scripted(failure(), OK), sink=Failing()))) == OK
    assert len(caplog.records) == 1


def test_a_sink_gets_events_as_things_happen():
    async def scene():
        sink = MemorySink()
        call = asyncio.create_task(ask(gateway_of(scripted(failure(), OK, delay_s=1.0), retry=EXACT, sink=sink)))
        await asyncio.sleep(0.5)
        early = kinds_of(sink)
        await asyncio.sleep(0.75)
        later = kinds_of(sink)
        await call
        return early, later

    early, later = run(scene())
    assert early == ["CallStarted", "AttemptStarted"]
    assert later == [*early, "AttemptEnded", "RetryScheduled"]


def test_runs_with_long_waits_take_next_to_no_time():
    """In each a call times out after 5 s, is told to come back after 30 s, and is then answered."""
    plan = FaultPlan(
        [
            At(attempt=1).fail(Timeout(after_ms=5000)),
            At(attempt=2).fail(HttpError(429, headers={"retry-after": "30"})),
        ]
    )

    async def scene():
        gateway = gateway_of(FaultInjector(mock({"ask": {"content": "fine"}}), plan), retry=EXACT)
        assert (await ask(gateway)).content == "fine"
        return now_s()

    started_s = time.perf_counter()
    assert {run(scene()) for _ in range(50)} == {35.5}
    assert time.perf_counter() - started_s < 35.5


def test_what_a_call_cost_is_reported():
    async def scene():
        sink = MemorySink()
        await gateway_of(MockProvider(responses=RECORDING), sink=sink).complete(user("Hi"), "m", step_id="classify")
        return sink.events[-1]

    ended = run(scene())
    assert isinstance(ended, CallEnded)
    fields = (ended.model, ended.prompt_tokens, ended.completion_tokens, ended.cost_usd, ended.finish_reason)
    assert fields == ("gpt-4o-mini", 10, 1, 0.0001, "stop")


def test_latencies_are_those_of_the_clock():
    sink = MemorySink()
    replay = mock({"ask": {"content": "fine", "latency_ms": 812.5}}, latency_model="replay")
    run(ask(gateway_of(replay, sink=sink)))
    assert [event.latency_s for event in sink.events if isinstance(event, AttemptEnded | CallEnded)] == [0.8125, 0.8125]


@pytest.mark.parametrize("thing", [MockProvider, None, "mock"])
def test_what_is_no_provider_is_refused_when_it_is_registered(thing):
    with pytest.raises(InputError, match="expected a provider"):
        ProviderGateway().register(thing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 7}, "retry: expected a RetryPolicy, got int\n  hint: retry=RetryPolicy(max_retries=7)"),
        ({"retry": "often"}, "retry: expected a RetryPolicy, got a str\n  hint: retry=RetryPolicy(max_retries=3)"),
        (
            {"breaker": 3},
            "breaker: expected a BreakerPolicy, got int\n  hint: breaker=BreakerPolicy(failures=3), or None",
        ),
    ],
)
def test_policies_of_the_wrong_type_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        ProviderGateway(**options)
    assert str(caught.value) == message


def test_a_gateway_with_other_rules_refuses_what_is_no_policy():
    with pytest.raises(InputError, match="retry: expected a RetryPolicy, got int"):
        ProviderGateway().using(retry=0)
