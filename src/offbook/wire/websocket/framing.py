"""WebSocket frames (RFC 6455): parses a peer's data, and encodes frames, handshakes and close messages.

Nothing here waits or has a socket. Extensions are neither offered nor accepted, so frames stay plain.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha1
from typing import Final

from msgspec import Struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL_CLOSURE, PROTOCOL_ERROR, NO_STATUS, ABNORMAL_CLOSURE = 1000, 1002, 1005, 1006
INVALID_DATA, POLICY_VIOLATION, TOO_BIG, INTERNAL_ERROR, TRY_AGAIN_LATER = 1007, 1008, 1009, 1011, 1013
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The size of the largest accepted message, over all its frames."""
MAX_REASON_BYTES = 123

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_DATA_OPCODES = frozenset((CONTINUATION, TEXT, BINARY))
_OPCODES = _DATA_OPCODES | {CLOSE, PING, PONG}
_SENDABLE_CODES = frozenset((*range(1000, 1004), *range(1007, 1015)))


class FramingError(Exception):
    """Bytes that violate the protocol. `code` is the corresponding close code."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


class SocketMessage(Struct, frozen=True, gc=False):
    """One whole message, text or binary, or a control frame."""

    opcode: int
    data: bytes

    @property
    def is_text(self) -> bool:
        return self.opcode == TEXT

    @property
    def is_data(self) -> bool:
        """Whether it is a data frame, as opposed to a control frame."""
        return self.opcode in (TEXT, BINARY)


class CloseMessage(Struct, frozen=True):
    """The content of a close frame. The code is 1005 if it has none, and 1006 if the connection ended without the
    frame.
    """

    code: int = NO_STATUS
    reason: str = ""


class FrameParser:
    """Parses frames as they arrive, and joins the fragments of a message.

    With `expects_mask`, frames must be masked, as clients' are; otherwise they must not be.
    """

    def __init__(self, *, expects_mask: bool, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._expects_mask, self._max_bytes = expects_mask, max_message_bytes
        self._unparsed = bytearray()
        self._opcode, self._fragments, self._fragment_bytes = CONTINUATION, list[bytes](), 0

    @property
    def unparsed(self) -> bytes:
        """The beginning of an incomplete frame."""
        return bytes(self._unparsed)

    def feed(self, data: bytes) -> Iterator[SocketMessage]:
        """Yield the messages and control frames that `data` completes.

        Raises:
            FramingError: the bytes violate the protocol. Feed nothing after that.
        """
        self._unparsed += data
        at = 0
        try:
            while (frame := self._frame_at(at)) is not None:
                is_final, opcode, payload, at = frame
                message = self._joined(opcode, payload, is_final=is_final)
                if message is not None:
                    yield message
        finally:
            del self._unparsed[:at]

    def _frame_at(self, at: int) -> tuple[bool, int, bytes, int] | None:
        """Return whether the frame at a position is final, and its opcode, payload and end; None if it
        is incomplete.
        """
        buffer = self._unparsed
        if len(buffer) < at + 2:
            return None
        first, second = buffer[at], buffer[at + 1]
        opcode, is_masked, size, start = first & 0x0F, second >= 0x80, second & 0x7F, at + 2
        self._check_head(first, opcode, is_masked=is_masked, size=size)
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) < start + width:
                return None
            size = int.from_bytes(buffer[start : start + width])
            start += width
        if size + self._fragment_bytes > self._max_bytes:
            raise FramingError(TOO_BIG, f"a message has more than {self._max_bytes} bytes")
        end = start + size + (4 if is_masked else 0)
        if len(buffer) < end:
            return None
        payload = bytes(buffer[end - size : end])
        if is_masked:
            payload = masked(payload, bytes(buffer[start : start + 4]))
        return first >= 0x80, opcode, payload, end

    def _check_head(self, first: int, opcode: int, *, is_masked: bool, size: int) -> None:
        if first & 0x70:
            raise FramingError(PROTOCOL_ERROR, "a frame uses an extension that was not agreed")
        if opcode not in _OPCODES:
            raise FramingError(PROTOCOL_ERROR, f"a frame has the unknown opcode {opcode}")
        if opcode >= CLOSE and (first < 0x80 or size >= 126):
            raise FramingError(PROTOCOL_ERROR, "a control frame is fragmented or too long")
        if is_masked != self._expects_mask:
            raise FramingError(PROTOCOL_ERROR, f"a frame is {'not ' if self._expects_mask else ''}masked")

    def _joined(self, opcode: int, payload: bytes, *, is_final: bool) -> SocketMessage | None:
        """Return the message that a frame completes, or None if more fragments follow."""
        if opcode not in _DATA_OPCODES:
            return SocketMessage(opcode, payload)
        is_continued = bool(self._opcode)
        if is_continued != (opcode == CONTINUATION):
            raise FramingError(
                PROTOCOL_ERROR, "a fragment is missing" if is_continued else "a fragment continues nothing"
            )
        opcode = self._opcode or opcode
        if not is_final:
            self._opcode = opcode
            self._fragments.append(payload)
            self._fragment_bytes += len(payload)
            return None
        if self._fragments:
            payload = b"".join([*self._fragments, payload])
            self._opcode, self._fragments, self._fragment_bytes = CONTINUATION, [], 0
        self._opcode = CONTINUATION
        if opcode == TEXT:
            _check_text(payload)
        return SocketMessage(opcode, payload)


def _check_text(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError:
        raise FramingError(INVALID_DATA, "a text message is not UTF-8") from None


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return the payload with the mask applied or removed, quickly, as one large integer."""
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)


def encode_frame(opcode: int, payload: bytes, *, is_masked: bool = False) -> bytes:
    """Return one final frame. Clients mask theirs."""
    size, bit = len(payload), 0x80 if is_masked else 0
    if size < 126:
        head = bytes((0x80 | opcode, bit | size))
    elif size < 0x10000:
        head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8)
    if not is_masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + masked(payload, mask)


def encode_close(close: CloseMessage, *, is_masked: bool = False) -> bytes:
    """Return a close frame. A long reason is truncated; the codes 1005 and 1006 are not sent."""
    if close.code in (NO_STATUS, ABNORMAL_CLOSURE):
        return encode_frame(CLOSE, b"", is_masked=is_masked)
    reason = close.reason.encode("utf-8", "replace")[:MAX_REASON_BYTES].decode("utf-8", "ignore").encode()
    return encode_frame(CLOSE, close.code.to_bytes(2) + reason, is_masked=is_masked)


def decode_close(payload: bytes) -> CloseMessage:
    """Return the content of a close frame's payload.

    Raises:
        FramingError: it has half a code, an invalid code, or a reason that is not UTF-8.
    """
    if not payload:
        return CloseMessage()
    code = int.from_bytes(payload[:2])
    if len(payload) < 2 or not (code in _SENDABLE_CODES or 3000 <= code < 5000):
        raise FramingError(PROTOCOL_ERROR, "a close frame has an invalid code")
    _check_text(payload[2:])
    return CloseMessage(code, payload[2:].decode())


def accept_key(key: str) -> str:
    """Return the `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key`."""
    return b64encode(sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()).decode()


def new_key() -> str:
    """Return a `Sec-WebSocket-Key` for a handshake."""
    return b64encode(os.urandom(16)).decode()


def is_key(text: str) -> bool:
    """Return whether a text is a `Sec-WebSocket-Key`: 16 bytes in base64."""
    try:
        return len(b64decode(text, validate=True)) == 16
    except ValueError:
        return False
