"""How many connections a server has, and how long it waits for their clients."""

import asyncio
import contextlib
import errno
import logging

import pytest

from offbook.wire.server.connection import HttpConnection, OpenConnections
from offbook.wire.server.listener import Acceptor, ConnectionLimits, ConnectionWatch, bind_socket, default_limits

LIMITS = ConnectionLimits(connections=4, head_s=10, idle_s=100, body_s=10, body_bytes_a_second=100, unread_s=50)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"


async def answer(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def hang(scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass


async def flood(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not scope["offbook.transport"].is_closing():
        await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})


async def until(holds):
    """Let the loop run until something holds; there is no event for it."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


class Listening:
    """A server on this loop, with what it has open."""

    def __init__(self, application=answer, limits=LIMITS):
        self.open = OpenConnections()
        self.listener = bind_socket("127.0.0.1", 0)
        self.acceptor = Acceptor(self.listener, lambda: HttpConnection(application, self.open), self.open, limits)
        self.watch = ConnectionWatch(limits)
        self.writers = []

    async def connect(self, data=b""):
        reader, writer = await asyncio.open_connection(*self.listener.getsockname())
        self.writers.append(writer)
        await self.send(data, writer)
        return reader

    async def send(self, data, writer=None):
        """Send the data, and wait until all of it has arrived."""
        before = sum(each.received_bytes for each in self.open.connections)
        (writer or self.writers[-1]).write(data)
        await until(lambda: sum(each.received_bytes for each in self.open.connections) >= before + len(data))

    def overdue_at(self, now_s):
        return [connection.phase for connection in self.watch.overdue(self.open.connections, now_s)]


@contextlib.asynccontextmanager
async def listening(*args, **options):
    server = Listening(*args, **options)
    server.acceptor.start()
    try:
        yield server
    finally:
        server.acceptor.stop()
        server.listener.close()
        for connection in list(server.open.connections):
            connection.transport.abort()
        for writer in server.writers:
            writer.close()
        await asyncio.gather(*server.open.tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("data", "phase", "allowed_s"),
    [(b"G", "head", 10), (GET[:-2], "head", 10), (UPLOAD, "body", 10), (UPLOAD + bytes(2), "body", 10)],
)
async def test_a_client_has_a_time_for_each_part_of_a_request(data, phase, allowed_s):
    async with listening() as server:
        reader = await server.connect(data)
        assert [server.overdue_at(at) for at in (0, allowed_s - 1, allowed_s + 1)] == [[], [], [phase]]
        next(iter(server.open.connections)).give_up()
        assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_a_client_may_be_idle_between_requests_for_longer_than_before_the_first():
    async with listening() as server:
        reader = await server.connect(GET)
        await reader.readuntil(b"ok")
        assert [server.overdue_at(at) for at in (0, 99, 101)] == [[], [], ["idle"]]
        await server.connect()
        await until(lambda: len(server.open.connections) == 2)
        assert [len(server.overdue_at(at)) for at in (102, 111, 113)] == [1, 1, 2]


async def test_a_head_that_trickles_in_is_late_all_the_same():
    async with listening() as server:
        await server.connect(GET[:5])
        late = []
        for at in range(0, 14, 2):
            late.append(server.overdue_at(at))
            await server.send(b"x")
        assert late == [[], [], [], [], [], [], ["head"]]


async def test_a_body_that_makes_progress_is_not_late():
    async with listening() as server:
        await server.connect(UPLOAD)
        late = []
        for at in (0, 12, 24, 36, 48):
            late.append(server.overdue_at(at))
            await server.send(bytes(1_000 if at < 24 else 10))
        assert late == [[], [], [], ["body"], ["body"]]


async def test_a_response_may_take_as_long_as_it_takes():
    async with listening(hang) as server:
        await server.connect(GET)
        assert [server.overdue_at(at) for at in (0, 1e6)] == [[], []]


async def test_a_client_that_reads_nothing_is_late():
    async with listening(flood) as server:
        await server.connect(GET)
        await until(lambda: next(iter(server.open.connections)).flow.is_writing_paused)
        assert [server.overdue_at(at) for at in (0, 49, 51)] == [[], [], ["response"]]


async def test_half_sent_heads_make_room_for_a_client_with_a_request(caplog):
    async with listening() as server:
        for _ in range(20):
            await server.connect(GET[:-2])
        reader = await server.connect()
        server.writers[-1].write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert len(server.open.connections) <= LIMITS.connections
    assert len(caplog.records) == 1


async def test_a_client_gets_a_503_if_every_connection_is_in_use():
    async with listening(hang) as server:
        for _ in range(LIMITS.connections):
            await server.connect(GET)
        answers = [await (await server.connect()).read() for _ in range(3)]
        assert [each.partition(b"\r\n")[0] for each in answers] == [b"HTTP/1.1 503 Service Unavailable"] * 3
        assert len(server.open.connections) == LIMITS.connections


class OutOfFiles:
    """A listening socket of a process that has no descriptors left, for the first few times."""

    def __init__(self, listener, times):
        self._listener, self.times = listener, times

    def accept(self):
        self.times -= 1
        if self.times >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name):
        return getattr(self._listener, name)


async def test_a_server_without_descriptors_waits_and_says_so_once(caplog):
    server = Listening()
    listener = OutOfFiles(server.listener, 3)
    acceptor = Acceptor(listener, lambda: HttpConnection(answer, server.open), server.open, LIMITS)
    acceptor.start()
    with caplog.at_level(logging.WARNING):
        reader = await server.connect()
        server.writers[-1].write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
    assert listener.times < 0
    assert [record.getMessage() for record in caplog.records] == [
        "cannot accept a connection for now: Too many open files"
    ]
    acceptor.stop()
    server.listener.close()
    for connection in list(server.open.connections):
        connection.transport.abort()
    server.writers[-1].close()


def test_the_limit_leaves_descriptors_to_others():
    alone, proxied = default_limits(), default_limits(files_a_connection=2)
    assert 8 <= proxied.connections <= alone.connections <= 10_000
