"""What came from upstream in answer to one call."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from offbook.clock import Clock
from offbook.wire.answer import Answer, Ending, Frame
from offbook.wire.asked import Asked
from offbook.wire.frame_splitter import is_framed, splitter_of
from offbook.wire.last_frame import tells_end

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""The largest answer that is kept; larger ones are passed on only."""


class Heard(Struct, frozen=True):
    """An answer of upstream, as far as it came; its frames are due when they came.

    Without a status nothing came, and `failure` says why. `has_client_left` means that nobody waited for more.
    """

    answer: Answer
    failure: str = ""
    has_client_left: bool = False
    is_too_large: bool = False


class Hearing:
    """Takes what comes from upstream. Times count from when it was made."""

    def __init__(self, asked: Asked, clock: Clock) -> None:
        self._asked, self._clock = asked, clock
        self._started_s = clock.monotonic_s()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._is_streamed = False
        self._frames: list[Frame] = []
        self._expected_bytes: int | None = None
        self._heard_bytes = 0
        self._splitter = splitter_of("")

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head. The names of headers are lower-case."""
        content_type = headers.get("content-type", "")
        length = headers.get("content-length", "")
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name != "content-length"}
        self._expected_bytes = int(length) if length.isascii() and length.isdigit() else None
        is_answer = self._asked.request is not None and status == 200
        self._is_streamed = self._asked.is_streamed if is_answer else is_framed(content_type)
        self._splitter = splitter_of(content_type if self._is_streamed else "")

    def hear(self, data: bytes) -> bool:
        """Take a piece of the body; whether a client may take it for the last one."""
        self._heard_bytes += len(data)
        if self._heard_bytes > MAX_KEPT_BYTES:
            self._frames.clear()
            return False
        frames = self._splitter.feed(data)
        at_ms = self._elapsed_ms()
        self._frames += [(at_ms, frame) for frame in frames]
        return self._heard_bytes == self._expected_bytes or (self._is_streamed and any(map(tells_end, frames)))

    def end(self, ending: Ending, *, failure: str = "", has_client_left: bool = False) -> Heard:
        """All that came, and how it ended."""
        end_ms = self._elapsed_ms()
        is_too_large = self._heard_bytes > MAX_KEPT_BYTES
        if not is_too_large:
            self._frames += [(end_ms, frame) for frame in self._splitter.close()]
        answer = Answer(self._status, self._headers, tuple(self._frames), self._is_streamed, ending, end_ms)
        return Heard(answer, failure, has_client_left, is_too_large)

    def _elapsed_ms(self) -> float:
        return round((self._clock.monotonic_s() - self._started_s) * 1000.0, 3)
