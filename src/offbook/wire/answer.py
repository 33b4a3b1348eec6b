"""What goes back over HTTP, as a value: status, headers, bytes with their times, and how it ends."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from offbook.wire.http_bytes import http_bytes

Ending = Literal["complete", "cut", "reset", "silence"]
Frame: TypeAlias = tuple[float, bytes]
"""Bytes, and when they are due, in ms since the request."""

JSON_TYPE = "application/json"
_FRAMING = frozenset(("content-length", "transfer-encoding"))


class Answer(Struct, frozen=True, dict=True):
    """An answer on its way out.

    Frames are due in order. After the last one the answer ends at `end_ms`: `complete`; `cut` off by a
    close without the end of the body; by a `reset` of the connection; or in `silence`, until the client
    leaves or `end_ms` has come. An answer that has no `status` sends nothing before it ends.
    """

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    is_streamed: bool = False
    ending: Ending = "complete"
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
        if not _FRAMING.isdisjoint(headers):
            headers = {name: value for name, value in headers.items() if name not in _FRAMING}
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

    def after(self, delay_ms: float) -> Answer:
        """The same answer, all of it due in `delay_ms`."""
        frames = tuple((delay_ms, data) for _, data in self.frames)
        return replace(self, frames=frames, end_ms=delay_ms)

    def together(self) -> Answer:
        """The same answer; what is due at the same time is one frame."""
        frames = tuple(
            (at_ms, b"".join(data for _, data in group)) for at_ms, group in groupby(self.frames, key=itemgetter(0))
        )
        return replace(self, frames=frames)


def whole(status: int, body: bytes, *, headers: dict[str, str] | None = None, content_type: str = JSON_TYPE) -> Answer:
    """An answer in one piece. A content type among the `headers` comes first."""
    told = {name.lower(): value for name, value in (headers or {}).items()}
    return Answer(status, {"content-type": content_type} | told, ((0.0, body),))
