"""A limit on what all calls together may cost."""

import asyncio

import pytest
from msgspec.structs import replace

from offbook import (
    AllProvidersFailedError,
    BreakerPolicy,
    InputError,
    MemorySink,
    OpenAIProvider,
    ProviderConnectionError,
    ProviderError,
    ProviderGateway,
    ProviderTimeoutError,
    RateLimit,
    RateLimitError,
    RetryPolicy,
    TextDelta,
)
from offbook.errors import BudgetExceededError, DeadlineExceededError
from offbook.events import AttemptEnded, CallEnded
from offbook.messages import StreamRestart
from offbook.providers import Price, PriceTable
from tests.fakes import events_of, read_until_broken
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    mock,
    now_s,
    outcome,
    refusal,
    request,
    run,
    scripted,
    texts_of,
    words,
)

DEAR = replace(OK, cost_usd=0.4)


def unpriced(**options):
    """A provider of a model that nobody knows the price of, at an address where nobody answers."""
    return OpenAIProvider(base_url="http://127.0.0.1:9/v1", **options)


def test_no_call_begins_whose_cost_no_budget_could_count():
    async def scene(*providers, **options):
        gateway = gateway_of(*providers, retry=RetryPolicy(max_retries=0), **options)
        error = await refusal(gateway.complete([{"role": "user", "content": "hi"}], "gpt-99"))
        return type(error), len(getattr(providers[0], "requests", ()))

    paid = unpriced(prices=PriceTable({"gpt-99": Price(1.0, 2.0)}))
    assert run(scene(unpriced(), budget_usd=1.0)) == (InputError, 0)
    assert run(scene(paid, budget_usd=1.0)) == (AllProvidersFailedError, 0)
    assert run(scene(unpriced())) == (AllProvidersFailedError, 0)
    assert run(scene(scripted(OK), unpriced(), budget_usd=1.0)) == (InputError, 0)  # the fallback could not be counted


def test_a_price_is_looked_for_under_the_name_that_the_provider_gets():
    gateway = ProviderGateway(retry=RetryPolicy(max_retries=0), budget_usd=1.0)
    gateway.register(unpriced(), as_model="gpt-5")
    question = gateway.complete([{"role": "user", "content": "hi"}], "fast")
    assert isinstance(run(refusal(question)), AllProvidersFailedError)


def test_calls_are_refused_once_it_is_spent():
    async def scene():
        sink = MemorySink()
        provider = scripted(*[DEAR] * 9)
        gateway = gateway_of(provider, budget_usd=1.0, sink=sink)
        for _ in range(3):
            assert await ask(gateway) == DEAR
        size = len(sink.events)
        error = await refusal(ask(gateway))
        assert len(provider.requests) == 3
        assert len(sink.events) == size
        return error

    error = run(scene())
    assert isinstance(error, BudgetExceededError)
    assert error.limit_usd == 1.0
    assert error.spent_usd == pytest.approx(1.2)
    assert str(error) == "the budget of 1 $ is spent (1.2 $ so far)"
    assert not isinstance(error, ProviderError)


def test_streams_count_when_they_have_ended():
    async def scene():
        gateway = gateway_of(scripted(words("one", "two", end=DEAR)), budget_usd=0.4)
        reply = await gateway.send(request(stream=True))
        assert gateway.budget.spent_usd == 0.0
        await reply.collect()
        assert gateway.budget.spent_usd == 0.4
        return await refusal(gateway.send(request(stream=True)))

    assert isinstance(run(scene()), BudgetExceededError)


def test_a_stream_counts_as_soon_as_its_last_event_is_seen():
    async def scene():
        gateway = gateway_of(scripted(words("one", end=DEAR)))
        async for _ in await gateway.send(request(stream=True)):
            pass
        return gateway.budget.spent_usd

    assert run(scene()) == 0.4


def test_calls_under_way_may_still_end():
    async def scene():
        gateway = gateway_of(scripted(*[DEAR] * 9, delay_s=1.0), budget_usd=0.4)
        ended = await asyncio.gather(*(outcome(ask(gateway)) for _ in range(3)))
        assert ended == [DEAR] * 3
        assert gateway.budget.spent_usd == pytest.approx(1.2)
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_what_fails_costs_nothing():
    async def scene():
        cut = [*words("one")[:-1], ProviderConnectionError("cut")]
        gateway = gateway_of(scripted(failure(), cut, failure(400)), retry=RetryPolicy(max_retries=1))
        await outcome(ask(gateway))
        return gateway.budget.spent_usd

    assert run(scene()) == 0.0


@pytest.mark.parametrize("cost_usd", [float("nan"), float("inf")])
def test_a_cost_that_is_no_number_does_not_make_it_endless(cost_usd):
    async def scene():
        gateway = gateway_of(scripted(replace(OK, cost_usd=cost_usd), DEAR), budget_usd=0.4)
        await ask(gateway)
        await ask(gateway)
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_it_is_shared_by_all_uses_of_a_gateway():
    async def scene():
        gateway = gateway_of(scripted(DEAR, DEAR), budget_usd=0.4)
        await ask(gateway.using(deadline_s=5.0))
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_a_budget_of_nothing_refuses_everything():
    assert isinstance(run(refusal(ask(gateway_of(scripted(OK), budget_usd=0.0)))), BudgetExceededError)


@pytest.mark.parametrize("budget_usd", [-0.01, float("nan")])
def test_a_budget_that_makes_no_sense_is_refused(budget_usd):
    with pytest.raises(InputError, match=r"^budget_usd: expected"):
        ProviderGateway(budget_usd=budget_usd)


EXACT = RetryPolicy(max_retries=9, backoff_s=1.0, jitter=0.0)
STREAM = request(stream=True)


async def timed(work):
    """How `work` ends, and after how many seconds."""
    started_s = now_s()
    ended = await outcome(work)
    return ended, now_s() - started_s


def test_a_call_that_takes_longer_ends_at_its_deadline():
    gateway = gateway_of(Steady(delay_s=60.0), deadline_s=5.0)
    error, took_s = run(timed(ask(gateway)))
    assert isinstance(error, DeadlineExceededError)
    assert error.deadline_s == 5.0
    assert error.attempts == ()
    assert took_s == 5.0
    assert str(error) == "no answer within 5 s, after 0 failed attempts"


def test_it_is_a_failure_of_a_provider_and_a_timeout():
    error = run(refusal(ask(gateway_of(Steady(delay_s=60.0), deadline_s=5.0))))
    assert isinstance(error, ProviderError)
    assert isinstance(error, ProviderTimeoutError)
    assert isinstance(error, TimeoutError)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_in_time_does_not_notice(stream):
    gateway = gateway_of(scripted([4.0, TextDelta("one"), 0.9, OK]), deadline_s=5.0)
    assert run(timed(ask(gateway, request(stream=stream)))) == (OK, 4.9)


def test_tries_and_waits_count():
    """Failures at 0.5, 2 and 4.5 s, with 1 and 2 s between; the next wait would end at 8.5."""
    gateway = gateway_of(scripted(*[failure()] * 9, delay_s=0.5), retry=EXACT, deadline_s=5.0)
    error, took_s = run(timed(ask(gateway)))
    assert isinstance(error, DeadlineExceededError)
    assert [(attempt.attempt, attempt.wait_s) for attempt in error.attempts] == [(1, 1.0), (2, 2.0), (3, 0.0)]
    assert isinstance(error.__cause__, ProviderError)
    assert took_s == 4.5


def test_a_try_that_is_under_way_at_the_deadline_is_cut():
    gateway = gateway_of(scripted(*[failure()] * 9, delay_s=2.2), retry=EXACT, deadline_s=5.0)
    error, took_s = run(timed(ask(gateway)))
    assert isinstance(error, DeadlineExceededError)
    assert len(error.attempts) == 1
    assert took_s == 5.0


def test_a_wait_that_would_outlast_it_is_not_begun_if_another_provider_can_be_asked():
    gateway = gateway_of(scripted(RateLimitError("", retry_after_s=30.0)), Steady(), deadline_s=10.0)
    assert run(timed(ask(gateway))) == (OK, 0.0)


def test_it_covers_all_providers_together():
    slow = scripted(failure(400), name="slow", delay_s=4.0)
    gateway = gateway_of(slow, Steady("b", delay_s=3.0), deadline_s=5.0)
    error, took_s = run(timed(ask(gateway)))
    assert isinstance(error, DeadlineExceededError)
    assert [attempt.provider for attempt in error.attempts] == ["slow"]
    assert took_s == 5.0


def test_waiting_for_a_slot_counts():
    async def scene():
        gateway = ProviderGateway(deadline_s=5.0)
        gateway.register(Steady(), rate_limit=RateLimit(requests_per_minute=1))
        assert await ask(gateway) == OK
        return await timed(ask(gateway))

    error, took_s = run(scene())
    assert isinstance(error, DeadlineExceededError)
    assert took_s == 5.0


def test_a_provider_s_own_timeout_is_something_else():
    provider = mock({"ask": [{"fault": {"type": "timeout", "after_ms": 1000}}, {"content": "fine"}]})
    answered, took_s = run(timed(ask(gateway_of(provider, retry=EXACT, deadline_s=5.0))))
    assert answered.content == "fine"
    assert took_s == 2.0


def test_a_timeout_of_the_provider_itself_is_not_taken_for_the_deadline():
    error = run(refusal(ask(gateway_of(scripted(TimeoutError("its own")), deadline_s=5.0, retry=RetryPolicy(0)))))
    assert isinstance(error, AllProvidersFailedError)
    assert "TimeoutError: its own" in str(error)


def test_a_caller_s_own_timeout_is_something_else():
    async def scene():
        gateway = gateway_of(Steady(delay_s=60.0), deadline_s=5.0)
        async with asyncio.timeout(1.0):
            await ask(gateway)

    with pytest.raises(TimeoutError) as caught:
        run(scene())
    assert not isinstance(caught.value, ProviderError)


def test_the_provider_is_not_to_blame():
    sink = MemorySink()
    gateway = gateway_of(Steady(delay_s=60.0), deadline_s=5.0, breaker=BreakerPolicy(failures=1), sink=sink)
    run(refusal(ask(gateway)))
    assert gateway.breakers["steady"].state == "closed"
    ended = [(type(event), event.error) for event in sink.events if isinstance(event, AttemptEnded | CallEnded)]
    assert ended == [(AttemptEnded, "DeadlineExceededError"), (CallEnded, "DeadlineExceededError")]


def test_a_request_may_have_a_deadline_of_its_own():
    gateway = gateway_of(Steady(delay_s=3.0), deadline_s=2.0)
    assert run(timed(ask(gateway.using(deadline_s=4.0)))) == (OK, 3.0)
    assert isinstance(run(outcome(ask(gateway))), DeadlineExceededError)
    other = gateway.using(retry=EXACT)
    assert isinstance(run(outcome(ask(other))), DeadlineExceededError)


def test_a_gateway_behind_a_gateway_has_its_own():
    async def scene():
        inner = gateway_of(Steady(delay_s=60.0), deadline_s=2.0)
        outer = gateway_of(inner, Steady("second", delay_s=1.0), retry=RetryPolicy(max_retries=1, jitter=0.0))
        return await timed(ask(outer.using(deadline_s=20.0)))

    assert run(scene()) == (OK, 2.0 + 0.5 + 2.0 + 1.0)


class TestStreams:
    """Of a stream, the deadline is that of its last event."""

    def test_silence_before_the_first_event(self):
        gateway = gateway_of(scripted([60.0, TextDelta("one"), OK]), deadline_s=5.0)
        error, took_s = run(timed(gateway.send(STREAM)))
        assert isinstance(error, DeadlineExceededError)
        assert took_s == 5.0

    def test_silence_in_the_middle(self):
        async def scene():
            provider = scripted([1.0, TextDelta("one"), 60.0, OK])
            reply = await gateway_of(provider, deadline_s=5.0).send(STREAM)
            came, error = await read_until_broken(reply)
            assert isinstance(error, DeadlineExceededError)
            assert provider.closed_replies
            return came, now_s()

        assert run(scene()) == ([TextDelta("one")], 5.0)

    def test_a_drizzle(self):
        async def scene():
            drizzle = [step for _ in range(100) for step in (0.3, TextDelta("."))]
            reply = await gateway_of(scripted(drizzle), deadline_s=5.0).send(STREAM)
            came, error = await read_until_broken(reply)
            assert isinstance(error, DeadlineExceededError)
            return len(came), now_s()

        assert run(scene()) == (16, 5.0)

    def test_a_reader_that_takes_its_time(self):
        async def slow(reply, came):
            async for event in reply:
                came.append(event)
                await asyncio.sleep(2.0)

        async def scene():
            came = []
            reply = await gateway_of(scripted(words("one", "two", "three", "four")), deadline_s=5.0).send(STREAM)
            assert isinstance(await refusal(slow(reply, came)), DeadlineExceededError)
            return texts_of(came), now_s()

        assert run(scene()) == (["one", "two", "three"], 6.0)

    def test_a_stream_that_breaks_before_it_is_interrupted_all_the_same(self):
        async def scene():
            script = [TextDelta("one"), ProviderConnectionError("cut")]
            reply = await gateway_of(scripted(script), deadline_s=5.0).send(STREAM)
            return (await read_until_broken(reply))[1]

        error = run(scene())
        assert not isinstance(error, DeadlineExceededError)
        assert error.partial.content == "one"

    def test_starting_over_counts(self):
        async def scene():
            script = [1.0, TextDelta("one"), ProviderConnectionError("cut")]
            gateway = gateway_of(scripted(*[script] * 9), retry=EXACT, restart_streams=True, deadline_s=5.0)
            came, error = await read_until_broken(await gateway.send(STREAM))
            return [type(event) for event in came], error, now_s()

        kinds, error, ended_s = run(scene())
        assert kinds == [TextDelta, StreamRestart, TextDelta]
        assert isinstance(error, DeadlineExceededError)
        assert len(error.attempts) == 2
        assert ended_s == 3.0

    def test_a_deadline_of_the_gateway_behind_is_a_broken_stream(self):
        async def scene():
            inner = gateway_of(scripted([TextDelta("one"), 60.0]), deadline_s=2.0)
            outer = gateway_of(inner, scripted(words("new"), name="second"), restart_streams=True, deadline_s=50.0)
            return await events_of(await outer.using(retry=RetryPolicy(max_retries=0)).send(STREAM))

        first, restart, second, _ = run(scene())
        assert first == TextDelta("one")
        assert second == TextDelta("new")
        assert "no answer within 2 s" in restart.reason


@pytest.mark.parametrize("deadline_s", [0, -1.0, float("nan")])
def test_a_deadline_that_makes_no_sense_is_refused(deadline_s):
    with pytest.raises(InputError, match=r"^deadline_s: expected"):
        ProviderGateway(deadline_s=deadline_s)
    with pytest.raises(InputError, match=r"^deadline_s: expected"):
        ProviderGateway().using(deadline_s=deadline_s)


def test_without_one_a_call_may_take_for_ever():
    gateway = gateway_of(
        mock({"ask": {"fault": {"type": "timeout", "after_ms": 1e9}}}), retry=RetryPolicy(max_retries=1)
    )
    error, took_s = run(timed(ask(gateway)))
    assert isinstance(error, AllProvidersFailedError)
    assert took_s > 2e6
