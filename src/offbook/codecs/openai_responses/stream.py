"""OpenAI responses: streamed responses, and the codec that joins requests, responses and streams."""

from collections.abc import Generator, Iterable, Iterator
from itertools import chain

import orjson
from msgspec import Raw, Struct

from offbook.codecs.base import NO_ID, Codec, content_blocks, decode_answer, stream_error
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.codecs.openai_chat import decode_error, decode_usage, encode_error
from offbook.codecs.openai_responses.request import decode_request, encode_request
from offbook.codecs.openai_responses.response import (
    PARAGRAPH,
    ErrorShape,
    ResponseStatus,
    decode_response,
    delta_text,
    encode_response,
    finished_item,
    finished_response,
    read_item,
    response_envelope,
    started_item,
    summary_part,
    text_part,
)
from offbook.errors import ProviderError
from offbook.messages import (
    Accumulator,
    JsonObject,
    ReasoningDelta,
    Response,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
    incomplete_stream_error,
)
from offbook.text import shorten


class _TypedEvent(Struct):
    type: str = ""
    error: ErrorShape | str | None = None


class _ItemEvent(Struct):
    output_index: int
    item: Raw


class _DeltaEvent(Struct):
    output_index: int
    delta: str


class _SummaryPartEvent(Struct):
    output_index: int
    summary_index: int


class _EndEvent(Struct):
    response: ResponseStatus


class _ErrorEvent(_TypedEvent):
    """An error event. Servers put the message in different places."""

    message: str | None = None
    response: ResponseStatus | None = None

    def reason(self) -> str | None:
        errors = (self.message, self.error, self.response and self.response.error)
        texts = (error.message if isinstance(error, ErrorShape) else error for error in errors)
        return next((text for text in texts if text), None)


class OpenAIResponsesStreamDecoder:
    """Decodes response events. A stream is complete after `response.completed` or `response.incomplete`."""

    def __init__(self) -> None:
        self._sse = SseDecoder()
        self._joined = Accumulator()
        self._call_of_item: dict[int, int] = {}
        self._streamed: set[int] = set()
        self._outcome: ResponseStatus | None = None

    def feed(self, data: bytes) -> Iterator[StreamDelta]:
        return self._take(self._sse.feed(data))

    def close(self) -> tuple[list[StreamDelta], Response]:
        deltas = list(self._take(self._sse.close()))
        outcome = self._outcome
        if outcome is None:
            raise incomplete_stream_error()
        finish_reason = outcome.finish_reason(has_calls=bool(self._call_of_item))
        rest = Response(model=outcome.model, usage=decode_usage(outcome.usage), finish_reason=finish_reason)
        return deltas, self._joined.join(rest)

    def _take(self, events: list[ServerSentEvent]) -> Iterator[StreamDelta]:
        for event in events:
            for delta in [] if self._outcome is not None else self._read(event):
                self._joined.add(delta)
                yield delta

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        typed = decode_answer(event.data, _TypedEvent)
        match typed.type:
            case "response.output_item.added":
                return self._open(decode_answer(event.data, _ItemEvent))
            case "response.output_item.done":
                return self._finish(decode_answer(event.data, _ItemEvent))
            case "response.reasoning_summary_part.added":
                return self._start_part(decode_answer(event.data, _SummaryPartEvent))
            case "response.completed" | "response.incomplete":
                self._outcome = _read_end(event)
            case "response.failed" | "error":
                raise _reported_error(event)
            case "" if typed.error is not None:
                raise _reported_error(event)
            case kind if kind.endswith(".delta"):
                return self._continue(kind, event.data)
        return []

    def _start_part(self, part: _SummaryPartEvent) -> list[StreamDelta]:
        return [ReasoningDelta(PARAGRAPH)] if part.summary_index and part.output_index in self._streamed else []

    def _open(self, event: _ItemEvent) -> list[StreamDelta]:
        """Start a call. Anything else that the item already contains is sent again: in pieces, or with its end."""
        item = read_item(event.item)
        if item.type != "function_call" or event.output_index in self._call_of_item:
            return []
        call_index = self._call_of_item[event.output_index] = len(self._call_of_item)
        return [ToolCallDelta(call_index, "", item.call_id, item.name)]

    def _continue(self, kind: str, data: str) -> list[StreamDelta]:
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return [TextDelta(self._piece(data).delta)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ReasoningDelta(self._piece(data).delta)]
            case "response.function_call_arguments.delta":
                return self._arguments(decode_answer(data, _DeltaEvent))
        return []

    def _arguments(self, piece: _DeltaEvent) -> list[StreamDelta]:
        """Return a piece of a call's arguments. An unannounced call is sent whole with the end of its item."""
        call_index = self._call_of_item.get(piece.output_index)
        if call_index is None:
            return []
        self._streamed.add(piece.output_index)
        return [ToolCallDelta(call_index, piece.delta)]

    def _piece(self, data: str) -> _DeltaEvent:
        piece = decode_answer(data, _DeltaEvent)
        self._streamed.add(piece.output_index)
        return piece

    def _finish(self, event: _ItemEvent) -> list[StreamDelta]:
        """Return the content of the item, if the server sent it whole instead of in pieces."""
        if event.output_index in self._streamed:
            return []
        item, deltas = read_item(event.item), self._open(event)
        if reasoning := item.reasoning():
            deltas.append(ReasoningDelta(reasoning))
        if text := item.text():
            deltas.append(TextDelta(text))
        if item.type == "function_call" and item.arguments:
            deltas.append(ToolCallDelta(self._call_of_item[event.output_index], item.arguments))
        return deltas


def _read_end(event: ServerSentEvent) -> ResponseStatus:
    """Return the outcome in the event. Raises ProviderError if it is a failure, whatever the event's name."""
    outcome = decode_answer(event.data, _EndEvent).response
    if outcome.status == "failed":
        raise _reported_error(event)
    return outcome


def _reported_error(event: ServerSentEvent) -> ProviderError:
    return stream_error(decode_answer(event.data, _ErrorEvent).reason() or shorten(event.data), raw=event.data)


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a response's events, each delta in an item of its kind. The pieces of a tool call must be adjacent."""
    for number, event in enumerate(_events(response, deltas, id)):
        yield encode_sse_event(orjson.dumps(event | {"sequence_number": number}), event["type"])


def _events(response: Response, deltas: Iterable[StreamDelta], id: str) -> Iterator[JsonObject]:
    yield {"type": "response.created", "response": response_envelope(response, id)}
    yield {"type": "response.in_progress", "response": response_envelope(response, id)}
    output: list[JsonObject] = []
    for index, pieces in enumerate(content_blocks(deltas)):
        output.append((yield from _item_events(index, pieces, id)))
    end = finished_response(response, output, id)
    kind = "response.incomplete" if end["status"] == "incomplete" else "response.completed"
    yield {"type": kind, "response": end}


def _item_events(index: int, pieces: Iterator[StreamDelta], id: str) -> Generator[JsonObject, None, JsonObject]:
    """Yield the events of one item, and return the finished item."""
    first = next(pieces)
    started, text = started_item(index, first, id), ""
    place = {"item_id": started["id"], "output_index": index} | _part_place(first)
    yield {"type": "response.output_item.added", "output_index": index, "item": started}
    yield from _part_added(first, place)
    for delta in chain([first], pieces):
        text += delta_text(delta)
        yield _delta_event(delta, place)
    yield from _part_done(first, place, text)
    finished = finished_item(index, first, text, id)
    yield {"type": "response.output_item.done", "output_index": index, "item": finished}
    return finished


def _part_place(first: StreamDelta) -> JsonObject:
    match first:
        case TextDelta():
            return {"content_index": 0}
        case ReasoningDelta():
            return {"summary_index": 0}
        case ToolCallDelta():
            return {}


def _part_added(first: StreamDelta, place: JsonObject) -> Iterator[JsonObject]:
    match first:
        case TextDelta():
            yield {"type": "response.content_part.added", **place, "part": text_part("")}
        case ReasoningDelta():
            yield {"type": "response.reasoning_summary_part.added", **place, "part": summary_part("")}


def _delta_event(delta: StreamDelta, place: JsonObject) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
        case ReasoningDelta(text):
            return {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
        case ToolCallDelta(_, arguments):
            return {"type": "response.function_call_arguments.delta", **place, "delta": arguments}


def _part_done(first: StreamDelta, place: JsonObject, text: str) -> Iterator[JsonObject]:
    match first:
        case TextDelta():
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": text_part(text)}
        case ReasoningDelta():
            yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": summary_part(text)}
        case ToolCallDelta(_, _, _, tool):
            done = {"name": tool or "", "arguments": text}
            yield {"type": "response.function_call_arguments.done", **place, **done}


def encode_stream_error(message: str) -> bytes:
    """Encode an error event. Its sequence number is unknown here, and clients ignore it."""
    error = {"type": "server_error", "code": "server_error", "message": message, "param": None}
    return encode_sse_event(orjson.dumps({"type": "error", "sequence_number": 0, "error": error}), "error")


CODEC = Codec(
    name="openai_responses",
    stream_type="text/event-stream; charset=utf-8",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=OpenAIResponsesStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
)
"""The `/responses` protocol. Its error bodies are those of chat completions."""
