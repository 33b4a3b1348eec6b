"""Splits streamed bodies into server-sent events or JSON lines, however the bytes are cut, and writes them."""

import codecs

from msgspec import Struct

_LINE_BREAKS = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}
"""What clients of Gemini and Ollama take for the end of a line, though JSON allows it inside a text."""


def escape_line_breaks(data: bytes) -> bytes:
    """The same JSON, with line breaks other than those of ASCII spelt out."""
    if data.isascii():
        return data
    for character, spelt in _LINE_BREAKS.items():
        data = data.replace(character, spelt)
    return data


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


def encode_sse_event(data: bytes, event: str = "") -> bytes:
    """One frame. `data` must be JSON without line breaks, as compact JSON is, or a word."""
    name = b"event: " + event.encode() + b"\n" if event else b""
    return name + b"data: " + escape_line_breaks(data) + b"\n\n"


class NdjsonDecoder:
    """Splits a body into its lines. Blank ones are dropped."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        first, *others = data.split(b"\n")
        self._pending.append(first)
        if not others:
            return []
        lines = [b"".join(self._pending), *others[:-1]]
        self._pending = [others[-1]]
        return [line for line in lines if line.strip()]

    def close(self) -> list[bytes]:
        """The line that the end of the body completes, if one was under way."""
        return self.feed(b"\n")


def encode_ndjson_line(data: bytes) -> bytes:
    """One line. `data` must be JSON without line breaks, as compact JSON is."""
    return escape_line_breaks(data) + b"\n"
