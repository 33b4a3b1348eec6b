"""The events of a call, in order and each end once."""

import asyncio
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from offbook import (
    At,
    BreakerPolicy,
    FaultInjector,
    FaultPlan,
    MemorySink,
    ProviderConnectionError,
    RateLimit,
    RetryPolicy,
    TextDelta,
)
from offbook.events import (
    AttemptEnded,
    AttemptStarted,
    BreakerChanged,
    CallEnded,
    CallStarted,
    FallbackTaken,
    FaultFired,
    ReplayServed,
    RetryScheduled,
)
from offbook.faults import (
    ConnectionReset,
    EmptyResponse,
    HttpError,
    MalformedResponse,
    StreamStall,
    StreamTruncate,
    Timeout,
)
from offbook.messages import StreamRestart
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
    words,
)

EXACT = RetryPolicy(max_retries=1, jitter=0.0)
STREAM = request(stream=True)
CUT = ProviderConnectionError("cut")


def recorded_events(scene):
    """The events of a scene, which is given a sink."""
    sink = MemorySink()
    run(scene(sink))
    return sink.events


def test_a_call_that_is_answered():
    async def scene(sink):
        await ask(gateway_of(Steady(delay_s=2.0), sink=sink), request(workflow="w"))

    assert recorded_events(scene) == [
        CallStarted("ask", "m", "w", 1),
        AttemptStarted("ask", "steady", "m", "w", 1, 1),
        AttemptEnded("ask", "steady", "m", 2.0, None, None, "w", 1, 1),
        CallEnded("ask", "steady", "m", 2.0, 3, 4, 0.0, "stop", None, "w", 1),
    ]


def test_a_retry_and_a_fallback():
    async def scene(sink):
        first = scripted(failure(500), failure(503), name="a", delay_s=1.0)
        await ask(gateway_of(first, Steady("b"), retry=EXACT, sink=sink))

    assert recorded_events(scene) == [
        CallStarted("ask", "m", "", 1),
        AttemptStarted("ask", "a", "m", "", 1, 1),
        AttemptEnded("ask", "a", "m", 1.0, "ProviderError", 500, "", 1, 1),
        RetryScheduled("ask", "a", 0.5, "ProviderError", "", 1, 1),
        AttemptStarted("ask", "a", "m", "", 1, 2),
        AttemptEnded("ask", "a", "m", 1.0, "ProviderError", 503, "", 1, 2),
        FallbackTaken("ask", "a", "b", "", 1),
        AttemptStarted("ask", "b", "m", "", 1, 1),
        AttemptEnded("ask", "b", "m", 0.0, None, None, "", 1, 1),
        CallEnded("ask", "b", "m", 2.5, 3, 4, 0.0, "stop", None, "", 1),
    ]


def test_a_call_that_fails():
    async def scene(sink):
        await refusal(ask(gateway_of(scripted(failure(400)), sink=sink)))

    assert recorded_events(scene) == [
        CallStarted("ask", "m", "", 1),
        AttemptStarted("ask", "scripted", "m", "", 1, 1),
        AttemptEnded("ask", "scripted", "m", 0.0, "ProviderError", 400, "", 1, 1),
        CallEnded("ask", "scripted", "m", 0.0, finish_reason=None, error="AllProvidersFailedError", call=1),
    ]


def test_a_breaker_that_opens_refuses_and_closes_again():
    async def scene(sink):
        gateway = gateway_of(
            scripted(failure(), OK), retry=RetryPolicy(0), breaker=BreakerPolicy(failures=1, reset_s=9.0), sink=sink
        )
        await refusal(ask(gateway))
        await refusal(ask(gateway))
        await asyncio.sleep(9.0)
        await ask(gateway)

    assert [event for event in recorded_events(scene) if not isinstance(event, CallStarted | CallEnded)] == [
        AttemptStarted("ask", "scripted", "m", "", 1, 1),
        BreakerChanged("scripted", "open"),
        AttemptEnded("ask", "scripted", "m", 0.0, "ProviderError", 500, "", 1, 1),
        AttemptStarted("ask", "scripted", "m", "", 2, 1),
        AttemptEnded("ask", "scripted", "m", 0.0, "BreakerOpenError", None, "", 2, 1),
        AttemptStarted("ask", "scripted", "m", "", 3, 1),
        BreakerChanged("scripted", "half_open"),
        BreakerChanged("scripted", "closed"),
        AttemptEnded("ask", "scripted", "m", 0.0, None, None, "", 3, 1),
    ]


def test_a_stream_that_breaks():
    async def scene(sink):
        reply = await gateway_of(scripted([1.0, TextDelta("one"), 1.0, CUT]), sink=sink).send(STREAM)
        await read_until_broken(reply)

    assert recorded_events(scene)[1:] == [
        AttemptStarted("ask", "scripted", "m", "", 1, 1),
        AttemptEnded("ask", "scripted", "m", 2.0, "ProviderConnectionError", None, "", 1, 1),
        CallEnded("ask", "scripted", "m", 2.0, finish_reason=None, error="StreamInterruptedError", call=1),
    ]


def test_a_stream_that_starts_over():
    async def scene(sink):
        gateway = gateway_of(
            scripted([TextDelta("on"), 1.0, CUT], words("one")), retry=EXACT, restart_streams=True, sink=sink
        )
        await events_of(await gateway.send(STREAM))

    assert recorded_events(scene)[1:] == [
        AttemptStarted("ask", "scripted", "m", "", 1, 1),
        AttemptEnded("ask", "scripted", "m", 1.0, "ProviderConnectionError", None, "", 1, 1),
        RetryScheduled("ask", "scripted", 0.5, "ProviderConnectionError", "", 1, 1),
        AttemptStarted("ask", "scripted", "m", "", 1, 2),
        AttemptEnded("ask", "scripted", "m", 0.0, None, None, "", 1, 2),
        CallEnded("ask", "scripted", "m", 1.5, 3, 4, 0.0, "stop", None, "", 1),
    ]


def test_a_stream_has_ended_when_its_last_event_is_read():
    async def scene(sink):
        reply = await gateway_of(scripted([TextDelta("one"), 3.0, OK]), sink=sink).send(STREAM)
        assert len(sink.events) == 2
        await reply.collect()
        assert now_s() == 3.0

    ended = recorded_events(scene)[2:]
    assert [event.latency_s for event in ended] == [3.0, 3.0]


def test_what_happens_behind_the_gateway_is_reported_inside_the_attempt():
    async def scene(sink):
        plan = FaultPlan([At(attempt=1).fail(Timeout(after_ms=5000))])
        provider = FaultInjector(mock({"ask": {"content": "one two"}}, sink=sink), plan, sink=sink)
        await events_of(await gateway_of(provider, retry=EXACT, sink=sink).send(STREAM))

    kinds = [type(event) for event in recorded_events(scene)]
    attempts = [
        [AttemptStarted, FaultFired, AttemptEnded],
        [RetryScheduled],
        [AttemptStarted, ReplayServed, AttemptEnded],
    ]
    assert kinds == [CallStarted, *(kind for attempt in attempts for kind in attempt), CallEnded]


FAULTS = st.sampled_from(
    [
        HttpError(500),
        HttpError(503, headers={"retry-after": "2"}),
        HttpError(429, headers={"retry-after": "1"}),
        HttpError(429, headers={"retry-after": "3600"}),
        HttpError(400),
        ConnectionReset(),
        MalformedResponse("not json"),
        Timeout(after_ms=3000),
        StreamTruncate(0),
        StreamTruncate(1),
        StreamTruncate(2, "clean"),
        StreamStall(1, for_ms=4000),
        EmptyResponse(),
    ]
)


@st.composite
def calls(draw):
    """Calls of steps of their own: when each begins, whether it streams, when its caller leaves, and its faults."""
    return [
        (
            draw(st.floats(0.0, 10.0)),
            draw(st.booleans()),
            draw(st.none() | st.floats(0.0, 12.0)),
            draw(st.none() | st.integers(0, 3)),
            draw(st.dictionaries(st.integers(1, 3), FAULTS, max_size=3)),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


async def consume(gateway, call, read):
    """Read a call's reply, or so many events of it, and then leave it."""
    reply = await gateway.send(call)
    try:
        events = aiter(reply)
        while read is None or read > 0:
            await anext(events)
            read = None if read is None else read - 1
    except StopAsyncIteration:
        pass
    finally:
        await reply.aclose()


@given(
    calls=calls(),
    restart_streams=st.booleans(),
    deadline_s=st.none() | st.floats(0.5, 10.0),
    slots=st.none() | st.integers(1, 30),
)
def test_every_start_has_exactly_one_end_whatever_happens(calls, restart_streams, deadline_s, slots):
    sink = MemorySink()
    lines = [
        At(step_id=str(step), attempt=attempt).fail(fault)
        for step, (*_, faults) in enumerate(calls)
        for attempt, fault in faults.items()
    ]
    responses = {str(step): {"content": "one two three"} for step in range(len(calls))} | {"last": {"content": "fine"}}

    async def scene():
        gateway = gateway_of(
            sink=sink,
            deadline_s=deadline_s,
            restart_streams=restart_streams,
            breaker=BreakerPolicy(failures=3, reset_s=5.0),
        )
        limit = None if slots is None else RateLimit(requests_per_minute=slots)
        gateway.register(FaultInjector(mock(responses, name="a"), FaultPlan(lines)), rate_limit=limit)
        gateway.register(FaultInjector(mock(responses, name="b"), FaultPlan(lines[::2])), is_fallback=True)

        async def one(step, begins_s, stream, leaves_s, read):
            await asyncio.sleep(begins_s)
            async with asyncio.timeout(leaves_s):
                await consume(gateway, request(str(step), stream=stream), read)

        await asyncio.gather(*(outcome(one(step, *call[:-1])) for step, call in enumerate(calls)))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(3600.0)
        assert (await ask(gateway, request("last"))).content == "fine"

    run(scene())
    check_story(sink.events)


def check_story(events):
    """Every call starts once and ends once; between, its attempts start and end one after the other."""
    stories = defaultdict(list)
    for event in events:
        if not isinstance(event, BreakerChanged):
            stories[event.step_id, event.call].append(event)
    for story in stories.values():
        first, *between, last = story
        assert isinstance(first, CallStarted)
        assert isinstance(last, CallEnded)
        under_way = None
        for event in between:
            match event:
                case AttemptStarted():
                    assert under_way is None
                    under_way = event
                case AttemptEnded():
                    assert event.provider == under_way.provider
                    assert event.attempt == under_way.attempt
                    under_way = None
                case RetryScheduled() | FallbackTaken():
                    assert under_way is None
                case _:
                    raise AssertionError(f"unexpected: {event}")
        assert under_way is None


def test_the_check_of_stories_finds_what_is_missing():
    """The property above can fail."""
    whole = recorded_events(lambda sink: ask(gateway_of(Steady(), sink=sink)))
    for place in range(len(whole)):
        broken = [event for index, event in enumerate(whole) if index != place]
        assert run(outcome(check(broken))) is not None


async def check(events):
    try:
        check_story(events)
    except (AssertionError, AttributeError) as error:
        return error
    return None


def test_a_restart_is_no_event_of_the_sink():
    async def scene(sink):
        gateway = gateway_of(scripted([TextDelta("on"), CUT], words("one")), restart_streams=True, sink=sink)
        assert any(isinstance(event, StreamRestart) for event in await events_of(await gateway.send(STREAM)))

    assert not any(isinstance(event, StreamRestart) for event in recorded_events(scene))
