"""A client that hides nothing: it tells which bytes came, in which chunks, and how the connection ended."""

from __future__ import annotations

import re
import socket
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from offbook.wire.request import HttpRequest

End = Literal["complete", "closed", "reset", "silent"]
PATIENCE_S = 5.0


class Heard(NamedTuple):
    """What came over a connection: an answer, if one came, and how it ended."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    end: End
    chunks: list[bytes]


class RawClient:
    """One connection to the server at `url`; it waits `patience_s` for every piece."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        place = urlsplit(url)
        self.prefix = place.path
        self.socket = socket.create_connection((place.hostname, place.port), timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, call: HttpRequest) -> Heard:
        self.send(bytes_of(call, prefix=self.prefix))
        return self.hear()

    def hear(self, *, is_head: bool = False) -> Heard:
        """The next answer."""
        end, head = self._until(b"\r\n\r\n")
        if end != "complete":
            return Heard(None, {}, head, end, [])
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ", 2)[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        if "transfer-encoding" in headers:
            return self._hear_chunks(status, headers)
        length = 0 if is_head else int(headers.get("content-length", 0))
        end, body = self._exactly(length)
        return Heard(status, headers, body, end, [body])

    def rest(self) -> tuple[End, bytes]:
        """All that comes until the connection ends."""
        end: End = "complete"
        while end == "complete":
            end = self._more()
        data, self._pending = self._pending, b""
        return end, data

    def _hear_chunks(self, status: int, headers: dict[str, str]) -> Heard:
        chunks: list[bytes] = []
        while True:
            end, line = self._until(b"\r\n")
            size = int(line, 16) if end == "complete" else 0
            if end == "complete":
                end, data = self._exactly(size + 2)
            if end != "complete" or size == 0:
                return Heard(status, headers, b"".join(chunks), end, chunks)
            chunks.append(data[:-2])

    def _until(self, mark: bytes) -> tuple[End, bytes]:
        end: End = "complete"
        while mark not in self._pending and end == "complete":
            end = self._more()
        if end != "complete":
            data, self._pending = self._pending, b""
            return end, data
        data, _, self._pending = self._pending.partition(mark)
        return end, data

    def _exactly(self, size: int) -> tuple[End, bytes]:
        end: End = "complete"
        while len(self._pending) < size and end == "complete":
            end = self._more()
        data, self._pending = self._pending[:size], self._pending[size:]
        return end, data

    def _more(self) -> End:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return "silent"
        except ConnectionResetError:
            return "reset"
        self._pending += data
        return "complete" if data else "closed"


def ask(url: str, call: HttpRequest, *, patience_s: float = PATIENCE_S) -> Heard:
    """What the server at `url` answers to a call on a connection of its own."""
    with RawClient(url, patience_s=patience_s) as client:
        return client.ask(call)


def bytes_of(call: HttpRequest, *, prefix: str = "", version: str = "1.1") -> bytes:
    """The call as it goes over a connection."""
    place = prefix + call.path + (f"?{call.query}" if call.query else "")
    headers = {"host": "localhost", "content-length": str(len(call.body)), **call.headers}
    lines = [f"{call.method} {place} HTTP/{version}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + call.body


def frames_in(body: bytes) -> list[bytes]:
    """The server-sent events, or lines, in a body."""
    return re.findall(rb".+?\n\n", body, re.DOTALL) if b"\n\n" in body else re.findall(rb".+?\n", body)
