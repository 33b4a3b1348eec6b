"""Which threads work, and which wait."""

import queue
import threading
from contextlib import contextmanager
from itertools import count, takewhile

import pytest

from offbook.idle_threads import STUCK_S, NewThreads


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


def test_a_thread_that_is_just_starting_is_not_idle():
    assert not NewThreads().are_idle([0], lambda _: True, now_s=0.0)
