"""Many streams at the same time, from clients that stay, leave, reset the connection or read slowly."""

import asyncio
import gc
import socket
import struct
import threading
import time

import pytest

from offbook import serving
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import open_store
from tests.wire.http_requests import call_of, entry_of, recording_of
from tests.wire.raw_client import bytes_of

STREAMS, SESSIONS = 24, 3
PIECES, EVERY_MS = 10, 5.0
CALL = call_of(stream=True)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def frames(session):
    return [f"data: piece {number} of run {session}\n\n" for number in range(PIECES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recording for each session: the same request, and an answer of its own in pieces."""
    folder = tmp_path_factory.mktemp("runs")
    for session in range(SESSIONS):
        timed = [[EVERY_MS * number, frame] for number, frame in enumerate(frames(session))]
        wire = {"protocol": "openai_chat", "status": 200, "headers": {"content-type": "text/event-stream"}}
        entry = entry_of(CALL, content="", latency_ms=EVERY_MS * PIECES, wire=wire | {"frames": timed})
        whole = recording_of() | {entry["request_hash"]: entry}
        open_store(folder / f"run-{session}.json").save(document_from_dict(whole, source="test"))
    return folder


@pytest.fixture
def server(folder):
    with serving(recording=folder, latency_model="replay") as server:
        yield server


def running_loops():
    loops = [found for found in gc.get_objects() if issubclass(type(found), asyncio.AbstractEventLoop)]
    return [loop for loop in loops if loop.is_running()]


def turn(loop):
    """Wait until the loop has run what it had scheduled."""
    has_run = threading.Event()
    loop.call_soon_threadsafe(has_run.set)
    has_run.wait()


async def begin(server, session):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(bytes_of(CALL, prefix=f"/s/run-{session}"))
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def chunk(reader):
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2].decode()


async def read(server, number):
    """What a client of one session gets before it leaves, if it does."""
    reader, writer = await begin(server, number % SESSIONS)
    resets, leaves, is_slow = number % 4 == 1, number % 4 == 2, number % 4 == 3
    got = []
    while piece := await chunk(reader):
        got.append(piece)
        if (leaves or resets) and len(got) > number % PIECES:
            break
        if is_slow:
            await asyncio.sleep(EVERY_MS / 500.0)
    if resets:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
    return leaves or resets, "".join(got)


async def read_all(server):
    return await asyncio.gather(*(read(server, number) for number in range(STREAMS)))


def test_every_stream_is_its_sessions_own_and_nothing_is_left_of_it(server):
    [loop] = running_loops()
    before = len(asyncio.all_tasks(loop))
    for number, (has_left, text) in enumerate(asyncio.run(read_all(server))):
        whole = "".join(frames(number % SESSIONS))
        assert whole.startswith(text) if has_left else text == whole
    turns = 0
    while len(asyncio.all_tasks(loop)) > before and (turns := turns + 1) < 500:
        turn(loop)
    assert len(asyncio.all_tasks(loop)) == before
    assert not server.misses
    assert len(server.calls) == STREAMS


def test_a_server_ends_at_once_while_streams_are_open(folder):
    async def hold(server):
        held = await asyncio.gather(*(begin(server, number % SESSIONS) for number in range(STREAMS)))
        started_s = time.perf_counter()
        await asyncio.to_thread(server.stop)
        taken_s = time.perf_counter() - started_s
        ends = await asyncio.gather(*(reader.read() for reader, _ in held), return_exceptions=True)
        for _, writer in held:
            writer.close()
        return taken_s, ends

    with serving(
        recording=folder, latency_model="replay", faults=["everywhere: stream_stall 2 for_ms=60000"]
    ) as server:
        taken_s, ends = asyncio.run(hold(server))
    assert taken_s < 1.0
    assert all(isinstance(end, ConnectionError) or f"piece {PIECES - 1}".encode() not in end for end in ends)
