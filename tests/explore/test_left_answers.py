"""Answers that come after their client has left oblige nobody to wait."""

import socket
import threading
from contextlib import contextmanager

import pytest

from offbook import serving
from offbook.explore.observer import RunObserver
from offbook.session.script import ModelScript
from offbook.wire.session import ExploredRun, NullCallObserver
from tests.wire.http_requests import call_of
from tests.wire.raw_client import RawClient, ask, bytes_of

LIMITED = "call=1: http_error 429 headers.retry-after=30"
CALL = call_of(text="Hi")
CLOSING = call_of(text="Hi", headers={"connection": "close"})


class Watch(RunObserver):
    """Observes the calls of a session, and waits for clients that leave."""

    def __init__(self):
        super().__init__(ModelScript())
        self.has_seen_one_leave = threading.Event()

    def left(self, attempt):
        super().left(attempt)
        self.has_seen_one_leave.set()

    @property
    def too_soon(self):
        return [call.is_too_soon for call in self.calls]


class Barrier(NullCallObserver):
    """Keeps the server busy with a call until it is released."""

    def __init__(self):
        self.is_reached, self.is_released = threading.Event(), threading.Event()

    def answered(self, attempt, answer, outcome):
        self.is_reached.set()
        assert self.is_released.wait(20)


@pytest.fixture(scope="module")
def server():
    with serving(responses={"any": [{"content": "Hello"}]}) as server:
        yield server


@pytest.fixture
def watch(server):
    observer = Watch()
    server.start_session("run", faults=[LIMITED], explored_run=ExploredRun(ModelScript(), observer))
    return observer


@contextmanager
def busy(server):
    """The server reads nothing in the block."""
    barrier = Barrier()
    server.start_session("busy", explored_run=ExploredRun(ModelScript(), barrier))
    with RawClient(server.session_url("busy")) as client:
        client.send(bytes_of(CALL, prefix=client.prefix))
        assert barrier.is_reached.wait(20)
        try:
            yield
        finally:
            barrier.is_released.set()
        assert client.hear().status


def ask_and_leave(url, call):
    with RawClient(url) as client:
        client.send(bytes_of(call, prefix=client.prefix))


@pytest.mark.parametrize("call", [CALL, CLOSING], ids=["kept", "closing"])
def test_a_client_that_reads_its_answer_and_does_not_wait_comes_too_soon(server, watch, call):
    assert [ask(server.session_url("run"), call).status for _ in range(3)] == [429] * 3
    assert watch.too_soon == [False, True, True]


@pytest.mark.parametrize("call", [CALL, CLOSING], ids=["kept", "closing"])
def test_a_client_that_has_left_before_its_answer_may_try_again_at_once(server, watch, call):
    with busy(server):
        ask_and_leave(server.session_url("run"), call)
    assert watch.has_seen_one_leave.wait(20)
    assert ask(server.session_url("run"), call).status == 429
    assert watch.too_soon == [False, False]


def test_a_request_of_a_client_that_has_left_is_not_judged_even_if_it_is_read_after_the_next_one(server, watch):
    assert ask(server.session_url("run"), CALL).status == 429
    with busy(server):
        ask_and_leave(server.session_url("run"), CALL)
    assert watch.has_seen_one_leave.wait(20)
    assert watch.too_soon == [False, False]


def test_a_client_that_leaves_its_answer_unread_may_try_again_at_once(server, watch):
    with RawClient(server.session_url("run")) as client:
        client.send(bytes_of(CALL, prefix=client.prefix))
        assert client.socket.recv(1, socket.MSG_PEEK)
    assert watch.has_seen_one_leave.wait(20)
    assert ask(server.session_url("run"), CALL).status == 429
    assert watch.too_soon == [False, False]


def test_what_a_client_has_left_does_not_excuse_what_it_was_told_before(server, watch):
    assert ask(server.session_url("run"), CALL).status == 429
    with busy(server):
        ask_and_leave(server.session_url("run"), CALL)
    assert watch.has_seen_one_leave.wait(20)
    assert ask(server.session_url("run"), CALL).status == 429
    assert watch.too_soon == [False, False, True]
