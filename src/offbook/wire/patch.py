"""Changes a model's response in its recorded bytes, and keeps everything else that a fault does not change.

The bytes are JSON documents: one in a whole answer, one in each event of a stream. Three things can change. Text and
tool-call arguments are replaced where a document has the old ones. In a stream they come in pieces: pieces before the
change stay, the piece in which it starts gets all the rest, and later ones are emptied. Finish reason and usage are
replaced where the codec itself would write another value for the changed response.

Nothing here knows a protocol. Instead, the changed bytes are decoded again: if they are not the changed response, the
recorded bytes cannot be patched, and the caller encodes the response anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.codecs.base import Codec
from offbook.codecs.chat_message import arguments_object
from offbook.codecs.framing import SseDecoder, binary_frame, encode_ndjson_line, encode_sse_event
from offbook.errors import OffbookError
from offbook.messages import JsonObject, Response, StreamDelta, TextDelta, ToolCall, ToolCallDelta, deltas_of
from offbook.wire.response import JSON_TYPE, Frame, HttpResponse, split_events

_TEXT_KEYS = frozenset(("content", "text", "delta", "response"))
_ARGUMENT_KEYS = frozenset(("arguments", "partial_json", "delta", "input"))
_OBJECT_KEYS = frozenset(("arguments", "args", "input"))
_REMOVED = object()

_Path: TypeAlias = tuple[str, ...]
"""The path of a value in a document: field names, without positions in lists."""


def patch_response(clean: HttpResponse, before: Response, after: Response, codec: Codec) -> HttpResponse | None:
    """Return `clean`, the answer that holds `before`, with `after` instead, or None if that is impossible.

    The reasoning and the called tools must be equal.
    """
    if before == after:
        return clean
    is_array = clean.is_streamed and clean.headers.get("content-type", "").startswith(JSON_TYPE)
    if _skeleton(before) != _skeleton(after) or is_array:
        return None
    try:
        patched = (_patch_stream if clean.is_streamed else _patch_whole)(clean, before, after, codec)
        is_right = _meaning(_decode(patched, codec)) == _meaning(_decode(_encode(after, clean, codec), codec))
    except (OffbookError, orjson.JSONDecodeError):
        return None
    return patched if is_right else None


def _skeleton(response: Response) -> tuple[Any, ...]:
    """Return the parts that a patch cannot change."""
    return response.reasoning, [(call.tool, call.id) for call in response.tool_calls]


def _meaning(response: Response) -> tuple[Any, ...]:
    """Return the meaning of a response for a client. Invalid JSON arguments count only as invalid."""
    calls = [(call.tool, call.args, call.raw_arguments is None) for call in response.tool_calls]
    return response.content, response.finish_reason, calls


def _encode(response: Response, like: HttpResponse, codec: Codec) -> HttpResponse:
    return replace(like, frames=tuple((0.0, data) for data in _documents(response, codec, stream=like.is_streamed)))


def _documents(response: Response, codec: Codec, *, stream: bool) -> Iterator[bytes]:
    if not stream:
        yield orjson.dumps(codec.encode_response(response))
        return
    yield from codec.encode_stream(response, deltas_of(response))


def _decode(answer: HttpResponse, codec: Codec) -> Response:
    if not answer.is_streamed:
        return codec.decode_response(answer.content)
    decoder = codec.stream_decoder()
    for _ in decoder.feed(answer.content):
        pass
    return decoder.close()[1]


class _Changes(Struct, frozen=True):
    """The replacements in a document: pieces of text and of arguments, whole arguments, and fields by path."""

    texts: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    calls: Sequence[tuple[ToolCall, ToolCall]] = ()
    fields: dict[_Path, tuple[Any, Any]] = field(default_factory=dict)

    def apply(self, value: Any, path: _Path = ()) -> Any:
        """Return the document, or the value at `path` in it, with these changes."""
        if isinstance(value, list):
            return [self.apply(each, path) for each in value]
        if isinstance(value, dict):
            changed = {name: self._change(name, each, (*path, name)) for name, each in value.items()}
            return {name: each for name, each in changed.items() if each is not _REMOVED}
        return value

    def _change(self, name: str, value: Any, path: _Path) -> Any:
        if path in self.fields and self.fields[path][0] == value:
            return self.fields[path][1]
        if isinstance(value, str) and value:
            return self._change_text(name, value)
        if isinstance(value, dict) and value and name in _OBJECT_KEYS:
            after = next((after for before, after in self.calls if before.args == value), None)
            if after is not None:
                return arguments_object(after)
        return self.apply(value, path)

    def _change_text(self, name: str, value: str) -> str:
        if name in _TEXT_KEYS and value in self.texts:
            return self.texts[value]
        if name not in _ARGUMENT_KEYS:
            return value
        if value in self.arguments:
            return self.arguments[value]
        changed = (_changed_arguments(value, *calls) for calls in self.calls if _has_arguments(calls[0], value))
        return next(changed, value)


def _has_arguments(call: ToolCall, text: str) -> bool:
    """Return whether `text` are the arguments of the call in any notation."""
    parsed = ToolCall.parse(call.tool, text)
    return (parsed.args, parsed.raw_arguments) == (call.args, call.raw_arguments)


def _changed_arguments(text: str, before: ToolCall, after: ToolCall) -> str:
    """Return the arguments of `after`. If they are truncated arguments of `before`, truncate `text` in the same
    proportion.
    """
    cut = after.raw_arguments
    if cut is None or not before.arguments.startswith(cut):
        return after.arguments
    return text[: len(text) * len(cut) // len(before.arguments)]


def _changed_calls(before: Response, after: Response) -> list[tuple[ToolCall, ToolCall]]:
    pairs = zip(before.tool_calls, after.tool_calls, strict=True)
    return [(old, new) for old, new in pairs if old != new]


def _changed_texts(before: Response, after: Response) -> dict[str, str]:
    return {before.content: after.content} if before.content != after.content else {}


def _patch_whole(clean: HttpResponse, before: Response, after: Response, codec: Codec) -> HttpResponse:
    changes = _Changes(
        texts=_changed_texts(before, after),
        calls=_changed_calls(before, after),
        fields=_changed_fields(before, after, codec, stream=False),
    )
    at_ms = clean.frames[-1][0] if clean.frames else 0.0
    return replace(clean, frames=((at_ms, orjson.dumps(changes.apply(orjson.loads(clean.content)))),))


def _changed_fields(before: Response, after: Response, codec: Codec, *, stream: bool) -> dict[_Path, tuple[Any, Any]]:
    """Return the fields around the content that differ in the codec's own documents, with their old and new values."""
    old, new = (_empty_documents(response, codec, stream=stream) for response in (before, after))
    return dict(_differences(old, new))


def _empty_documents(response: Response, codec: Codec, *, stream: bool) -> list[Any]:
    """Return the codec's documents for the response without its content."""
    empty = replace(response, content="", tool_calls=(), reasoning=None)
    return [each for frame in _documents(empty, codec, stream=stream) if (each := _document(frame)[1]) is not None]


def _differences(old: Any, new: Any, path: _Path = ()) -> Iterator[tuple[_Path, tuple[Any, Any]]]:
    """Yield the changed values of `old` by path, with their new values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from _differences(value, new.get(name, _REMOVED), (*path, name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _differences(one, other, path)
    elif old != new:
        yield path, (old, new)


class _Pieces:
    """The pieces of a text in a stream, as they have to be if `old` becomes `new`."""

    def __init__(self, old: str, new: str) -> None:
        pairs = enumerate(zip(old, new, strict=False))
        self._new, self._same = new, next((place for place, (one, other) in pairs if one != other), len(new))
        self._read, self._has_changed = 0, False

    def next(self, piece: str) -> str:
        """Return the replacement of the next piece."""
        start, self._read = self._read, self._read + len(piece)
        if self._read <= self._same:
            return piece
        rest = "" if self._has_changed else self._new[start:]
        self._has_changed = True
        return rest


def _patch_stream(clean: HttpResponse, before: Response, after: Response, codec: Codec) -> HttpResponse:
    decoder = codec.stream_decoder()
    events = [(at_ms, frame, list(decoder.feed(frame))) for at_ms, frame in split_events(clean)]
    texts = _Pieces(before.content, after.content)
    arguments = _argument_pieces([delta for _, _, deltas in events for delta in deltas], before, after)
    shared = _Changes(
        texts=_changed_texts(before, after),
        calls=_changed_calls(before, after),
        fields=_changed_fields(before, after, codec, stream=True),
    )
    frames: list[Frame] = []
    for at_ms, frame, deltas in events:
        pieces = {each.text: texts.next(each.text) for each in deltas if isinstance(each, TextDelta)}
        parts = {
            each.arguments: arguments[each.index].next(each.arguments)
            for each in deltas
            if isinstance(each, ToolCallDelta) and each.index in arguments
        }
        changes = replace(shared, texts=shared.texts | pieces, arguments=parts)
        frames.append((at_ms, _patch_frame(frame, changes)))
    return replace(clean, frames=tuple(frames))


def _argument_pieces(deltas: Sequence[StreamDelta], before: Response, after: Response) -> dict[int, _Pieces]:
    """Return the arguments that change, by the index of their call in the stream."""
    texts: dict[int, str] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            texts[delta.index] = texts.get(delta.index, "") + delta.arguments
    calls = zip(sorted(texts), before.tool_calls, after.tool_calls, strict=False)
    return {
        index: _Pieces(texts[index], _changed_arguments(texts[index], old, new))
        for index, old, new in calls
        if old != new
    }


def _patch_frame(frame: bytes, changes: _Changes) -> bytes:
    """Return the frame with the changes, or the identical bytes without any."""
    event, document = _document(frame)
    changed: JsonObject | None = changes.apply(document)
    if changed is None or changed == document:
        return frame
    data = orjson.dumps(changed)
    if (message := binary_frame(frame)) is not None:
        return replace(message, data=data).encode()
    if frame.startswith(b"{"):
        return encode_ndjson_line(data)
    return encode_sse_event(data, str(changed["type"]) if event and event == document.get("type") else event)


def _document(frame: bytes) -> tuple[str, Any]:
    """Return the event name and the JSON object in a frame, or None without one, as for `[DONE]`."""
    if (message := binary_frame(frame)) is not None:
        return "", orjson.loads(message.data)
    if frame.startswith(b"{"):
        return "", orjson.loads(frame)
    decoder = SseDecoder()
    event = next(iter([*decoder.feed(frame), *decoder.close()]), None)
    if event is None or not event.data.startswith("{"):
        return "", None
    return event.event, orjson.loads(event.data)
