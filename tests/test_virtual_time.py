"""Virtual time beside threads: it passes when all of them wait, and never before."""

import ast
import asyncio
import queue
import socketserver
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, takewhile

import anyio.from_thread
import anyio.to_thread
import pytest

from offbook.clock import run
from offbook.explore.isolation import CaseProcess, ForkedProcess, wait_for_any
from offbook.virtual_time import REAL, STUCK_S, NewThreads, TimeReferences, VirtualTime

REFERENCES = TimeReferences()
HOUR_S = 3600.0


def explored(work):
    """What `work` returns in the process of a case, and how much time has passed in there."""

    def report():
        result = run(work(), virtual_time=True)
        return repr((result, round(CaseProcess.current.clock.passed_s, 6))).encode()

    process = ForkedProcess(report, references=REFERENCES, limit_s=60.0)
    wait_for_any([process])
    return ast.literal_eval(process.ending.report.decode() or "None")


def compute(name="computed"):
    """Works for longer than a thread runs at a stretch."""
    sum(range(3_000_000))
    return name


async def by_anyio(function):
    return await anyio.to_thread.run_sync(function)


async def by_asyncio(function):
    return await asyncio.to_thread(function)


async def by_executor(function):
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, function)


async def by_submitting(function):
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(function))


async def by_thread(function):
    loop = asyncio.get_running_loop()
    result = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(result.set_result, function()), daemon=True).start()
    return await result


async def by_queue(function):
    """A thread of its own that serves a queue, and stays there."""
    loop, result, work = asyncio.get_running_loop(), asyncio.get_running_loop().create_future(), queue.Queue()

    def serve():
        while True:
            loop.call_soon_threadsafe(result.set_result, work.get()())

    threading.Thread(target=serve, daemon=True).start()
    await asyncio.sleep(5)
    work.put(function)
    return await result


THREADS = [by_anyio, by_asyncio, by_executor, by_submitting, by_thread, by_queue]


@pytest.mark.parametrize("in_thread", THREADS)
def test_timers_stand_still_while_a_thread_works(in_thread):
    async def work():
        async with asyncio.timeout(HOUR_S):
            results = [await in_thread(compute) for _ in range(3)]
        await asyncio.sleep(7)
        return results

    started_s = 15.0 if in_thread is by_queue else 0.0
    assert explored(work) == (["computed"] * 3, started_s + 7.0)


@pytest.mark.parametrize("in_thread", THREADS)
def test_a_thread_that_waits_for_its_loop_lets_time_pass(in_thread):
    async def answer():
        await asyncio.sleep(600)
        return "answered"

    async def work():
        loop = asyncio.get_running_loop()
        return await in_thread(lambda: asyncio.run_coroutine_threadsafe(answer(), loop).result())

    assert explored(work) == ("answered", 605.0 if in_thread is by_queue else 600.0)


@pytest.mark.parametrize("in_thread", THREADS)
def test_a_loop_in_a_thread_shares_the_time(in_thread):
    async def work():
        timer = asyncio.create_task(asyncio.sleep(20, "timer"))
        inner = await in_thread(lambda: asyncio.run(asyncio.sleep(30, "inner")))
        return inner, timer.done()

    assert explored(work) == (("inner", True), 35.0 if in_thread is by_queue else 30.0)


@pytest.mark.parametrize("in_thread", THREADS)
def test_a_timeout_ends_the_wait_for_a_thread_that_sleeps_longer(in_thread):
    async def work():
        task = asyncio.create_task(in_thread(lambda: time.sleep(600)))
        done, _ = await asyncio.wait([task], timeout=30)
        assert not done
        before_s = time.monotonic()
        await task
        return round(time.monotonic() - before_s, 6)

    assert explored(work) == ((575.0, 605.0) if in_thread is by_queue else (570.0, 600.0))


def test_threads_that_sleep_at_the_same_time_wake_in_order():
    async def work():
        woken = []

        def sleep(seconds):
            time.sleep(seconds)
            woken.append((seconds, round(time.monotonic() % 1000, 6)))

        await asyncio.gather(*(anyio.to_thread.run_sync(sleep, seconds) for seconds in (30, 10, 20)))
        return woken

    assert explored(work) == ([(10, 10.0), (20, 20.0), (30, 30.0)], 30.0)


def test_a_thread_that_sleeps_again_and_again_holds_nothing_up_and_pushes_nothing():
    async def work():
        beats = []

        def beat():
            while True:
                time.sleep(10)
                beats.append("beat")

        threading.Thread(target=beat, daemon=True).start()
        await asyncio.to_thread(compute)
        assert beats == []
        await asyncio.sleep(35)
        return beats

    assert explored(work) == (["beat"] * 3, 35.0)


class Idle:
    """Threads that are there and wait for something."""

    @staticmethod
    def pool():
        ThreadPoolExecutor(2).submit(str).result()

    @staticmethod
    def processes():
        ProcessPoolExecutor(1).submit(str).result()

    @staticmethod
    def server():
        server = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    @staticmethod
    def portal():
        anyio.from_thread.start_blocking_portal().__enter__()

    @staticmethod
    def poll():
        def wait():
            while not threading.Event().wait(0.01):
                pass

        threading.Thread(target=wait, daemon=True).start()

    @staticmethod
    def join():
        never = threading.Thread(target=threading.Event().wait, daemon=True)
        never.start()
        threading.Thread(target=never.join, daemon=True).start()


@pytest.mark.parametrize("start", [Idle.pool, Idle.processes, Idle.server, Idle.portal, Idle.poll, Idle.join])
def test_threads_that_wait_for_work_do_not_hold_the_time_up(start):
    async def work():
        start()
        before_s = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(HOUR_S)
        return time.monotonic() - before_s

    assert explored(work)[0] == 20 * HOUR_S


def test_a_process_that_a_thread_waits_for_is_work():
    async def work():
        async with asyncio.timeout(HOUR_S):
            return (await anyio.to_thread.run_sync(lambda: subprocess.run(["sleep", "0.1"], check=True))).returncode

    assert explored(work) == (0, 0.0)


def test_a_lock_that_a_thread_holds_is_waited_for():
    async def work():
        lock = threading.Lock()

        def hold():
            with lock:
                return compute()

        async with asyncio.timeout(HOUR_S):
            return await asyncio.gather(*(anyio.to_thread.run_sync(hold) for _ in range(4)))

    assert explored(work) == (["computed"] * 4, 0.0)


def unknown(_):
    return None


@contextmanager
def thread_in(wait, release):
    """A thread that calls `wait`, until the block has ended."""
    is_there = threading.Event()

    def work():
        is_there.set()
        wait()

    thread = threading.Thread(target=work)
    thread.start()
    is_there.wait()
    try:
        yield thread
    finally:
        release()
        thread.join()


def becomes_idle(threads, ident, step_s=0.0):
    """Whether a thread waits at some time, looked at every `step_s`: it may still be on its way there."""
    deadline = threading.Event()
    timer = threading.Timer(20, deadline.set)
    timer.start()
    try:
        for now_s in takewhile(lambda _: not deadline.is_set(), count(step=step_s)):
            if threads.are_idle([ident], unknown, now_s=now_s):
                return True
            deadline.wait(0.001)
        return False
    finally:
        timer.cancel()


def an_event():
    event = threading.Event()
    return event.wait, event.set


def a_queue():
    items = queue.Queue()
    return items.get, lambda: items.put("item")


def a_barrier():
    barrier = threading.Barrier(2)
    return barrier.wait, barrier.wait


@pytest.mark.parametrize("made", [an_event, a_queue, a_barrier])
def test_a_thread_that_waits_for_another_one_is_idle(made):
    threads = NewThreads()
    with thread_in(*made()) as thread:
        assert threads.others() == [thread.ident]
        assert becomes_idle(threads, thread.ident)


def test_a_thread_that_was_woken_is_not_idle_even_before_it_runs():
    threads, items = NewThreads(), queue.Queue()
    with thread_in(items.get, lambda: None) as thread:
        assert becomes_idle(threads, thread.ident)
        items.not_empty.acquire()  # the thread that waits needs it to go on
        try:
            items.not_empty.notify()
            assert not threads.are_idle([thread.ident], unknown, now_s=0.0)
        finally:
            items.not_empty.release()
            items.put("item")


def test_threads_that_were_there_before_do_not_count():
    with thread_in(*an_event()):
        assert NewThreads().others() == []


def test_the_thread_that_asks_does_not_count_but_its_starter_does():
    threads, seen = NewThreads(), []
    with thread_in(lambda: seen.extend(threads.others()), lambda: None):
        pass
    assert seen == [threading.get_ident()]
    assert threads.others() == []


def test_what_is_known_of_a_thread_is_not_judged_by_its_frame():
    threads = NewThreads()
    with thread_in(*an_event()) as thread:
        assert becomes_idle(threads, thread.ident)
        assert not threads.are_idle([thread.ident], lambda _: False, now_s=0.0)


def test_a_thread_whose_wait_is_unknown_counts_as_idle_after_it_has_stood_still_for_long():
    threads, lock = NewThreads(), threading.Lock()
    lock.acquire()
    with thread_in(lock.acquire, lock.release) as thread:
        assert not threads.are_idle([thread.ident], unknown, now_s=0.0)
        assert not threads.are_idle([thread.ident], unknown, now_s=0.0)
        assert becomes_idle(threads, thread.ident, step_s=STUCK_S)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which threads sleep")
@pytest.mark.parametrize(("works", "passed_s"), [(True, 0.0), (False, HOUR_S)])
def test_no_time_passes_for_a_thread_of_a_pool_that_works_while_it_is_thought_to_wait(monkeypatch, works, passed_s):
    clock, sleep = VirtualTime(is_exact=True), REAL["sleep"]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

        def let_others_run(seconds):
            if works:
                pool.submit(int).result()  # its thread stands where it stood, and the queue is empty again
            sleep(seconds)

        while None in clock._threads.sleeps_in_pools() or not clock._threads.sleeps_in_pools():
            sleep(0.001)  # the thread is on its way back
        monkeypatch.setitem(REAL, "sleep", let_others_run)
        assert clock.wait(HOUR_S, pause=lambda seconds: works and seconds > 0) is works
        assert clock.passed_s == passed_s


def test_a_thread_that_is_just_starting_is_not_idle():
    assert not NewThreads().are_idle([0], lambda _: True, now_s=0.0)


def test_the_end_of_a_loop_waits_for_its_threads_however_long_a_limit_it_sets():
    async def work():
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(None, time.sleep, 0.01)
        await loop.shutdown_default_executor(300.0)
        return working.done() and loop.time() < 300.0

    assert run(work(), virtual_time=True)


def test_what_a_thread_did_before_it_ended_is_seen_before_time_passes():
    clock = VirtualTime()
    assert clock.wait(120.0, pause=lambda _: ["written"]) == ["written"]
    assert clock.now_s == 0.0
    assert clock.wait(120.0, pause=lambda _: []) == []
    assert clock.now_s == 120.0
