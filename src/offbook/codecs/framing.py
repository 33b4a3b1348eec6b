"""Splits streamed bodies into events or JSON lines, writes those that are text, and unpacks content encodings."""

from __future__ import annotations

import re
import zlib
from importlib import import_module
from typing import Any, Protocol

from msgspec import Struct

from offbook.codecs.event_stream import (
    EVENT_STREAM_TYPE,
    FIRST_BYTE,
    EventFrame,
    EventStreamSplitter,
    encode_event,
    event_documents,
    read_frame,
)

_EVENT_END = re.compile(rb"[\r\n](?:\r\n?|(?<=\n)\n)")  # CRLF, LF or CR, twice
_LINE_END = re.compile(rb"\n")
_EVENTS, _LINES = (_EVENT_END, b"\n\n"), (_LINE_END, b"\n")
_FRAME_ENDS = {"text/event-stream": _EVENTS, "application/x-ndjson": _LINES, "application/jsonl": _LINES}
_LONGEST_END = 4
_BYTE_ORDER_MARK = "\ufeff".encode()
_LINE_BREAKS = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}
"""Characters that clients of Gemini and Ollama treat as the end of a line, though JSON allows them in a string."""


class FrameSplitter(Protocol):
    """Splits pieces of a body into frames. All frames joined are all pieces joined, byte for byte."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes."""
        ...

    def close(self) -> list[bytes]:
        """Return the unsplit rest when the body has ended."""
        ...


def is_framed(content_type: str) -> bool:
    """Return whether bodies of this type consist of frames."""
    media_type = _media_type(content_type)
    return media_type in _FRAME_ENDS or media_type == EVENT_STREAM_TYPE


def splitter_for(content_type: str) -> FrameSplitter:
    """Return a splitter for bodies of this type: events, JSON lines, or else the pieces as they arrive."""
    media_type = _media_type(content_type)
    if media_type == EVENT_STREAM_TYPE:
        return EventStreamSplitter()
    end = _FRAME_ENDS.get(media_type)
    return _UnsplitPieces() if end is None else _PatternSplitter(*end)


def encode_frame(content_type: str, data: bytes, event: str = "") -> bytes:
    """Encode JSON as a frame of a body of this type, with the name of the event where it has one."""
    media_type = _media_type(content_type)
    if media_type == EVENT_STREAM_TYPE:
        return encode_event(event, data)
    return encode_ndjson_line(data) if _FRAME_ENDS.get(media_type) is _LINES else encode_sse_event(data, event)


def binary_frame(data: bytes) -> EventFrame | None:
    """Return the AWS event-stream message in a frame, or None. The first byte distinguishes text."""
    return read_frame(data) if data.startswith(FIRST_BYTE) else None


def binary_documents(content: bytes) -> list[bytes] | None:
    """Return the JSON of each message in an AWS event-stream body, or None for other bodies."""
    return event_documents(content) if content.startswith(FIRST_BYTE) else None


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class _UnsplitPieces:
    """Returns pieces unchanged."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data] if data else []

    def close(self) -> list[bytes]:
        return []


class _PatternSplitter:
    """Splits after each match of a pattern. `plain_end` is the form of all matches in bodies without CR."""

    def __init__(self, end: re.Pattern[bytes], plain_end: bytes) -> None:
        self._end, self._plain_end = end, plain_end
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        if self._pending or b"\r" in data:
            return self._feed_pending(data)
        frames, start = [], 0
        while (found := data.find(self._plain_end, start)) >= 0:
            end = found + len(self._plain_end)
            frames.append(data[start:end])
            start = end
        if start < len(data):
            self._pending += data[start:]
        return frames

    def close(self) -> list[bytes]:
        rest = bytes(self._pending)
        self._pending.clear()
        return [rest] if rest else []

    def _feed_pending(self, data: bytes) -> list[bytes]:
        frames, start = [], 0
        searched = max(0, len(self._pending) - _LONGEST_END)
        self._pending += data
        while (found := self._end.search(self._pending, searched)) is not None:
            end = found.end()
            if end == len(self._pending) and self._pending.endswith(b"\r"):
                break  # a line feed that belongs to it may follow
            frames.append(bytes(self._pending[start:end]))
            start = searched = end
        del self._pending[:start]
        return frames


class ServerSentEvent(Struct, frozen=True):
    """One event of a text/event-stream body."""

    data: str
    event: str = ""
    id: str = ""


class SseDecoder:
    """Decodes a text/event-stream body to events. Comments, and fields except `data`, `event` and `id`, are dropped."""

    def __init__(self) -> None:
        self._splitter = _PatternSplitter(*_EVENTS)
        self._is_at_start = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that `data` completes."""
        return self._decode(self._splitter.feed(data))

    def close(self) -> list[ServerSentEvent]:
        """Return the event that the end of the body completes, if one was under way."""
        return self._decode(self._splitter.close())

    def _decode(self, frames: list[bytes]) -> list[ServerSentEvent]:
        if frames and self._is_at_start:
            self._is_at_start = False
            frames[0] = frames[0].removeprefix(_BYTE_ORDER_MARK)
        return [event for frame in frames if (event := _decode_event(frame)) is not None]


def _decode_event(frame: bytes) -> ServerSentEvent | None:
    text = frame.decode("utf-8", "replace")
    if text.startswith("data: ") and text.find("\n") == len(text) - 2 and text[-1] == "\n" and "\r" not in text:
        return ServerSentEvent(text[6:-2])  # as nearly all are
    data, event, number = list[str](), "", ""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name == "event":
            event = value.removeprefix(" ")
        elif name == "id":
            number = value.removeprefix(" ")
    return ServerSentEvent("\n".join(data), event, number) if data else None


def encode_sse_event(data: bytes, event: str = "") -> bytes:
    """Encode one frame. `data` must be JSON without line breaks, as compact JSON is, or a word."""
    name = b"event: " + event.encode() + b"\n" if event else b""
    return name + b"data: " + escape_line_breaks(data) + b"\n\n"


class NdjsonDecoder:
    """Splits a body into its lines. Blank lines are dropped."""

    def __init__(self) -> None:
        self._splitter = _PatternSplitter(*_LINES)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        return [line.rstrip(b"\n") for line in self._splitter.feed(data) if not line.isspace()]

    def close(self) -> list[bytes]:
        """Return the line that the end of the body completes, if one was under way."""
        return [line for line in self._splitter.close() if not line.isspace()]


def encode_ndjson_line(data: bytes) -> bytes:
    """Encode one line. `data` must be JSON without line breaks, as compact JSON is."""
    return escape_line_breaks(data) + b"\n"


def escape_line_breaks(data: bytes) -> bytes:
    """Return the JSON with non-ASCII line breaks escaped."""
    if data.isascii():
        return data
    for character, escaped in _LINE_BREAKS.items():
        data = data.replace(character, escaped)
    return data


MAX_UNPACKED_BYTES = 64 * 1024 * 1024


class PackedBodyError(ValueError):
    """A body that cannot be unpacked: the encoding is unknown, or the body is broken or too large."""


def unpack_body(body: bytes, content_encoding: str) -> bytes:
    """Return a body as it was before its `content-encoding`.

    Raises:
        PackedBodyError: it cannot be unpacked.
    """
    for name in reversed([name.strip() for name in content_encoding.lower().split(",")]):
        if name not in ("", "identity"):
            body = _unpack(name, body)
    return body


INFLATED = frozenset(("gzip", "x-gzip", "deflate"))
"""The encodings that `Unpacker` unpacks without a further package."""
_PACKAGES = {"br": "brotli", "zstd": "zstandard"}
UNPACKED_AT_ONCE = 256
"""The bytes unpacked at a time: a body may expand a thousandfold, and is stopped before it fills the memory."""


class Unpacker:
    """Unpacks a gzip, deflate or zstd body piece by piece. The body may have several consecutive members.

    Raises:
        ImportError: the package for zstd is not installed.
    """

    def __init__(self, encoding: str) -> None:
        self._zstandard = import_module(_PACKAGES["zstd"]) if encoding == "zstd" else None
        self._may_be_raw, self._window_bits = encoding == "deflate", 0
        self._held = b""
        self._member: Any = None

    def feed(self, data: bytes) -> bytes:
        """Return the data that `data` completes. Raises PackedBodyError for an invalid body."""
        pieces, data, self._held = list[bytes](), self._held + data, b""
        try:
            while data:
                if self._member is None and len(data) < 2:
                    self._held = data
                    break
                self._member = self._member or self._new_member(data)
                pieces.append(self._member.decompress(data))
                if not self._member.eof:
                    break
                data, self._member = self._member.unused_data, None
        except Exception as error:  # each package has errors of its own
            raise PackedBodyError(str(error)) from None
        return b"".join(pieces)

    @property
    def is_complete(self) -> bool:
        """Whether the body may end here."""
        return self._member is None and not self._held

    def _new_member(self, data: bytes) -> Any:
        if self._zstandard is not None:
            return self._zstandard.ZstdDecompressor().decompressobj()
        if not self._window_bits:  # some servers send deflate without the header of zlib
            has_header = data[:2] == b"\x1f\x8b" or (data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0)
            is_raw = self._may_be_raw and not has_header
            self._window_bits = -zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32
        return zlib.decompressobj(self._window_bits)


class _BrotliUnpacker:
    """Unpacks a body of brotli, like `Unpacker`."""

    def __init__(self) -> None:
        self._decompressor = import_module(_PACKAGES["br"]).Decompressor()

    def feed(self, data: bytes) -> bytes:
        try:
            return bytes(self._decompressor.process(data))
        except Exception as error:  # the package has errors of its own
            raise PackedBodyError(str(error)) from None

    @property
    def is_complete(self) -> bool:
        return bool(self._decompressor.is_finished())


def _unpack(encoding: str, data: bytes) -> bytes:
    if encoding not in INFLATED | _PACKAGES.keys():
        raise PackedBodyError(f"the encoding {encoding[:40]!r} is unknown")
    try:
        unpacker = _BrotliUnpacker() if encoding == "br" else Unpacker(encoding)
    except ImportError:
        package = _PACKAGES[encoding]
        raise PackedBodyError(
            f"the encoding {encoding} needs the package {package}: install it, for example with pip install {package}"
        ) from None
    pieces, size = list[bytes](), 0
    for start in range(0, len(data), UNPACKED_AT_ONCE):
        try:
            pieces.append(unpacker.feed(data[start : start + UNPACKED_AT_ONCE]))
        except PackedBodyError as error:
            raise PackedBodyError(f"the body is not {encoding}: {error}") from None
        size += len(pieces[-1])
        if size > MAX_UNPACKED_BYTES:
            raise PackedBodyError(f"the body has more than {MAX_UNPACKED_BYTES:,} bytes when it is unpacked")
    if not unpacker.is_complete:
        raise PackedBodyError("the body is cut off")
    return b"".join(pieces)
