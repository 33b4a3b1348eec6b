"""Latency: how long a replayed call takes, by each model, in virtual time."""

import asyncio
import statistics
import time

import pytest

from offbook import MockProvider, RecordingProvider, run
from offbook.errors import InputError
from offbook.messages import Response, TextDelta
from offbook.recording.latency import Latency
from tests.fakes import Scripted, events_of, user

RECORDED = {"a": {"content": "x", "latency_ms": 1843.2}, "b": {"content": "y", "latency_ms": 5.0}}
HOUR_S = 3600.0


def virtually(work):
    return run(work, virtual_time=True)


async def timed(call):
    """How long a call takes, in ms."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    await call
    return (loop.time() - started_s) * 1000


def delays_of(steps, **options):
    async def work():
        mock = MockProvider(responses=RECORDED, **options)
        return [await timed(mock.complete(user("Hi"), "m", step_id=step)) for step in steps]

    return virtually(work())


def test_by_default_a_call_takes_no_time():
    assert delays_of("ab?") == [0, 0, 0]


def test_constant_takes_as_long_every_time_also_for_the_default_response():
    assert delays_of("ab?", latency_ms=250) == pytest.approx([250] * 3)


def test_replay_takes_as_long_as_was_recorded():
    assert delays_of("ab?", latency_model="replay") == pytest.approx([1843.2, 5.0, 0])


def test_normal_scatters_by_a_tenth_around_the_latency():
    delays = delays_of("a" * 400, latency_model="normal", latency_ms=100, seed=1)
    assert statistics.mean(delays) == pytest.approx(100, rel=0.02)
    assert statistics.stdev(delays) == pytest.approx(10, rel=0.15)
    assert len(set(delays)) > 300


def test_normal_is_the_same_for_the_same_seed_and_another_for_another():
    def of(seed):
        return delays_of("ab" * 5, latency_model="normal", latency_ms=100, seed=seed)

    assert of(7) == of(7)
    assert of(7) != of(8)


def test_normal_is_never_negative():
    latency = Latency("normal", latency_ms=0.001, seed=3)
    assert all(latency.delay_ms(0) >= 0 for _ in range(1000))


def test_a_streamed_call_waits_before_its_first_event():
    async def work():
        mock = MockProvider(responses=RECORDED, latency_ms=250)
        return await timed(mock.stream(user("Hi"), "m", step_id="a"))

    assert virtually(work()) == pytest.approx(250)


@pytest.mark.parametrize("latency_ms", [-1, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("model", ["constant", "normal", "replay"])
def test_a_latency_that_is_no_time_is_refused(model, latency_ms):
    with pytest.raises(InputError, match="expected zero or more") as caught:
        MockProvider(latency_model=model, latency_ms=latency_ms)
    assert caught.value.source == "latency_ms"


def test_an_unknown_model_is_refused_with_the_list():
    with pytest.raises(InputError, match="unknown latency model 'gauss'") as caught:
        MockProvider(latency_model="gauss")
    assert caught.value.hint == "one of: constant, normal, replay"


def slow_model():
    """Four calls of 15 minutes each: two whole, one streamed, one that fails."""
    quarter_s = HOUR_S / 4
    stream = [300.0, TextDelta("slow "), 300.0, TextDelta("stream"), 300.0, Response("slow stream", "m")]
    return Scripted(
        [quarter_s, Response("one", "m")],
        [quarter_s, Response("two", "m")],
        stream,
        [quarter_s, ConnectionError("reset")],
    )


async def an_hour_of(provider):
    """What happens when, in seconds since the start, when an hour of calls is made of a provider."""
    loop, log = asyncio.get_running_loop(), []
    started_s = loop.time()

    def note(what):
        log.append((round(loop.time() - started_s, 3), what))

    note((await provider.complete(user("1"), "m", step_id="whole")).content)
    note((await provider.complete(user("2"), "m", step_id="whole")).content)
    async for event in await provider.stream(user("3"), "m", step_id="stream"):
        note(event.text if isinstance(event, TextDelta) else "end")
    try:
        await provider.complete(user("4"), "m", step_id="broken")
    except ConnectionError:
        note("broken")
    return log


def test_a_recorded_hour_replays_in_the_same_order_and_times_and_costs_no_time(tmp_path):
    async def record():
        async with RecordingProvider(slow_model(), tmp_path / "hour.json") as recorder:
            return await an_hour_of(recorder)

    async def replay():
        async with MockProvider(tmp_path / "hour.json", strict=True, latency_model="replay") as mock:
            return await an_hour_of(mock)

    recorded = virtually(record())
    started_s = time.monotonic()
    replayed = virtually(replay())
    real_s = time.monotonic() - started_s
    assert replayed == recorded
    assert [what for _, what in recorded] == ["one", "two", "slow ", "stream", "end", "broken"]
    assert recorded[-1][0] == HOUR_S
    assert real_s < 2


def test_concurrent_calls_end_in_the_order_in_which_they_were_recorded_to(tmp_path):
    async def race(provider):
        ended = []

        async def one(name):
            await provider.complete(user(name), "m", step_id=name)
            ended.append(name)

        await asyncio.gather(*(one(name) for name in ("slow", "quick", "middle")))
        return ended

    async def record():
        delays_s = (30.0, 1.0, 5.0)
        model = Scripted(*([delay_s, Response("x", "m")] for delay_s in delays_s))
        async with RecordingProvider(model, tmp_path / "race.json") as recorder:
            return await race(recorder)

    async def replay():
        return await race(MockProvider(tmp_path / "race.json", latency_model="replay"))

    assert virtually(record()) == virtually(replay()) == ["quick", "middle", "slow"]


def test_a_stream_is_paced_by_its_pieces_only_when_replaying():
    chunks = [[100.0, "a"], [400.0, "b"]]
    responses = {"s": {"content": "ab", "chunks": chunks, "latency_ms": 500.0}}

    async def moments(model):
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        reply = await MockProvider(responses=responses, latency_model=model).stream(user("Hi"), "m", step_id="s")
        return [round((loop.time() - started_s) * 1000) async for _ in reply]

    assert virtually(moments("replay")) == [100, 400, 500]
    assert virtually(moments("constant")) == [0, 0, 0]


def test_a_reader_that_is_slower_than_the_recording_waits_for_nothing_more():
    responses = {"s": {"content": "ab", "chunks": [[100.0, "a"], [200.0, "b"]], "latency_ms": 300.0}}

    async def work():
        loop = asyncio.get_running_loop()
        async for _ in await MockProvider(responses=responses, latency_model="replay").stream(
            user("Hi"), "m", step_id="s"
        ):
            await asyncio.sleep(10)
        return loop.time()

    assert virtually(work()) == pytest.approx(30.1)


def test_a_whole_answer_of_a_streamed_entry_takes_as_long_as_the_stream_took():
    responses = {"s": {"content": "ab", "chunks": [[100.0, "a"], [200.0, "b"]], "latency_ms": 300.0}}

    async def work():
        mock = MockProvider(responses=responses, latency_model="replay")
        whole_ms = await timed(mock.complete(user("Hi"), "m", step_id="s"))
        collected_ms = await timed((await mock.stream(user("Hi"), "m", step_id="s")).collect())
        return whole_ms, collected_ms

    assert virtually(work()) == pytest.approx((300, 300))


def test_a_streamed_reading_of_a_whole_entry_waits_once():
    async def work():
        mock = MockProvider(responses=RECORDED, latency_model="replay")
        return await timed(
            events_of(await mock.stream(user("Hi"), "m", step_id="a"))
        ), asyncio.get_running_loop().time()

    after_ms, total_s = virtually(work())
    assert (after_ms, total_s) == pytest.approx((0, 1.8432))
