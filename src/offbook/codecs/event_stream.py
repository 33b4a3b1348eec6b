"""Encodes, decodes and splits messages of `application/vnd.amazon.eventstream`, AWS's binary streams.

A message consists of its length and its headers' length, a checksum of both, the headers, the payload, and a checksum
of everything before. Streams of `InvokeModel` carry events of another protocol as base64 in the payload of a `chunk`.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from binascii import crc32
from collections.abc import Iterator

import orjson
from msgspec import Struct

from offbook.errors import MalformedResponseError

EVENT_STREAM_TYPE = "application/vnd.amazon.eventstream"
EVENT_TYPE, EXCEPTION_TYPE, MESSAGE_TYPE, CONTENT_TYPE = (
    ":event-type",
    ":exception-type",
    ":message-type",
    ":content-type",
)
CHUNK = "chunk"
"""The event whose payload carries an event of another protocol."""

MAX_MESSAGE_BYTES = 24 * 1024 * 1024
"""The size of the largest message: the largest payload plus the largest headers."""
FIRST_BYTE = b"\0"
"""The first byte of every message, and of no text: the high byte of its length."""
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_SMALLEST = _PRELUDE.size + _CHECKSUM.size
_STRING = 7


class EventMessage(Struct, frozen=True):
    """A message: its text headers and its payload."""

    headers: dict[str, str]
    payload: bytes

    @property
    def name(self) -> str:
        """The name of the event or the exception, or ""."""
        return self.headers.get(EXCEPTION_TYPE) or self.headers.get(EVENT_TYPE, "")

    @property
    def is_exception(self) -> bool:
        return self.headers.get(MESSAGE_TYPE) in ("exception", "error")


def encode_message(headers: dict[str, str], payload: bytes) -> bytes:
    """Encode a message. Names of headers have at most 255 bytes, values at most 32,767."""
    head = b"".join(_encode_header(name.encode(), value.encode()) for name, value in headers.items())
    lengths = struct.pack(">II", _SMALLEST + len(head) + len(payload), len(head))
    message = lengths + _CHECKSUM.pack(crc32(lengths)) + head + payload
    return message + _CHECKSUM.pack(crc32(message))


def _encode_header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _STRING, len(value)) + value


def encode_event(name: str, data: bytes) -> bytes:
    """Encode JSON as the event `name`. In a `chunk` it becomes base64."""
    payload = b'{"bytes":"' + b64encode(data) + b'"}' if name == CHUNK else data
    return encode_message({EVENT_TYPE: name, CONTENT_TYPE: "application/json", MESSAGE_TYPE: "event"}, payload)


def encode_exception(name: str, data: bytes) -> bytes:
    """Encode JSON as the exception `name`, which ends a stream."""
    headers = {EXCEPTION_TYPE: name, CONTENT_TYPE: "application/json", MESSAGE_TYPE: "exception"}
    return encode_message(headers, data)


def decode_message(data: bytes) -> EventMessage:
    """Decode one message.

    Raises:
        MalformedResponseError: `data` is not exactly one message, or a checksum is wrong.
    """
    try:
        total, head_length, _ = _PRELUDE.unpack_from(data)
        (checksum,) = _CHECKSUM.unpack(data[-_CHECKSUM.size :])
        is_right = total == len(data) and head_length <= total - _SMALLEST and checksum == crc32(data[:-4])
        if not is_right or not _has_prelude(data):
            raise _malformed("a length or a checksum is wrong", data)
        head_end = _PRELUDE.size + head_length
        return EventMessage(dict(_decode_headers(data[_PRELUDE.size : head_end])), data[head_end:-4])
    except (struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
        raise _malformed(str(error), data) from None


def _malformed(reason: str, data: bytes) -> MalformedResponseError:
    return MalformedResponseError(f"not a message of an event stream: {reason}", raw=data.decode("utf-8", "replace"))


def _has_prelude(data: bytes) -> bool:
    return int.from_bytes(data[8:12]) == crc32(data[:8])


_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The sizes of header values by their type, except for bytes (6) and text (7), which begin with theirs."""


def _decode_headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind, at = data[at + 1 : name_end].decode(), data[name_end], name_end + 1
        if kind in (6, _STRING):
            size, at = struct.unpack_from(">H", data, at)[0], at + 2
        else:
            size = _VALUE_BYTES[kind]
        if at + size > len(data):
            raise IndexError("a header ends after its message")
        if kind == _STRING:
            yield name, data[at : at + size].decode()
        at += size


class EventFrame(Struct, frozen=True):
    """A message as its headers and its JSON: the payload, or the decoded base64 in the payload of a `chunk`.

    For a `chunk`, `around` is the rest of the payload, before and after the base64.
    """

    headers: dict[str, str]
    data: bytes
    around: tuple[bytes, bytes] | None = None

    def encode(self) -> bytes:
        if self.around is None:
            return encode_message(self.headers, self.data)
        before, after = self.around
        return encode_message(self.headers, before + b64encode(self.data) + after)


def read_frame(frame: bytes) -> EventFrame | None:
    """Return the message in `frame`, or None if encoding it again would give other bytes."""
    if len(frame) < _SMALLEST or int.from_bytes(frame[:4]) != len(frame):
        return None
    try:
        read = _unwrap(decode_message(frame))
    except MalformedResponseError:
        return None
    return read if read.encode() == frame else None


def _unwrap(message: EventMessage) -> EventFrame:
    plain = EventFrame(message.headers, message.payload)
    if message.name != CHUNK or message.is_exception:
        return plain
    try:
        packed = chunk_bytes(message.payload)
        before, after = message.payload.split(packed, 1)
        return EventFrame(message.headers, b64decode(packed, validate=True), (before, after))
    except ValueError:
        return plain


def chunk_bytes(payload: bytes) -> bytes:
    """Return the base64 in the payload of a `chunk`. Raise ValueError if it has none."""
    content = orjson.loads(payload)
    packed = content.get("bytes") if isinstance(content, dict) else None
    if not isinstance(packed, str) or not packed:
        raise ValueError("a chunk without bytes")
    return packed.encode()


def event_documents(content: bytes) -> list[bytes] | None:
    """Return the JSON of each message in the body of an event stream; None if the body is not one."""
    if len(content) < _SMALLEST or not _has_prelude(content):
        return None
    splitter = EventStreamSplitter()
    frames = [*splitter.feed(content), *splitter.close()]
    return [read.data for frame in frames if (read := read_frame(frame)) is not None]


class EventStreamSplitter:
    """Splits a body into messages, byte for byte. Data after an invalid prelude is not split."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.is_broken = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that `data` completes."""
        self._pending += data
        frames, start = [], 0
        while (length := self._next_length(start)) is not None and len(self._pending) - start >= length:
            frames.append(bytes(self._pending[start : start + length]))
            start += length
        del self._pending[:start]
        return frames

    def close(self) -> list[bytes]:
        """Return the unsplit rest when the body has ended."""
        rest = bytes(self._pending)
        self._pending.clear()
        return [rest] if rest else []

    def _next_length(self, start: int) -> int | None:
        """Return the length of the next message, or None if it is unknown."""
        if self.is_broken or len(self._pending) - start < _PRELUDE.size:
            return None
        prelude = bytes(self._pending[start : start + _PRELUDE.size])
        length = int.from_bytes(prelude[:4])
        self.is_broken = not _has_prelude(prelude) or not _SMALLEST <= length <= MAX_MESSAGE_BYTES
        return None if self.is_broken else length


class EventStreamDecoder:
    """Decodes a body to messages, however its bytes are cut. A message that the end of the body cuts is dropped."""

    def __init__(self) -> None:
        self._splitter = EventStreamSplitter()

    def feed(self, data: bytes) -> Iterator[EventMessage]:
        """Yield the messages that `data` completes.

        Raises:
            MalformedResponseError: the next bytes are not a message.
        """
        for frame in self._splitter.feed(data):
            yield decode_message(frame)
        if self._splitter.is_broken:
            raise _malformed("a length or a checksum is wrong", b"".join(self._splitter.close()))

    def close(self) -> list[EventMessage]:
        return []
