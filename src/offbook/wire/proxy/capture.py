"""Captures an upstream response: decompresses it, splits it into frames, and times each frame."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from msgspec import Struct

from offbook.clock import Clock
from offbook.codecs.framing import is_framed, splitter_for
from offbook.wire.request import ParsedRequest
from offbook.wire.response import Frame, HttpResponse, ResponseEnding

_LAST_FRAME = re.compile(
    rb"^data: ?\[DONE\]"
    rb'|"type": ?"(message_stop|response\.(completed|failed|incomplete))"'
    rb'|"done": ?true',
    re.MULTILINE,
)


def is_last_frame(frame: bytes) -> bool:
    """Return whether a client may treat `frame` as the last. Text never matches, as its quotes are escaped."""
    return _LAST_FRAME.search(frame) is not None


MAX_KEPT_BYTES = 64 * 1024 * 1024
"""The size of the largest response that is captured; larger ones are forwarded only."""


class CapturedResponse(Struct, frozen=True):
    """A response of a real API, as far as it arrived; its frames are due when they arrived.

    Without a status nothing arrived, and `failure` says why. `has_client_left` if the client did not wait for the end.
    """

    answer: HttpResponse
    failure: str = ""
    has_client_left: bool = False
    is_too_large: bool = False


class ResponseCapture:
    """Captures one response. Times count from its creation."""

    def __init__(self, parsed: ParsedRequest, clock: Clock) -> None:
        self._parsed, self._clock = parsed, clock
        self._started_s = clock.monotonic_s()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._is_streamed = False
        self._frames: list[Frame] = []
        self._expected_bytes: int | None = None
        self._captured_bytes = 0
        self._splitter = splitter_for("")

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Capture the head. Header names are lower-case."""
        content_type = headers.get("content-type", "")
        length = headers.get("content-length", "")
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name != "content-length"}
        self._expected_bytes = int(length) if length.isascii() and length.isdigit() else None
        is_model_answer = self._parsed.request is not None and status == 200
        self._is_streamed = self._parsed.is_streamed if is_model_answer else is_framed(content_type)
        self._splitter = splitter_for(content_type if self._is_streamed else "")

    def feed(self, data: bytes) -> bool:
        """Capture a piece of the body, and return whether a client may treat it as the last."""
        self._captured_bytes += len(data)
        if self._captured_bytes > MAX_KEPT_BYTES:
            self._frames.clear()
            return False
        frames = self._splitter.feed(data)
        at_ms = self._elapsed_ms()
        self._frames += [(at_ms, frame) for frame in frames]
        return self._captured_bytes == self._expected_bytes or (self._is_streamed and any(map(is_last_frame, frames)))

    def end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> CapturedResponse:
        """Return all that was captured."""
        end_ms = self._elapsed_ms()
        is_too_large = self._captured_bytes > MAX_KEPT_BYTES
        if not is_too_large:
            self._frames += [(end_ms, frame) for frame in self._splitter.close()]
        answer = HttpResponse(self._status, self._headers, tuple(self._frames), self._is_streamed, ending, end_ms)
        return CapturedResponse(answer, failure, has_client_left, is_too_large)

    def _elapsed_ms(self) -> float:
        return round((self._clock.monotonic_s() - self._started_s) * 1000.0, 3)


_EITHER_HEADER = zlib.MAX_WBITS | 32
_KNOWN_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))


class DecompressionError(Exception):
    """A body that is not compressed as its header says."""


class Decompressor:
    """Decompresses a body of gzip or deflate, piece by piece."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_EITHER_HEADER)

    def decompress(self, data: bytes) -> bytes:
        """Return what `data` completes.

        Raises:
            DecompressionError: the data is neither gzip nor deflate.
        """
        pieces = []
        try:
            while data:
                pieces.append(self._inflate.decompress(data))
                data = self._inflate.unused_data
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(_EITHER_HEADER)
        except zlib.error as error:
            raise DecompressionError(str(error)) from None
        return b"".join(pieces)


def decompressor_for(content_encoding: str) -> Decompressor | None:
    """Return a decompressor for bodies of this encoding, or None if the encoding is another."""
    return Decompressor() if content_encoding.strip().lower() in _KNOWN_ENCODINGS else None
