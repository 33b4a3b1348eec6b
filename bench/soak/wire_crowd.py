"""Clients that hold streams at the same time: some leave, some reset, some read slowly, the same ones every time."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import Literal, TypeAlias

import orjson
from msgspec import Raw, Struct

from offbook.messages import Request, Response, TextDelta
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import TimedFrame, WireRecord
from offbook.recording.match.fingerprint import identify
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS

SESSIONS = 8
PIECES, EVERY_MS = 10, 100.0
MESSAGES = [{"role": "user", "content": "Tell me a long story."}]
MODEL = "gpt-4o-mini"
PATIENCE_S = 30.0
Manner = Literal["reads", "reads slowly", "leaves", "resets"]
Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MANNERS: tuple[Manner, ...] = ("reads", "reads slowly", "leaves", "resets")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class WrongAnswerError(Exception):
    """A client got what was not for it."""


class Lot(Struct, frozen=True):
    """What is drawn for a stream: its session, how its client behaves, and after how many pieces that shows."""

    session: int
    manner: Manner
    after: int

    @staticmethod
    def draw(seed: int, number: int) -> Lot:
        lot = random.Random(f"{seed}:{number}")
        manner = lot.choices(MANNERS, weights=(60, 10, 15, 15))[0]
        return Lot(lot.randrange(SESSIONS), manner, lot.randrange(PIECES))


def record(folder: Path) -> None:
    """Recordings of the same request, one for each session, whose answers differ."""
    for session in range(SESSIONS):
        request_hash, fields = identify(Request(tuple(MESSAGES), MODEL))
        frames: list[TimedFrame] = [(EVERY_MS * number, frame) for number, frame in enumerate(_frames(session), 1)]
        wire = WireRecord(protocol="openai_chat", headers={"content-type": "text/event-stream"}, frames=frames)
        exchange = Exchange(
            content=text_of(session),
            latency_ms=frames[-1][0],
            request_hash=request_hash,
            request=Raw(fields),
            wire=wire,
        )
        document = Document()
        document.add(request_hash, exchange)
        open_store(folder / f"run-{session}.json").save(document)


def text_of(session: int) -> str:
    return "".join(_pieces(session))


def _pieces(session: int) -> list[str]:
    return [f"Piece {number} of session {session}. " for number in range(PIECES)]


def _frames(session: int) -> list[str]:
    codec = CODECS["openai_chat"]
    frames = codec.encode_stream(Response(text_of(session), MODEL), [TextDelta(piece) for piece in _pieces(session)])
    return [frame.decode() for frame in frames]


class Crowd:
    """So many clients at once, each of which asks for one stream after the other."""

    def __init__(self, port: int, *, clients: int, seed: int) -> None:
        self.ends: Counter[str] = Counter()
        self._port, self._clients, self._seed = port, clients, seed
        self._bodies = [b"".join(frame.encode() for frame in _frames(session)) for session in range(SESSIONS)]
        self._number = 0

    async def hold(self, seconds: float) -> None:
        """Hold streams for so long, then leave them as they are."""
        tasks = [asyncio.create_task(self._ask_on()) for _ in range(self._clients)]
        done, left = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in done:
            task.result()

    async def begin(self) -> list[Connection]:
        """Streams of which the first piece has come."""
        return list(await asyncio.gather(*(self._begin(client % SESSIONS) for client in range(self._clients))))

    async def see_ended(self, streams: list[Connection]) -> None:
        """Wait until the streams have ended, in whatever way."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(reader.read() for reader, _ in streams), return_exceptions=True)
        for _, writer in streams:
            writer.close()

    async def _ask_on(self) -> None:
        while True:
            self._number += 1
            lot = Lot.draw(self._seed, self._number)
            reader, writer = await self._ask(lot.session)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._read(reader, lot)
                self.ends[lot.manner] += 1
            finally:
                _hang_up(writer, resets=lot.manner == "resets")

    async def _begin(self, session: int) -> Connection:
        reader, writer = await self._ask(session)
        await _head(reader)
        await _chunk(reader)
        return reader, writer

    async def _ask(self, session: int) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = orjson.dumps({"model": MODEL, "messages": MESSAGES, "stream": True})
        head = f"POST /s/run-{session}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return reader, writer

    async def _read(self, reader: asyncio.StreamReader, lot: Lot) -> None:
        """Read as the lot says; whatever comes is the beginning of what this session should get, or all of it."""
        await _head(reader)
        body, number = b"", 0
        while piece := await _chunk(reader):
            body, number = body + piece, number + 1
            if not self._bodies[lot.session].startswith(body):
                raise WrongAnswerError(f"session {lot.session} got {body!r}")
            if lot.manner in ("leaves", "resets") and number > lot.after:
                return
            if lot.manner == "reads slowly":
                await asyncio.sleep(1.5 * EVERY_MS / 1000.0)
        if body != self._bodies[lot.session]:
            raise WrongAnswerError(f"session {lot.session} got no more than {body!r}")


async def _head(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise WrongAnswerError(f"answered {head!r}")


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]


def _hang_up(writer: asyncio.StreamWriter, *, resets: bool) -> None:
    if resets:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
