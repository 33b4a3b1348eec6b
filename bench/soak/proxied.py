"""Streams through the proxy that records: each client gets its own, whole, and each is in the recording, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import orjson

from bench.soak.front import LONG_S, Outcome, rounds
from offbook import serving
from offbook.messages import Response, TextDelta
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS

STREAMS, FEW = 1_000, 200
PIECES, EVERY_S, BEGIN_S = 10, 0.1, 2.0
PATIENCE_S = 120.0
LOCATIONS = ("{}/run.json", "sqlite:///{}/run.db")


def attack(*, seconds: float, seed: int) -> Outcome:
    """Hold many streams at once, and record them, in each kind of store in turn; 1,000, if there is a minute."""
    del seed  # nothing is drawn
    outcome, streams = Outcome(unit="streams"), STREAMS if seconds >= LONG_S else FEW
    for number in rounds(seconds, fewest=len(LOCATIONS)):
        with TemporaryDirectory(prefix="offbook-soak-") as folder:
            asyncio.run(_record(LOCATIONS[number % len(LOCATIONS)].format(folder), streams, outcome))
    return outcome


async def _record(location: str, streams: int, outcome: Outcome) -> None:
    """Record so many streams at once, and count those that a client or the recording does not have as they were."""
    upstream = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=streams)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}/v1"
    with serving(record=location, upstreams={"openai": url}) as server:
        place = urlsplit(server.url)
        asked = [_ask(place.port or 0, place.path, number, streams) for number in range(streams)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
    upstream.close()
    recorded = Counter(exchange.content for _, exchange in open_store(location).load())
    for number, answer in enumerate(answers):
        outcome.trials += 1
        if answer != _body(number):
            outcome.lose(f"stream {number} is {answer!r:.200}")
        if recorded[_text(number)] != 1:
            outcome.lose(f"stream {number} is recorded {recorded[_text(number)]} times")


def _text(number: int) -> str:
    return "".join(_pieces(number))


def _pieces(number: int) -> list[str]:
    return [f"Piece {piece} of stream {number}. " for piece in range(PIECES)]


def _frames(number: int) -> list[bytes]:
    deltas = [TextDelta(piece) for piece in _pieces(number)]
    return list(CODECS["openai_chat"].encode_stream(Response(_text(number), "m"), deltas))


def _body(number: int) -> bytes:
    return b"".join(_frames(number))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be the API: send the stream of the number that is asked for, frame by frame."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
    except asyncio.IncompleteReadError:  # the proxy has given up, which its client is told
        writer.close()
        return
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    asked = orjson.loads(await reader.readexactly(length))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for frame in _frames(int(asked["messages"][0]["content"])):
        writer.write(frame)
        await writer.drain()
        await asyncio.sleep(EVERY_S)
    writer.close()


async def _ask(port: int, path: str, number: int, streams: int) -> bytes:
    """Ask for a stream, a moment after the one before, and return all of it."""
    await asyncio.sleep(BEGIN_S * number / streams)
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        message = {"role": "user", "content": str(number)}
        body = orjson.dumps({"model": "m", "messages": [message], "stream": True})
        head = f"POST {path}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await reader.readuntil(b"\r\n\r\n")
        received = b""
        while size := int(await reader.readline(), 16):
            received += (await reader.readexactly(size + 2))[:-2]
        writer.close()
        return received
