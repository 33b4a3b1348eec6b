"""Captures an upstream response: decompresses it, splits it into frames, and times each frame."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from offbook.clock import Clock
from offbook.wire.request import ParsedRequest
from offbook.wire.response import Frame, HttpResponse, ResponseEnding

_EVENT_END = re.compile(rb"[\r\n](?:\r\n?|(?<=\n)\n)")  # CRLF, LF or CR, twice
_LINE_END = re.compile(rb"\n")
_FRAME_ENDS = {
    "text/event-stream": _EVENT_END,
    "application/x-ndjson": _LINE_END,
    "application/jsonl": _LINE_END,
}
_LONGEST_END = 4


class FrameSplitter(Protocol):
    """Makes frames of pieces. All frames together are all pieces together, byte for byte."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes."""
        ...

    def close(self) -> list[bytes]:
        """What is left when the body has ended."""
        ...


def is_framed(content_type: str) -> bool:
    """Whether bodies of this type consist of frames."""
    return _media_type(content_type) in _FRAME_ENDS


def splitter_for(content_type: str) -> FrameSplitter:
    """What cuts a body of this type: server-sent events, lines of JSON, or else the pieces as they arrive."""
    end = _FRAME_ENDS.get(_media_type(content_type))
    return _UnsplitPieces() if end is None else _PatternSplitter(end)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class _UnsplitPieces:
    """Leaves pieces as they are."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data] if data else []

    def close(self) -> list[bytes]:
        return []


class _PatternSplitter:
    """Cuts behind each match of a pattern."""

    def __init__(self, end: re.Pattern[bytes]) -> None:
        self._end = end
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        frames = []
        searched = max(0, len(self._pending) - _LONGEST_END)
        self._pending += data
        while (found := self._end.search(self._pending, searched)) is not None:
            end = found.end()
            if end == len(self._pending) and self._pending.endswith(b"\r"):
                break  # a line feed that belongs to it may follow
            frames.append(bytes(self._pending[:end]))
            del self._pending[:end]
            searched = 0
        return frames

    def close(self) -> list[bytes]:
        left = bytes(self._pending)
        self._pending.clear()
        return [left] if left else []


_LAST_FRAME = re.compile(
    rb"^data: ?\[DONE\]"
    rb'|"type": ?"(message_stop|response\.(completed|failed|incomplete))"'
    rb'|"done": ?true',
    re.MULTILINE,
)


def is_last_frame(frame: bytes) -> bool:
    """Whether a client may take `frame` for the last. Quotes within texts are escaped, so that texts do not match."""
    return _LAST_FRAME.search(frame) is not None


MAX_KEPT_BYTES = 64 * 1024 * 1024
"""The largest answer that is kept; larger ones are passed on only."""


class CapturedResponse(Struct, frozen=True):
    """An answer of upstream, as far as it came; its frames are due when they came.

    Without a status nothing came, and `failure` says why. `has_client_left` means that nobody waited for more.
    """

    answer: HttpResponse
    failure: str = ""
    has_client_left: bool = False
    is_too_large: bool = False


class ResponseCapture:
    """Takes what comes from upstream. Times count from when it was made."""

    def __init__(self, asked: ParsedRequest, clock: Clock) -> None:
        self._asked, self._clock = asked, clock
        self._started_s = clock.monotonic_s()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._is_streamed = False
        self._frames: list[Frame] = []
        self._expected_bytes: int | None = None
        self._heard_bytes = 0
        self._splitter = splitter_for("")

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head. The names of headers are lower-case."""
        content_type = headers.get("content-type", "")
        length = headers.get("content-length", "")
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name != "content-length"}
        self._expected_bytes = int(length) if length.isascii() and length.isdigit() else None
        is_answer = self._asked.request is not None and status == 200
        self._is_streamed = self._asked.is_streamed if is_answer else is_framed(content_type)
        self._splitter = splitter_for(content_type if self._is_streamed else "")

    def hear(self, data: bytes) -> bool:
        """Take a piece of the body; whether a client may take it for the last one."""
        self._heard_bytes += len(data)
        if self._heard_bytes > MAX_KEPT_BYTES:
            self._frames.clear()
            return False
        frames = self._splitter.feed(data)
        at_ms = self._elapsed_ms()
        self._frames += [(at_ms, frame) for frame in frames]
        return self._heard_bytes == self._expected_bytes or (self._is_streamed and any(map(is_last_frame, frames)))

    def end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> CapturedResponse:
        """All that came, and how it ended."""
        end_ms = self._elapsed_ms()
        is_too_large = self._heard_bytes > MAX_KEPT_BYTES
        if not is_too_large:
            self._frames += [(end_ms, frame) for frame in self._splitter.close()]
        answer = HttpResponse(self._status, self._headers, tuple(self._frames), self._is_streamed, ending, end_ms)
        return CapturedResponse(answer, failure, has_client_left, is_too_large)

    def _elapsed_ms(self) -> float:
        return round((self._clock.monotonic_s() - self._started_s) * 1000.0, 3)


_EITHER_HEADER = zlib.MAX_WBITS | 32
_KNOWN_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))


class DecompressionError(Exception):
    """A body that is not packed as it says."""


class Decompressor:
    """Unpacks a body of gzip or deflate, piece by piece."""

    def __init__(self) -> None:
        self._inflating = zlib.decompressobj(_EITHER_HEADER)

    def unpack(self, data: bytes) -> bytes:
        """What `data` completes. Raises UnpackingError."""
        unpacked = []
        try:
            while data:
                unpacked.append(self._inflating.decompress(data))
                data = self._inflating.unused_data
                if self._inflating.eof:
                    self._inflating = zlib.decompressobj(_EITHER_HEADER)
        except zlib.error as error:
            raise DecompressionError(str(error)) from None
        return b"".join(unpacked)


def decompressor_for(content_encoding: str) -> Decompressor | None:
    """What unpacks bodies of this encoding, or None if nothing here does."""
    return Decompressor() if content_encoding.strip().lower() in _KNOWN_ENCODINGS else None
