"""The circuit breaker: closed, open, half open."""

import asyncio
import gc

import pytest

from offbook import (
    AllProvidersFailedError,
    BreakerPolicy,
    InputError,
    MemorySink,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimit,
    RateLimitError,
    RetryPolicy,
    TextDelta,
)
from offbook.errors import BreakerOpenError, MalformedResponseError
from offbook.events import AttemptStarted, BreakerChanged
from tests.fakes import Scripted
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
    words,
)

POLICY = BreakerPolicy(failures=3, reset_s=60.0)
ONCE = RetryPolicy(max_retries=0)


def guarded(*outcomes, policy=POLICY, **options):
    """A gateway around one provider with these outcomes, the provider, and a sink."""
    sink = MemorySink()
    provider = scripted(*outcomes)
    return gateway_of(provider, breaker=policy, retry=ONCE, sink=sink, **options), provider, sink


def state_of(gateway):
    (breaker,) = gateway.breakers.values()
    return breaker.state


def changes_in(sink):
    return [(event.provider, event.state) for event in sink.events if isinstance(event, BreakerChanged)]


async def fail(gateway, times, call=None):
    for _ in range(times):
        await refusal(ask(gateway, call))


async def is_refused(gateway):
    """Whether a call ends at the breaker."""
    ended = await outcome(ask(gateway))
    return isinstance(ended, AllProvidersFailedError) and isinstance(ended.attempts[-1].error, BreakerOpenError)


def test_it_opens_after_so_many_failures_in_a_row():
    async def scene():
        gateway, provider, sink = guarded(*[failure()] * 3)
        await fail(gateway, 2)
        assert state_of(gateway) == "closed"
        await fail(gateway, 1)
        assert state_of(gateway) == "open"
        assert await is_refused(gateway)
        assert len(provider.requests) == 3
        assert changes_in(sink) == [("scripted", "open")]

    run(scene())


def test_the_refusal_says_how_long_it_is_open():
    async def scene():
        gateway, *_ = guarded(*[failure()] * 3)
        await fail(gateway, 3)
        await asyncio.sleep(20.0)
        return await refusal(ask(gateway))

    error = run(scene())
    (attempt,) = error.attempts
    assert str(attempt.error) == "scripted: the circuit breaker is open for another 40 s"
    assert error.status_code is None


def test_a_success_between_starts_the_count_anew():
    async def scene():
        gateway, *_ = guarded(failure(), failure(), OK, failure(), failure(), OK)
        for _ in range(6):
            await outcome(ask(gateway))
        return state_of(gateway)

    assert run(scene()) == "closed"


@pytest.mark.parametrize(
    "error",
    [
        failure(500),
        failure(503),
        failure(529),
        ProviderTimeoutError("late"),
        ProviderConnectionError("cut"),
        MalformedResponseError("what?"),
        ProviderError("an error event"),
    ],
    ids=repr,
)
def test_failures_of_the_provider_trip_it(error):
    gateway, *_ = guarded(error, policy=BreakerPolicy(failures=1))
    run(fail(gateway, 1))
    assert state_of(gateway) == "open"


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down"),
        failure(400),
        failure(401),
        failure(404),
        failure(408),
        ValueError("a bug"),
        KeyError("another"),
    ],
    ids=repr,
)
def test_rate_limits_refused_requests_and_bugs_do_not(error):
    gateway, *_ = guarded(error, policy=BreakerPolicy(failures=1))
    run(fail(gateway, 1))
    assert state_of(gateway) == "closed"


def test_what_says_nothing_of_the_provider_does_not_end_a_row_of_failures():
    async def scene():
        gateway, *_ = guarded(failure(), RateLimitError("slow down"), failure(), failure(404), failure())
        await fail(gateway, 5)
        return state_of(gateway)

    assert run(scene()) == "open"


def test_a_caller_that_leaves_does_not_trip_it():
    async def scene():
        gateway, *_ = guarded([60.0, OK], OK, policy=BreakerPolicy(failures=1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await ask(gateway)
        return state_of(gateway), await ask(gateway)

    assert run(scene()) == ("closed", OK)


def test_every_try_counts():
    async def scene():
        gateway, provider, _ = guarded(*[failure()] * 3)
        error = await refusal(ask(gateway.using(retry=RetryPolicy(max_retries=9))))
        assert [type(attempt.error) for attempt in error.attempts] == [*[ProviderError] * 3, BreakerOpenError]
        assert len(provider.requests) == 3

    run(scene())


class TestHalfOpen:
    """After a while one call is let through, to see."""

    async def opened(self, *outcomes, **options):
        gateway, provider, sink = guarded(failure(), failure(), failure(), *outcomes, **options)
        await fail(gateway, 3)
        return gateway, provider, sink

    def test_not_before_its_time(self):
        async def scene():
            gateway, *_ = await self.opened(OK)
            await asyncio.sleep(59.999)
            assert await is_refused(gateway)
            await asyncio.sleep(0.001)
            assert await ask(gateway) == OK

        run(scene())

    def test_a_probe_that_succeeds_closes_it(self):
        async def scene():
            gateway, _, sink = await self.opened(OK, failure(), failure(), OK)
            await asyncio.sleep(60.0)
            assert await ask(gateway) == OK
            assert changes_in(sink) == [("scripted", state) for state in ("open", "half_open", "closed")]
            await fail(gateway, 2)
            assert state_of(gateway) == "closed"

        run(scene())

    def test_a_probe_that_fails_opens_it_for_as_long_again(self):
        async def scene():
            gateway, provider, sink = await self.opened(failure(), OK)
            await asyncio.sleep(60.0)
            await fail(gateway, 1)
            assert state_of(gateway) == "open"
            await asyncio.sleep(59.0)
            assert await is_refused(gateway)
            await asyncio.sleep(1.0)
            assert await ask(gateway) == OK
            assert len(provider.requests) == 5
            states = [state for _, state in changes_in(sink)]
            assert states == ["open", "half_open", "open", "half_open", "closed"]

        run(scene())

    def test_there_is_one_probe_and_others_are_refused_meanwhile(self):
        async def scene():
            gateway, provider, _ = await self.opened([5.0, TextDelta("slow"), OK], OK)
            await asyncio.sleep(60.0)
            calls = [asyncio.create_task(outcome(ask(gateway))) for _ in range(10)]
            answers = await asyncio.gather(*calls)
            assert answers.count(OK) == 1
            messages = {str(answer.attempts[0].error) for answer in answers if answer != OK}
            assert messages == {"scripted: the circuit breaker is half open, and a call is probing"}
            assert len(provider.requests) == 4
            assert await ask(gateway) == OK

        run(scene())

    @pytest.mark.parametrize("said", [RateLimitError("slow down"), failure(400), ValueError("a bug")], ids=repr)
    def test_a_probe_that_says_nothing_of_the_provider_leaves_the_next_call_to_probe(self, said):
        async def scene():
            gateway, _, sink = await self.opened(said, OK)
            await asyncio.sleep(60.0)
            await fail(gateway, 1)
            assert state_of(gateway) == "half_open"
            assert await ask(gateway) == OK
            assert [state for _, state in changes_in(sink)] == ["open", "half_open", "closed"]

        run(scene())

    def test_a_probe_that_is_cancelled_leaves_the_next_call_to_probe(self):
        async def scene():
            gateway, *_ = await self.opened([60.0, OK], OK)
            await asyncio.sleep(60.0)
            probe = asyncio.create_task(ask(gateway))
            await asyncio.sleep(1.0)
            assert await is_refused(gateway)
            probe.cancel()
            await asyncio.wait([probe])
            assert await ask(gateway) == OK
            assert state_of(gateway) == "closed"

        run(scene())

    @pytest.mark.parametrize("read", [0, 1])
    @pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "dropped"])
    def test_a_probe_whose_stream_is_abandoned_leaves_the_next_call_to_probe(self, read, is_closed):
        async def scene():
            gateway, *_ = await self.opened(words("one", "two"), OK)
            await asyncio.sleep(60.0)
            reply = await gateway.send(request(stream=True))
            assert await is_refused(gateway)
            for _ in range(read):
                await anext(aiter(reply))
            if is_closed:
                await reply.aclose()
            del reply
            gc.collect()
            await asyncio.sleep(0.001)
            assert await ask(gateway) == OK

        run(scene())

    def test_a_probe_that_waits_for_a_slot_can_be_cancelled_too(self):
        async def scene():
            sink, provider = MemorySink(), scripted(failure(), OK, OK)
            gateway = gateway_of(breaker=BreakerPolicy(failures=1, reset_s=1.0), retry=ONCE, sink=sink)
            gateway.register(provider, rate_limit=RateLimit(requests_per_minute=1))
            await fail(gateway, 1)
            await asyncio.sleep(1.0)
            probe = asyncio.create_task(ask(gateway))
            await asyncio.sleep(1.0)
            probe.cancel()
            await asyncio.wait([probe])
            assert await ask(gateway) == OK
            assert state_of(gateway) == "closed"
            assert now_s() == pytest.approx(60.0)

        run(scene())


class TestStreams:
    """A stream ends when its last event is read."""

    POLICY = BreakerPolicy(failures=1)

    def state_after(self, script, *, read=10):
        """The breaker's state after a stream of which so many events are read, if they come."""

        async def scene():
            gateway, *_ = guarded(script, policy=self.POLICY)
            reply = await gateway.send(request(stream=True))
            events = aiter(reply)
            for _ in range(read):
                await outcome(anext(events))
            await reply.aclose()
            return state_of(gateway)

        return run(scene())

    @pytest.mark.parametrize("read", [0, 1])
    def test_a_reader_that_stops_does_not_trip_it(self, read):
        assert self.state_after(words("one", "two"), read=read) == "closed"

    def test_a_provider_that_breaks_it_does(self):
        assert self.state_after([TextDelta("one"), ProviderConnectionError("cut")]) == "open"

    def test_a_provider_that_just_ends_it_does(self):
        assert self.state_after([TextDelta("one")]) == "open"

    def test_a_stream_that_was_read_to_its_end_is_a_success(self):
        async def scene():
            gateway, *_ = guarded(failure(), words("one"), failure(), policy=BreakerPolicy(failures=2))
            await fail(gateway, 1)
            assert await ask(gateway, request(stream=True)) == OK
            await fail(gateway, 1)
            return state_of(gateway)

        assert run(scene()) == "closed"

    def test_one_that_fails_before_its_first_event_trips_it(self):
        async def scene():
            gateway, *_ = guarded([ProviderConnectionError("cut")], policy=self.POLICY)
            await refusal(gateway.send(request(stream=True)))
            return state_of(gateway)

        assert run(scene()) == "open"


class TestStaleCalls:
    """How a call ends counts only while the breaker is as it was when the call was let through."""

    def test_a_success_begun_before_it_opened_does_not_close_it(self):
        async def scene():
            gateway, *_ = guarded([30.0, OK], failure(), failure(), failure())
            slow = asyncio.create_task(ask(gateway))
            await asyncio.sleep(1.0)
            await fail(gateway, 3)
            assert await slow == OK
            return state_of(gateway)

        assert run(scene()) == "open"

    def test_nor_does_one_close_it_while_a_probe_is_under_way(self):
        async def scene():
            gateway, *_ = guarded([62.0, OK], *[failure()] * 3, [5.0, failure()])
            slow = asyncio.create_task(ask(gateway))
            await asyncio.sleep(0.0)
            await fail(gateway, 3)
            await asyncio.sleep(60.0)
            probe = asyncio.create_task(outcome(ask(gateway)))
            assert await slow == OK
            assert state_of(gateway) == "half_open"
            assert await is_refused(gateway)
            await probe
            return state_of(gateway)

        assert run(scene()) == "open"

    def test_a_failure_begun_before_it_opened_does_not_count_after_it_closed(self):
        async def scene():
            old = [90.0, failure()]
            gateway, *_ = guarded(old, failure(), failure(), failure(), OK, failure(), failure())
            slow = asyncio.create_task(outcome(ask(gateway)))
            await asyncio.sleep(0.0)
            await fail(gateway, 3)
            await asyncio.sleep(60.0)
            assert await ask(gateway) == OK
            await fail(gateway, 2)
            assert isinstance(await slow, AllProvidersFailedError)
            return state_of(gateway)

        assert run(scene()) == "closed"


def test_each_provider_has_its_own():
    async def scene():
        sink = MemorySink()
        gateway = gateway_of(
            mock({"ask": {"fault": {"type": "http_error", "status_code": 500}}}, name="down"),
            Steady("up"),
            breaker=POLICY,
            retry=ONCE,
            sink=sink,
        )
        for _ in range(5):
            assert await ask(gateway) == OK
        providers = [event.provider for event in sink.events if isinstance(event, AttemptStarted)]
        assert providers == ["down", "up"] * 5
        assert {name: breaker.state for name, breaker in gateway.breakers.items()} == {"down": "open", "up": "closed"}
        assert len(gateway.breakers) == 2
        assert changes_in(sink) == [("down", "open")]

    run(scene())


def test_a_provider_whose_breaker_is_open_is_passed_over_without_a_wait():
    async def scene():
        down, up = scripted(failure(), failure(), name="down"), Steady("up")
        gateway = gateway_of(down, up, breaker=BreakerPolicy(failures=2))
        assert await ask(gateway) == OK
        waited_s = now_s()
        assert await ask(gateway) == OK
        assert len(down.requests) == 2
        return waited_s, now_s()

    first_s, second_s = run(scene())
    assert second_s == first_s


def test_without_a_breaker_a_provider_is_always_asked():
    async def scene():
        gateway, provider, sink = guarded(*[failure()] * 50, policy=None)
        await fail(gateway, 50)
        assert len(provider.requests) == 50
        assert changes_in(sink) == []

    run(scene())


def test_an_open_breaker_does_not_outlast_its_event_loop():
    """On a virtual loop time starts at zero again."""
    gateway, *_ = guarded(*[failure()] * 3, OK)

    async def late():
        await asyncio.sleep(1e6)
        await fail(gateway, 3)

    run(late())
    assert state_of(gateway) == "open"
    assert run(ask(gateway)) == OK


def test_a_breaker_is_shared_by_all_uses_of_its_gateway():
    gateway, *_ = guarded(*[failure()] * 3)
    run(fail(gateway.using(deadline_s=5.0), 3))
    assert state_of(gateway) == "open"


@pytest.mark.parametrize("field", [{"failures": 0}, {"reset_s": -1.0}, {"reset_s": float("nan")}], ids=str)
def test_a_policy_that_makes_no_sense_is_refused_by_the_name_of_its_field(field):
    (name,) = field
    with pytest.raises(InputError, match=f"^{name}: expected"):
        BreakerPolicy(**field)


def test_a_script_is_played_to_its_end():
    """The scripts above say how often a provider is asked: one that is asked too often raises an IndexError."""
    with pytest.raises(IndexError):
        run(Scripted().send(request()))
