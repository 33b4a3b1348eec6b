"""A caller that leaves, at whatever moment, leaves nothing behind."""

import asyncio
import gc

import pytest

from offbook import (
    At,
    BreakerPolicy,
    FaultInjector,
    FaultPlan,
    MemorySink,
    OpenAIProvider,
    RateLimit,
    RetryPolicy,
    TextDelta,
)
from offbook.errors import DeadlineExceededError
from offbook.faults import StreamStall, Timeout
from offbook.vendors import codec_of
from tests.fakes import user
from tests.gateway.parts import (
    OK,
    Steady,
    ask,
    failure,
    gateway_of,
    kinds_of,
    no_generator_left,
    outcome,
    refusal,
    request,
    run,
    scripted,
)
from tests.servers.loopback import PATIENCE_S, SilentServer

STREAM = request(stream=True)


class Scene:
    """A gateway in a certain state, the caller that brought it there, and what to look at when it is gone."""

    def __init__(self, caller, gateway, sink, provider=None):
        self.caller, self.gateway, self.sink, self.provider = caller, gateway, sink, provider


def begin(provider, call=None, *, rate_limit=None, **options):
    sink = MemorySink()
    gateway = gateway_of(sink=sink, **options)
    gateway.register(provider, rate_limit=rate_limit)

    async def read():
        reply = await gateway.send(call or request())
        try:
            return await reply.collect()
        finally:
            await reply.aclose()

    return Scene(asyncio.create_task(read()), gateway, sink, provider)


async def waiting_for_the_provider():
    return begin(scripted(OK, OK, delay_s=60.0))


async def collecting_a_whole_answer():
    return begin(scripted([TextDelta("one"), 60.0, OK], OK))


async def inside_a_fault():
    plan = FaultPlan([At(call=1).fail(Timeout(after_ms=60_000))])
    return begin(FaultInjector(Steady(), plan))


async def in_backoff():
    return begin(scripted(failure(), OK), retry=RetryPolicy(backoff_s=60.0, max_backoff_s=60.0))


async def waiting_for_the_first_event():
    return begin(scripted([60.0, OK], OK), STREAM)


async def in_the_middle_of_a_stream():
    return begin(scripted([TextDelta("one"), 60.0, OK], OK), STREAM)


async def inside_a_stall():
    plan = FaultPlan([At(call=1, chunk=1).fail(StreamStall(for_ms=60_000))])
    return begin(FaultInjector(scripted([TextDelta("one"), TextDelta("two"), OK], OK), plan), STREAM)


async def in_backoff_after_a_broken_stream():
    policy = RetryPolicy(backoff_s=60.0, max_backoff_s=60.0)
    return begin(scripted([TextDelta("one"), failure()], OK), STREAM, restart_streams=True, retry=policy)


async def waiting_for_a_slot():
    scene = begin(Steady(), rate_limit=RateLimit(requests_per_minute=1))
    await scene.caller
    scene.sink.events.clear()
    scene.caller = asyncio.create_task(ask(scene.gateway))
    return scene


async def queueing_for_a_slot():
    scene = await waiting_for_a_slot()
    await asyncio.sleep(0.0)
    first, scene.caller = scene.caller, asyncio.create_task(ask(scene.gateway))
    await asyncio.sleep(0.0)
    scene.caller.cancel()
    await asyncio.wait([scene.caller])
    scene.sink.events[:] = [event for event in scene.sink.events if getattr(event, "call", 2) == 2]
    scene.caller = first
    return scene


async def probing():
    breaker = BreakerPolicy(failures=1, reset_s=1.0)
    scene = begin(scripted(failure(), [60.0, OK], OK), breaker=breaker, retry=RetryPolicy(max_retries=0))
    await asyncio.wait([scene.caller])
    await refusal(scene.caller)
    await asyncio.sleep(1.0)
    scene.sink.events.clear()
    scene.caller = asyncio.create_task(ask(scene.gateway))
    return scene


async def under_a_deadline():
    return begin(scripted([TextDelta("one"), 60.0, OK], OK), STREAM, deadline_s=90.0)


STATES = [
    waiting_for_the_provider,
    collecting_a_whole_answer,
    inside_a_fault,
    in_backoff,
    waiting_for_the_first_event,
    in_the_middle_of_a_stream,
    inside_a_stall,
    in_backoff_after_a_broken_stream,
    waiting_for_a_slot,
    queueing_for_a_slot,
    probing,
    under_a_deadline,
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_caller_that_is_cancelled_leaves_nothing_behind(state):
    async def play():
        with no_generator_left():
            scene = await state()
            await asyncio.sleep(0.5)
            assert not scene.caller.done()
            scene.caller.cancel()
            await asyncio.wait([scene.caller])
            assert scene.caller.cancelled()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert (await ask(scene.gateway)).content == "fine"
        kinds = kinds_of(scene.sink)
        for kind in ("Attempt", "Call"):
            assert kinds.count(f"{kind}Started") == kinds.count(f"{kind}Ended")
        first_end = next(event for event in scene.sink.events if type(event).__name__ == "CallEnded")
        assert first_end.error == "CancelledError"
        assert {breaker.state for breaker in scene.gateway.breakers.values()} == {"closed"}

    run(play())


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_caller_that_is_cancelled_before_it_began_leaves_nothing_behind(state):
    async def play():
        with no_generator_left():
            scene = await state()
            scene.caller.cancel()
            await asyncio.wait([scene.caller])
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await outcome(ask(scene.gateway))

    run(play())


def test_a_deadline_leaves_nothing_behind():
    async def play():
        with no_generator_left():
            scene = begin(scripted([TextDelta("one"), 60.0, OK], OK), STREAM, deadline_s=5.0)
            await asyncio.wait([scene.caller])
            assert isinstance(await refusal(scene.caller), DeadlineExceededError)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert await ask(scene.gateway) == OK

    run(play())


BEGINNING = list(codec_of("openai_chat").encode_stream(OK, [TextDelta("one")]))[:2]


@pytest.mark.parametrize("frames", [None, [], BEGINNING], ids=["before the head", "before the first", "in the middle"])
async def test_a_caller_that_is_cancelled_leaves_no_connection(frames):
    with SilentServer(frames) as server:
        async with gateway_of(OpenAIProvider(base_url=server.url)) as gateway:
            caller = asyncio.create_task(events(gateway))
            assert await asyncio.to_thread(server.requested.acquire, timeout=PATIENCE_S)
            caller.cancel()
            await asyncio.wait([caller])
            assert await asyncio.to_thread(server.left.acquire, timeout=PATIENCE_S)
            assert asyncio.all_tasks() == {asyncio.current_task()}


async def events(gateway):
    return [event async for event in await gateway.stream(user("Hi"), "m")]


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "dropped"])
async def test_a_stream_that_is_abandoned_leaves_no_connection(read, is_closed):
    with SilentServer(BEGINNING) as server:
        async with gateway_of(OpenAIProvider(base_url=server.url)) as gateway:
            reply = await gateway.stream(user("Hi"), "m")
            for _ in range(read):
                assert await anext(aiter(reply)) == TextDelta("one")
            if is_closed:
                await reply.aclose()
            del reply
            gc.collect()
            assert await asyncio.to_thread(server.left.acquire, timeout=PATIENCE_S)
