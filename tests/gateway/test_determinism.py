"""The same plan and recording give the same run, every time."""

import asyncio

import msgspec

from offbook import BreakerPolicy, FaultInjector, MemorySink, RateLimit, Response, RetryPolicy, chaos
from offbook.events import AttemptStarted, BreakerChanged, FallbackTaken, RetryScheduled
from offbook.faults import ConnectionReset, HttpError, MalformedResponse, StreamStall, StreamTruncate, Timeout
from tests.gateway.parts import gateway_of, mock, now_s, outcome, request, run

CALLS, RUNS = 50, 12
FAULTS = [
    HttpError(500),
    HttpError(429, headers={"Retry-After": "30"}),
    ConnectionReset(),
    MalformedResponse("not valid json"),
    Timeout(after_ms=5000),
    StreamTruncate(1),
    StreamStall(2, for_ms=4000),
]
RESPONSES = {f"step {number}": {"content": f"the answer to {number}"} for number in range(CALLS)}


def lived(seed):
    """All that can be seen of a run of many calls at once: how each ended and when, and every event."""
    sink = MemorySink()

    def provider(name, seed):
        replay = mock(RESPONSES, name=name, latency_model="normal", latency_ms=800.0, seed=seed, sink=sink)
        return FaultInjector(replay, chaos(seed=seed, rate=0.5, faults=FAULTS), sink=sink)

    async def scene():
        gateway = gateway_of(
            retry=RetryPolicy(seed=seed),
            breaker=BreakerPolicy(failures=4, reset_s=3.0),
            deadline_s=90.0,
            restart_streams=True,
            sink=sink,
        )
        gateway.register(provider("first", seed), rate_limit=RateLimit(requests_per_minute=40, tokens_per_minute=9000))
        gateway.register(provider("second", seed + 1))

        async def one(number):
            reply = await gateway.send(request(f"step {number}", stream=number % 2 == 0))
            return await reply.collect()

        async def describe(number):
            ended = await outcome(one(number))
            attempts = [(a.provider, a.attempt, str(a.error), a.wait_s) for a in getattr(ended, "attempts", ())]
            return ended if isinstance(ended, Response) else repr(ended), attempts, now_s()

        return await asyncio.gather(*map(describe, range(CALLS)))

    return run(scene()), sink.events


def test_many_calls_at_once_go_the_same_way_every_time():
    ends, events = lived(seed=1)
    first = msgspec.json.encode(ends)
    for _ in range(RUNS - 1):
        ends_again, events_again = lived(seed=1)
        assert msgspec.json.encode(ends_again) == first
        assert events_again == events


def test_the_run_is_eventful():
    """What is the same every time is worth comparing: answers, failures, retries, fallbacks and open breakers."""
    ends, events = lived(seed=1)
    answered = [ended for ended, *_ in ends if isinstance(ended, Response)]
    assert 5 < len(answered) < CALLS
    for kind in (RetryScheduled, FallbackTaken, BreakerChanged):
        assert sum(isinstance(event, kind) for event in events) > 2
    assert sum(isinstance(event, AttemptStarted) for event in events) > 2 * CALLS


def test_another_seed_gives_another_run():
    assert lived(seed=1) != lived(seed=5)
