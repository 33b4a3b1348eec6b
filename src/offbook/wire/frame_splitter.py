"""Cutting a body into the frames of its protocol, however it arrives."""

from __future__ import annotations

import re
from typing import Protocol

_EVENT_END = re.compile(rb"[\r\n](?:\r\n?|(?<=\n)\n)")  # CRLF, LF or CR, twice
_LINE_END = re.compile(rb"\n")
_ENDS = {
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
    return _media_type(content_type) in _ENDS


def splitter_of(content_type: str) -> FrameSplitter:
    """What cuts a body of this type: server-sent events, lines of JSON, or else the pieces as they arrive."""
    end = _ENDS.get(_media_type(content_type))
    return _Pieces() if end is None else _Splitter(end)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class _Pieces:
    """Leaves pieces as they are."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data] if data else []

    def close(self) -> list[bytes]:
        return []


class _Splitter:
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
