"""Server-sent events: bytes to events, however they are cut, and back."""

import codecs

from msgspec import Struct

from offbook.codecs.one_line import on_one_line


class ServerSentEvent(Struct, frozen=True):
    """One event of a text/event-stream body."""

    data: str
    event: str = ""


class SseDecoder:
    """Splits a text/event-stream body into events. Comments and fields other than `data` and `event` are dropped."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._pending = ""
        self._data: list[str] = []
        self._event = ""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that `data` completes."""
        return self._take(self._text.decode(data))

    def close(self) -> list[ServerSentEvent]:
        """The event that the end of the body completes, if one was under way."""
        return self._take(self._text.decode(b"", final=True) + "\n\n")

    def _take(self, text: str) -> list[ServerSentEvent]:
        self._pending += text
        held = self._pending.endswith("\r")  # a lone CR may be the first half of a CRLF
        ready = self._pending[:-1] if held else self._pending
        *lines, rest = ready.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pending = rest + "\r" if held else rest
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        event = ServerSentEvent("\n".join(self._data), self._event) if self._data else None
        self._data, self._event = [], ""
        return event


def encode_event(data: bytes, event: str = "") -> bytes:
    """One frame. `data` must be JSON without line breaks, as compact JSON is, or a word."""
    name = b"event: " + event.encode() + b"\n" if event else b""
    return name + b"data: " + on_one_line(data) + b"\n\n"
