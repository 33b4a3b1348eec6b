"""The events of a streamed answer, one by one, however its bytes came."""

from __future__ import annotations

import re
from collections.abc import Iterator

from offbook.wire.answer import Answer, Frame

_ENDS = {
    "text/event-stream": re.compile(rb"\r?\n\r?\n|\r\r"),
    "application/x-ndjson": re.compile(rb"\n"),
}


def events_apart(answer: Answer) -> tuple[Frame, ...]:
    """The bytes of the answer with one event a frame, due when the last of it is.

    An answer that is neither server-sent events nor JSON lines keeps its frames.
    """
    end = _ENDS.get(answer.headers.get("content-type", "").partition(";")[0].strip().lower())
    return answer.frames if end is None else tuple(_events(answer.frames, end))


def _events(frames: tuple[Frame, ...], end: re.Pattern[bytes]) -> Iterator[Frame]:
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
