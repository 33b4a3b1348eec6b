"""The HTTP response as a value: status, headers, timed frames, how it ends, and its bytes in HTTP/1.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from http import HTTPStatus
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_WITHOUT_BODY = frozenset((*range(100, 200), 204, 304))
_PLAIN_HEADER = re.compile(r"(?!connection:)[a-z0-9-]+: [\x20-\x7e]*")


def http_bytes(status: int | None, headers: Mapping[str, str], body: bytes, *, is_streamed: bool) -> bytes | None:
    """The head and the body, which is one chunk if it is streamed; if not, the headers tell its length.

    None if something about the head takes a closer look before it may be sent.
    """
    line = None if status is None or status in _WITHOUT_BODY else _STATUS_LINES.get(status)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if line is None or not all(_PLAIN_HEADER.fullmatch(header) for header in lines):
        return None
    told = "".join([f"{header}\r\n" for header in lines])
    if not is_streamed:
        return f"{line}{told}\r\n".encode() + body
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return f"{line}{told}transfer-encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"


ResponseEnding = Literal["complete", "cut", "reset", "silence"]
Frame: TypeAlias = tuple[float, bytes]
"""Bytes, and when they are due, in ms since the request."""

JSON_TYPE = "application/json"
_LENGTH_HEADERS = frozenset(("content-length", "transfer-encoding"))


class HttpResponse(Struct, frozen=True, dict=True):
    """An answer on its way out.

    Frames are due in order. After the last one the answer ends at `end_ms`: `complete`; `cut` off by a
    close without the end of the body; by a `reset` of the connection; or in `silence`, until the client
    leaves or `end_ms` has come. An answer that has no `status` sends nothing before it ends.
    """

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    is_streamed: bool = False
    ending: ResponseEnding = "complete"
    end_ms: float = 0.0

    @property
    def content(self) -> bytes:
        """All its bytes."""
        return b"".join(data for _, data in self.frames)

    @property
    def is_at_once(self) -> bool:
        """Whether all of it, its head too, is sent when its one frame is due."""
        return self.ending == "complete" and len(self.frames) <= 1

    @property
    def sent_headers(self) -> dict[str, str]:
        """Its headers, with its length if that is known from the start, and nothing else that tells of its length."""
        headers = self.headers
        if not _LENGTH_HEADERS.isdisjoint(headers):
            headers = {name: value for name, value in headers.items() if name not in _LENGTH_HEADERS}
        if self.is_streamed or self.ending != "complete":
            return headers
        length = sum([len(data) for _, data in self.frames])
        return headers | {"content-length": str(length)}

    @cached_property
    def at_once(self) -> bytes | None:
        """All that is sent of an answer over HTTP/1.1, head and body, if it is due at once and ends well."""
        due_ms, body = self.frames[0] if self.frames else (0.0, b"")
        if not self.is_at_once or due_ms > 0:
            return None
        return http_bytes(self.status, self.sent_headers, body, is_streamed=self.is_streamed)

    def after(self, delay_ms: float) -> HttpResponse:
        """The same answer, all of it due in `delay_ms`."""
        frames = tuple((delay_ms, data) for _, data in self.frames)
        return replace(self, frames=frames, end_ms=delay_ms)

    def together(self) -> HttpResponse:
        """The same answer; what is due at the same time is one frame."""
        frames = tuple(
            (at_ms, b"".join(data for _, data in group)) for at_ms, group in groupby(self.frames, key=itemgetter(0))
        )
        return replace(self, frames=frames)


def whole_response(
    status: int, body: bytes, *, headers: dict[str, str] | None = None, content_type: str = JSON_TYPE
) -> HttpResponse:
    """An answer in one piece. A content type among the `headers` comes first."""
    told = {name.lower(): value for name, value in (headers or {}).items()}
    return HttpResponse(status, {"content-type": content_type} | told, ((0.0, body),))


_EVENT_ENDS = {
    "text/event-stream": re.compile(rb"\r?\n\r?\n|\r\r"),
    "application/x-ndjson": re.compile(rb"\n"),
}


def split_events(answer: HttpResponse) -> tuple[Frame, ...]:
    """The bytes of the answer with one event a frame, due when the last of it is.

    An answer that is neither server-sent events nor JSON lines keeps its frames.
    """
    end = _EVENT_ENDS.get(answer.headers.get("content-type", "").partition(";")[0].strip().lower())
    return answer.frames if end is None else tuple(_split_at(answer.frames, end))


def _split_at(frames: tuple[Frame, ...], end: re.Pattern[bytes]) -> Iterator[Frame]:
    pending, at_ms = b"", 0.0
    for at_ms, data in frames:
        pending += data
        start = 0
        for found in end.finditer(pending):
            yield at_ms, pending[start : found.end()]
            start = found.end()
        pending = pending[start:]
    if pending:
        yield at_ms, pending
