"""Virtual time: nothing is waited for that only timers would end, and everything that is real still is."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.clock import SYSTEM_CLOCK, VIRTUAL_EPOCH, run
from offbook.errors import EventLoopError
from offbook.messages import Response
from offbook.providers.http import HttpOptions, HttpProvider
from offbook.vendors import codec_of
from offbook.virtual_time import VirtualTimeLoop
from tests.servers.loopback import LoopbackServer

HOUR_S = 3600.0
FAR_LESS_THAN_AN_HOUR_S = 120.0
A_SECOND = pytest.approx(1.0, abs=1e-9)
ANSWER = orjson.dumps(codec_of("openai_chat").encode_response(Response(content="Hello.", model="gpt-4o")))


def virtually(work):
    return run(work, virtual_time=True)


def now_s():
    return asyncio.get_running_loop().time()


async def virtual_second():
    """How long a second is now: exactly that where time jumps, a little more where it is waited for."""
    before_s = now_s()
    await asyncio.sleep(1)
    return now_s() - before_s


def test_an_hour_of_sleep_passes_and_is_not_waited_for():
    async def work():
        for _ in range(60):
            await asyncio.sleep(60)
        return now_s()

    started_s = time.monotonic()
    assert virtually(work()) == HOUR_S
    assert time.monotonic() - started_s < FAR_LESS_THAN_AN_HOUR_S


def test_a_month_of_sleep_ends_on_the_second():
    async def work():
        await asyncio.sleep(30 * 24 * HOUR_S)
        return now_s()

    assert virtually(work()) == 30 * 24 * HOUR_S


@given(delays_s=st.lists(st.floats(0.001, 1e6), max_size=20))
def test_sleepers_wake_in_the_order_of_their_time_each_at_its_own(delays_s):
    woken = []

    async def sleeper(delay_s):
        await asyncio.sleep(delay_s)
        woken.append((delay_s, now_s()))

    async def work():
        await asyncio.gather(*(sleeper(delay_s) for delay_s in delays_s))

    virtually(work())
    assert [delay_s for delay_s, _ in woken] == sorted(delays_s)
    assert [at_s for _, at_s in woken] == pytest.approx(sorted(delays_s), abs=1e-6)


def test_a_thousand_sleepers_take_as_long_as_the_longest():
    async def work():
        await asyncio.gather(*(asyncio.sleep(second) for second in range(1000)))
        return now_s()

    assert virtually(work()) == 999.0


def test_sleepers_take_turns():
    log = []

    async def tick(name, every_s):
        for _ in range(3):
            await asyncio.sleep(every_s)
            log.append((now_s(), name))

    async def work():
        await asyncio.gather(tick("slow", 10), tick("fast", 4))

    virtually(work())
    assert log == [(4, "fast"), (8, "fast"), (10, "slow"), (12, "fast"), (20, "slow"), (30, "slow")]


def test_work_that_is_ready_goes_before_time():
    async def work():
        for _ in range(1000):
            await asyncio.sleep(0)
        return now_s()

    async def beside_a_timer():
        timer = asyncio.create_task(asyncio.sleep(5))
        at_s = await work()
        await timer
        return at_s

    assert virtually(beside_a_timer()) == 0.0


def test_a_timeout_fires_at_its_time():
    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(HOUR_S)
        return now_s()

    assert virtually(work()) == 30.0


def test_a_timeout_that_is_not_reached_does_not_fire():
    async def work():
        async with asyncio.timeout(30):
            await asyncio.sleep(29)
        return await asyncio.wait_for(asyncio.sleep(5, "done"), 6)

    assert virtually(work()) == "done"


def test_work_in_a_thread_is_waited_for_while_timers_stand_still():
    async def work():
        timer = asyncio.create_task(asyncio.sleep(HOUR_S))
        result = await asyncio.wait_for(asyncio.to_thread(sum, range(100_000)), 30)
        assert not timer.done()
        assert now_s() < 30
        return result

    assert virtually(work()) == sum(range(100_000))


def test_the_time_that_work_in_a_thread_takes_passes_virtually_too():
    async def work():
        await asyncio.to_thread(sum, range(3_000_000))
        return now_s()

    assert virtually(work()) > 0


def test_all_threads_are_waited_for():
    meeting = threading.Barrier(3)

    async def work():
        async with asyncio.timeout(30):
            await asyncio.gather(*(asyncio.to_thread(meeting.wait) for _ in range(3)))
        assert now_s() < 30
        return await virtual_second()

    assert virtually(work()) == A_SECOND


def test_work_that_fails_in_a_thread_is_over():
    async def work():
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return await virtual_second()

    assert virtually(work()) == A_SECOND


def test_work_that_no_thread_took_is_not_waited_for():
    async def work():
        with ThreadPoolExecutor(1) as pool:
            pass
        with pytest.raises(RuntimeError, match="shutdown"):
            asyncio.get_running_loop().run_in_executor(pool, print)
        return await virtual_second()

    assert virtually(work()) == A_SECOND


class SlowToEnd(ThreadPoolExecutor):
    """Has much to do before it ends."""

    def shutdown(self, wait=True, *, cancel_futures=False):
        sum(range(3_000_000))
        super().shutdown(wait, cancel_futures=cancel_futures)


def test_ending_the_threads_lets_no_timer_fire_early():
    async def work():
        loop = asyncio.get_running_loop()
        fired = []
        timer = loop.call_later(HOUR_S, fired.append, "early")
        loop.set_default_executor(SlowToEnd())
        await loop.shutdown_default_executor()
        timer.cancel()
        return fired

    assert virtually(work()) == []


def test_a_loop_without_timers_waits_for_whatever_comes():
    async def work():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, "from outside")).start()
        return await future

    assert virtually(work()) == "from outside"


async def answer_of(provider):
    return (await provider.complete([{"role": "user", "content": "Hi"}], "gpt-4o")).content


def test_a_real_server_is_waited_for_and_no_timeout_fires():
    async def work(url):
        http = HttpOptions(timeout_s=30)
        async with asyncio.timeout(30), HttpProvider(codec_of("openai_chat"), base_url=url, http=http) as provider:
            return [await answer_of(provider) for _ in range(20)]

    with LoopbackServer(ANSWER) as server:
        assert virtually(work(server.url)) == ["Hello."] * 20


def test_an_idle_connection_does_not_hold_the_time_up():
    async def work(url):
        async with HttpProvider(codec_of("openai_chat"), base_url=url) as provider:
            await answer_of(provider)
            return await virtual_second()

    with LoopbackServer(ANSWER) as server:
        assert virtually(work(server.url)) == A_SECOND


def test_two_virtual_tasks_talk_over_a_real_socket():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    async def work():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server, asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
        return line, await virtual_second()

    assert virtually(work()) == (b"hello\n", A_SECOND)


def test_the_virtual_date_starts_at_the_epoch_and_moves_with_time():
    async def work():
        first = SYSTEM_CLOCK.utc_now()
        await SYSTEM_CLOCK.sleep_s(90)
        return first, SYSTEM_CLOCK.utc_now(), SYSTEM_CLOCK.monotonic_s()

    expected = (VIRTUAL_EPOCH, VIRTUAL_EPOCH + timedelta(seconds=90), 90.0)
    assert virtually(work()) == expected
    assert virtually(work()) == expected


@pytest.mark.parametrize("delay_s", [0, -1, -HOUR_S])
def test_no_delay_returns_at_once_and_lets_nobody_else_run(delay_s):
    async def work():
        others = []
        asyncio.get_running_loop().call_soon(others.append, "somebody")
        await SYSTEM_CLOCK.sleep_s(delay_s)
        assert others == []
        return SYSTEM_CLOCK.monotonic_s()

    assert virtually(work()) == 0.0


def is_the_real_date(moment, before):
    return before <= moment <= datetime.now(UTC)


def test_without_virtual_time_dates_are_real_and_loops_ordinary():
    async def work():
        await SYSTEM_CLOCK.sleep_s(0.001)
        return asyncio.get_running_loop(), SYSTEM_CLOCK.utc_now()

    before = datetime.now(UTC)
    loop, moment = run(work())
    assert not isinstance(loop, VirtualTimeLoop)
    assert is_the_real_date(moment, before)


def test_outside_any_loop_dates_are_real():
    before = datetime.now(UTC)
    assert is_the_real_date(SYSTEM_CLOCK.utc_now(), before)


@pytest.mark.parametrize("virtual_time", [False, True])
def test_run_gives_the_result_or_the_error_and_closes_its_loop(virtual_time):
    loops = []

    async def work(divisor):
        loops.append(asyncio.get_running_loop())
        return 6 / divisor

    assert run(work(2), virtual_time=virtual_time) == 3.0
    with pytest.raises(ZeroDivisionError):
        run(work(0), virtual_time=virtual_time)
    assert [loop.is_closed() for loop in loops] == [True, True]
    assert {isinstance(loop, VirtualTimeLoop) for loop in loops} == {virtual_time}


def test_tasks_left_over_are_cancelled_without_waiting():
    ended = []

    async def straggler():
        try:
            await asyncio.sleep(HOUR_S)
        finally:
            ended.append(now_s())

    async def work():
        task = asyncio.create_task(straggler())
        await asyncio.sleep(1)
        return task

    assert virtually(work()).cancelled()
    assert ended == [1.0]


def test_run_inside_a_running_loop_is_refused_and_leaves_nothing_unawaited():
    async def inner():
        return 1

    async def outer():
        with pytest.raises(EventLoopError, match="await"):
            run(inner())

    run(outer())


def test_a_virtual_decade_passes_in_small_steps_too():
    async def work():
        loop = asyncio.get_running_loop()
        for step_s in (3e7, 8.57, 3e8, 0.001, 1e-5):
            before_s = loop.time()
            await asyncio.sleep(step_s)
            assert loop.time() - before_s == pytest.approx(step_s, abs=2e-6, rel=0.1)

    run(work(), virtual_time=True)
