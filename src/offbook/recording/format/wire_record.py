"""The HTTP response or WebSocket frames of an exchange as they were received, and the JSON values in their bytes."""

from __future__ import annotations

import codecs
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import orjson
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from offbook.clock import MAX_WAIT_MS
from offbook.codecs.event_stream import EventFrame
from offbook.codecs.framing import SseDecoder, binary_documents, binary_frame

PLAIN_HTTP = "http"
"""The protocol of an exchange that is not a model call, such as a list of models."""
WEBSOCKET = "websocket"
"""The protocol of an exchange of a WebSocket session. Each of its frames is one message."""
WEBSOCKET_METHOD = "WS"
"""The method of the requests of a WebSocket session, in recordings and lists of calls."""

_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_REPLAYABLE_HEADER = re.compile(
    r"content-type|retry-after(-ms)?|x-should-retry|(x-)?request-id|x-amz-retry-after|x-amzn-(requestid|errortype|bedrock-.+)"
    r"|(x-|anthropic-)?ratelimit-.+|openai-(?!(organization|project)$).+"
)


class BinaryText(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Bytes that are not text: as `base64`, as a message of AWS's event stream, or as a binary WebSocket message in
    UTF-8 (`binary`).

    An event-stream message has headers (`event`) and `data`. If its payload carries the data as base64, `around` is the
    rest of the payload, before and after it.

    Raises:
        ValueError: the text is not base64, or a header is too long.
    """

    base64: str = ""
    event: dict[str, str] | None = None
    data: str = ""
    around: tuple[str, str] | None = None
    binary: str | None = None

    def __post_init__(self) -> None:
        self.decode()

    def decode(self) -> bytes:
        """Return the bytes."""
        if self.binary is not None:
            return self.binary.encode()
        try:
            return b64decode(self.base64, validate=True) if self.event is None else self._encode_event(self.event)
        except (ValueError, struct.error) as error:
            what = "base64" if self.event is None else "a message of an event stream"
            raise ValueError(f"not {what}: {error}") from None

    def _encode_event(self, headers: dict[str, str]) -> bytes:
        around = None if self.around is None else (self.around[0].encode(), self.around[1].encode())
        return EventFrame(headers, self.data.encode("utf-8", "surrogateescape"), around).encode()


WireText: TypeAlias = str | BinaryText
TimedFrame: TypeAlias = tuple[Annotated[float, Meta(ge=0, le=MAX_WAIT_MS)], WireText]
"""The arrival time of bytes, in ms since the request, and the bytes."""


class WireRecord(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """One HTTP response: `frames` if it was streamed, else `body`. Header names are lower-case.

    `protocol` is the name of a codec, or `http` for an exchange that is not a model call. With `websocket`, the frames
    are the server's messages, and `close` is set if the server then closed the connection: the code, 1006 if it sent
    none, and the reason.

    Raises:
        ValueError: a header has invalid characters, or there are both frames and a body.
    """

    protocol: str
    status: Annotated[int, Meta(ge=100, le=599)] = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: WireText | None = None
    frames: list[TimedFrame] | None = None
    close: tuple[Annotated[int, Meta(ge=1000, le=4999)], str] | None = None

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if reason := _unfit_header_reason(name, value):
                raise ValueError(f"the header {ascii(name)[:60]} {reason}")
        if self.frames is not None and self.body is not None:
            raise ValueError("a response has frames or a body, not both")

    @property
    def is_streamed(self) -> bool:
        """Whether the response was streamed."""
        return self.frames is not None

    def timed_frames(self) -> list[tuple[float, bytes]]:
        """Return the bytes with their times in ms. A body is one frame at 0."""
        if self.frames is not None:
            return [(at_ms, wire_bytes(text)) for at_ms, text in self.frames]
        return [] if self.body is None else [(0.0, wire_bytes(self.body))]

    def content(self) -> bytes:
        """Return all bytes of the response; the messages of a WebSocket on separate lines."""
        return (b"\n" if self.protocol == WEBSOCKET else b"").join(data for _, data in self.timed_frames())


def _unfit_header_reason(name: str, value: str) -> str:
    """Return why a header cannot be sent; empty if it can."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not a lower-case name"
    return "" if _HEADER_VALUE.fullmatch(value) else "has characters that are not allowed in headers"


def wire_text(data: bytes) -> WireText:
    """Return bytes in the file format: as str for UTF-8, else as an event or base64."""
    try:
        frame = binary_frame(data)
        return data.decode() if frame is None else _event_text(frame)
    except UnicodeDecodeError:
        return BinaryText(b64encode(data).decode())


def _event_text(frame: EventFrame) -> BinaryText:
    around = None if frame.around is None else (frame.around[0].decode(), frame.around[1].decode())
    return BinaryText(event=frame.headers, data=frame.data.decode(), around=around)


def websocket_text(data: bytes, *, is_text: bool) -> WireText:
    """Return a WebSocket message in the format of the file."""
    text = wire_text(data)
    return BinaryText(binary=text) if isinstance(text, str) and not is_text else text


def wire_bytes(text: WireText) -> bytes:
    """Return the bytes of a `wire_text`."""
    return text.encode() if isinstance(text, str) else text.decode()


def replayable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that matter in a replay, with lower-case names.

    Headers that name an account, hold credentials or describe the transfer encoding are omitted.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    return {
        name: value
        for name, value in lowered.items()
        if _REPLAYABLE_HEADER.fullmatch(name) and not _unfit_header_reason(name, value)
    }


def json_documents(content: bytes) -> list[Any]:
    """Return the JSON values in a response body: the items of a list, or the values of its events or lines."""
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        return list(_parse_each(_event_data(content)))
    return whole if isinstance(whole, list) else [whole]


def _event_data(content: bytes) -> list[str] | list[bytes]:
    """Return the data of each event, or the lines without events."""
    if (documents := binary_documents(content)) is not None:
        return documents
    decoder = SseDecoder()
    events = [*decoder.feed(content), *decoder.close()]
    return [event.data for event in events] if events else content.splitlines()


def _parse_each(texts: list[str] | list[bytes]) -> Iterator[Any]:
    for text in texts:
        try:
            yield orjson.loads(text)
        except orjson.JSONDecodeError:
            continue


def values_by_path(content: bytes) -> dict[str, list[Any]]:
    """Return the values at each path, like `choices[0].delta.content`, in the order of the JSON values."""
    values: dict[str, list[Any]] = {}
    for document in json_documents(content):
        for path, value in _leaves(document):
            values.setdefault(path, []).append(value)
    return values


def joined_texts(content: bytes) -> list[str]:
    """Return the texts that a body spells piece by piece, also where pieces of several texts alternate."""
    return list(map(join_pieces, spelled_pieces(content)))


def spelled_pieces(content: bytes) -> Iterator[list[str]]:
    """Yield the pieces of each text that a body spells."""
    for places in spelled_texts(_documents(content)):
        yield [container[name] for container, name in places]


def _documents(content: bytes) -> list[Any]:
    """Return the documents of a body: JSON values, or texts. An event with an id is both."""
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    else:
        return whole if isinstance(whole, list) else [whole]
    if (found := binary_documents(content)) is not None:
        return list(map(_json_or_text, found))
    decoder = SseDecoder()
    events = [*decoder.feed(content), *decoder.close()]
    if not events:
        return list(map(_json_or_text, content.splitlines()))
    return [{"id": each.id, "data": data} if each.id else data for each in events if (data := _json_or_text(each.data))]


def _json_or_text(data: str | bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data if isinstance(data, str) else data.decode("utf-8", "replace")


def join_pieces(pieces: list[str]) -> str:
    """Join the pieces of a text. Equal pieces are one repeated text."""
    return pieces[0] if all(piece == pieces[0] for piece in pieces) else "".join(pieces)


def _leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that are not containers, with their paths."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}" if path else name, item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", item) for index, item in reversed(list(enumerate(value)))]
        else:
            yield path, value


def is_still_json(record: WireRecord, cleaned: WireRecord) -> bool:
    """Return whether everything that was JSON still is."""
    if cleaned is record:
        return True
    return len(json_documents(record.content())) == len(json_documents(cleaned.content()))


def frame_texts(record: WireRecord) -> list[str]:
    """Return the frames as texts, each with the characters that end in it. Invalid bytes can be recovered.

    The text of a message of an event stream is its data.
    """
    if any(isinstance(text, BinaryText) and text.event is not None for _, text in record.frames or ()):
        return [_frame_text(text) for _, text in record.frames or ()]
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    texts = [decoder.decode(data) for _, data in record.timed_frames()]
    return [*texts[:-1], texts[-1] + decoder.decode(b"", final=True)] if texts else []


def _frame_text(frame: WireText) -> str:
    if isinstance(frame, BinaryText) and frame.event is not None:
        return frame.data
    return wire_bytes(frame).decode("utf-8", "surrogateescape")


def with_frame_texts(record: WireRecord, texts: list[str]) -> WireRecord:
    if record.frames is None:
        return replace(record, body=_with_text("", texts[0]) if texts else None)
    frames = zip(record.frames, texts, strict=True)
    return replace(record, frames=[(at_ms, _with_text(frame, text)) for (at_ms, frame), text in frames])


def _with_text(frame: WireText, text: str) -> WireText:
    if isinstance(frame, BinaryText) and frame.event is not None:
        return replace(frame, data=text)
    return wire_text(text.encode("utf-8", "surrogateescape"))


def searchable_bytes(record: WireRecord) -> bytes:
    """Return the texts of a record, and those that they spell in pieces, for a quick search."""
    content = "".join(frame_texts(record)).encode("utf-8", "surrogateescape")
    texts = joined_texts(record.content())
    return content if texts == [content.decode("utf-8", "replace")] else b"\n".join([content, *map(str.encode, texts)])


Place: TypeAlias = tuple[dict[str, Any] | list[Any], Any]
"""A container, and the name or index of a text in it."""
_Key: TypeAlias = tuple[Any, ...]

_ENDS = ("index", "id", "Index", "Id", "name", "Name", "oken", "stream", "channel", "topic")
MAX_NAME_CHARS = 200
MAX_GROUPINGS = 24


# Streams are interleaved: the pieces of two choices, blocks, items or calls alternate, and what tells them apart is an
# index or an id next to a piece or above it. It has any name, and other ids are new in each document. So the pieces of
# one path are joined in several ways: all of them; those with the same value of each thing that could tell streams
# apart, one by one; and those that have all of these in common. A way that joins what does not belong together spells
# nothing that would be a secret.
def spelled_texts(documents: Sequence[Any]) -> Iterator[list[Place]]:
    """Yield the places of texts that may belong together, in order. A place may be in several lists; one without a
    continuation is in a separate list. A document that is itself a text is at a place of `documents`.
    """
    groups: dict[_Key, list[Place]] = {}
    leaves = [list(_places_in(document, documents, number)) for number, document in enumerate(documents)]
    telling = _telling_paths(leaves)
    for found in leaves:
        known = {path: value for path, _, value in found if path in telling}
        for path, place, value in found:
            if not isinstance(value, str) or not value:
                continue
            groups.setdefault((path,), []).append(place)
            near = [(each, known[each]) for each in telling if each in known and each != path]
            for each in near:
                groups.setdefault((path, each), []).append(place)
            if len(near) > 1:
                groups.setdefault((path, *near), []).append(place)
    for key, places in groups.items():
        if len(key) == 1 or 1 < len(places) < len(groups[key[:1]]):
            yield places


def _telling_paths(leaves: list[list[tuple[str, Place, Any]]]) -> list[str]:
    """Return the paths of values that may distinguish streams: several values, at least one of them twice."""
    values: dict[str, list[Any]] = {}
    for found in leaves:
        for path, _, value in found:
            is_short = isinstance(value, int) or (isinstance(value, str) and len(value) <= MAX_NAME_CHARS)
            if is_short and path.endswith(_ENDS):
                values.setdefault(path, []).append(value)
    telling = [path for path, found in values.items() if 1 < len(set(found)) < len(found)]
    return telling[:MAX_GROUPINGS]


def _places_in(document: Any, documents: Sequence[Any], number: int) -> Iterator[tuple[str, Place, Any]]:
    """Yield the values that are not containers, with their paths and places, in order. List indexes count."""
    waiting: list[tuple[str, Place, Any]] = [("", (documents, number), document)]  # type: ignore[list-item]
    while waiting:
        path, place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", (value, name), item) for name, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", (value, at), item) for at, item in reversed(list(enumerate(value)))]
        else:
            yield path, place, value
