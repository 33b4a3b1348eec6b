"""OpenAI chat completions: requests, whole and streamed responses, usage and errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import orjson
from msgspec import Struct, field

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    convert_request,
    decode_answer,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.errors import MalformedResponseError, ProviderError
from offbook.messages import (
    JsonObject,
    ReasoningDelta,
    Request,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    incomplete_stream_error,
    json_text,
)
from offbook.text import shorten

PATH = "/chat/completions"
_TAKES_MAX_COMPLETION_TOKENS = re.compile(r"(.*/)?(o\d|gpt-([5-9]|\d\d))")


class _Body(Struct):
    messages: list[dict[str, Any]]
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None
    stream_options: Any = None


def encode_request(request: Request) -> WireRequest:
    limit = "max_completion_tokens" if _TAKES_MAX_COMPLETION_TOKENS.match(request.model) else "max_tokens"
    fields: JsonObject = {
        "model": request.model,
        "messages": [_with_text_arguments(message) for message in request.messages],
        "temperature": request.temperature,
        limit: request.max_tokens,
        "tools": list(request.tools) or None,
        "tool_choice": request.tool_choice,
        "stream": True if request.stream else None,
        "stream_options": {"include_usage": True} if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra))


def _with_text_arguments(message: JsonObject) -> JsonObject:
    """Return the message with tool-call arguments as text, as the protocol requires; agents may have objects."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not any(_has_object_arguments(call) for call in calls):
        return message
    return message | {"tool_calls": [_text_arguments(call) if _has_object_arguments(call) else call for call in calls]}


def _has_object_arguments(call: JsonObject) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("arguments"), dict)


def _text_arguments(call: JsonObject) -> JsonObject:
    function = call["function"]
    return call | {"function": function | {"arguments": orjson.dumps(function["arguments"]).decode()}}


def decode_request(wire: WireRequest) -> Request:
    body = convert_request(wire.body, _Body)
    return Request(
        messages=tuple(body.messages),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_completion_tokens if body.max_tokens is None else body.max_tokens,
        tools=tuple(body.tools or ()),
        tool_choice=body.tool_choice,
        extra=undeclared_fields(wire.body, _Body),
        stream=bool(body.stream),
    )


class FunctionShape(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallShape(Struct):
    function: FunctionShape = field(default_factory=FunctionShape)
    id: str | None = None
    index: int | None = None


class MessageShape(Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallShape] | None = None


class TokenDetails(Struct):
    """The cached tokens of a prompt, or the reasoning tokens of an answer."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class OpenAIUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None


class _WholeChoice(Struct):
    message: MessageShape
    finish_reason: str | None = None


C = TypeVar("C")


class _Completion(Struct):
    choices: list[_WholeChoice]
    model: str = ""
    usage: OpenAIUsage | None = None


def first_choice(choices: Sequence[C], data: bytes) -> C:
    """Return the first choice of a response. Raises MalformedResponseError without a choice."""
    if not choices:
        raise MalformedResponseError("the response has no choices", raw=data.decode("utf-8", "replace"))
    return choices[0]


def decode_response(data: bytes) -> Response:
    completion = decode_answer(data, _Completion)
    choice = first_choice(completion.choices, data)
    message = choice.message
    return Response(
        content=text_of(message.content) or message.refusal or "",
        model=completion.model,
        usage=decode_usage(completion.usage),
        finish_reason=choice.finish_reason,
        tool_calls=tuple(_decode_call(call) for call in message.tool_calls or ()),
        reasoning=message.reasoning_content or message.reasoning or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    calls = [
        {
            "id": call.id or call_id(id, index),
            "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments},
        }
        for index, call in enumerate(response.tool_calls)
    ]
    message: JsonObject = {"role": "assistant", "content": response.content or None}
    optional = without_none({"reasoning_content": response.reasoning, "tool_calls": calls or None})
    return {
        "id": response_id(id),
        "object": "chat.completion",
        "created": 0,
        "model": response.model,
        "choices": [
            {"index": 0, "message": message | optional, "logprobs": None, "finish_reason": response.finish_reason}
        ],
        "usage": encode_usage(response.usage),
    }


def response_id(id: str) -> str:
    return f"chatcmpl-{id}"


def call_id(id: str, index: int) -> str:
    """Return an id for a call without one. Clients refer to it in the result."""
    return f"call_{id}_{index}"


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a message's content: the content itself, or its text parts joined."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in content or () if part.get("type") == "text")


def _decode_call(call: ToolCallShape) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, dict):
        return ToolCall(call.function.name or "", arguments, call.id)
    return ToolCall.parse(call.function.name or "", arguments or "", id=call.id)


def decode_usage(usage: OpenAIUsage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage.of(
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        total=usage.total_tokens,
        cached=(usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0,
        reasoning=(usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens) or 0,
    )


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status_code, "invalid_request_error" if status_code < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


DONE = "[DONE]"


class _ChunkChoice(Struct):
    delta: MessageShape = field(default_factory=MessageShape)
    finish_reason: str | None = None
    index: int = 0


class _Chunk(Struct):
    choices: list[_ChunkChoice] = field(default_factory=list)
    model: str = ""
    usage: OpenAIUsage | None = None
    error: dict[str, Any] | str | None = None


class OpenAIChatStreamDecoder(FramedStreamDecoder[ServerSentEvent]):
    """Decodes chat completion chunks. A stream is complete after its finish reason or `[DONE]`."""

    def __init__(self) -> None:
        super().__init__(SseDecoder())
        self._rest = Response(finish_reason=None)
        self._done = False

    def _end(self) -> Response:
        if not self._done and self._rest.finish_reason is None:
            raise incomplete_stream_error()
        return self._joined.join(self._rest)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        if event.data.strip() == DONE:
            self._done = True
        return [] if self._done else self._decode_chunk(event.data)

    def _decode_chunk(self, data: str) -> list[StreamDelta]:
        chunk = decode_answer(data, _Chunk)
        if chunk.error is not None:
            raise reported_error(chunk.error, data)
        first = [choice for choice in chunk.choices if choice.index == 0]
        self._note(chunk.model, chunk.usage, [choice.finish_reason for choice in first])
        return [delta for choice in first for delta in _deltas(choice.delta)]

    def _note(self, model: str, usage: OpenAIUsage | None, finish_reasons: list[str | None]) -> None:
        self._rest = Response(
            model=self._rest.model or model,
            usage=self._rest.usage if usage is None else decode_usage(usage),
            finish_reason=next(filter(None, finish_reasons), self._rest.finish_reason),
        )


def reported_error(error: dict[str, Any] | str, raw: str) -> ProviderError:
    message = error if isinstance(error, str) else str(error.get("message") or shorten(raw))
    return stream_error(message, raw=raw)


def _deltas(message: MessageShape) -> list[StreamDelta]:
    deltas: list[StreamDelta] = []
    if reasoning := message.reasoning_content or message.reasoning:
        deltas.append(ReasoningDelta(reasoning))
    if text := text_of(message.content) or message.refusal:
        deltas.append(TextDelta(text))
    deltas.extend(_call_delta(call, position) for position, call in enumerate(message.tool_calls or ()))
    return deltas


def _call_delta(call: ToolCallShape, position: int) -> ToolCallDelta:
    arguments = call.function.arguments
    text = json_text(arguments) if isinstance(arguments, dict) else arguments or ""
    return ToolCallDelta(position if call.index is None else call.index, text, call.id, call.function.name or None)


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    envelope = {"id": response_id(id), "object": "chat.completion.chunk", "created": 0, "model": response.model}
    yield _frame(envelope, {"role": "assistant", "content": ""})
    for delta in deltas:
        yield _frame(envelope, _encode_delta(delta, id))
    yield _frame(envelope, {}, finish_reason=response.finish_reason)
    usage = {"choices": [], "usage": encode_usage(response.usage)}
    yield encode_sse_event(orjson.dumps(envelope | usage))
    yield encode_sse_event(DONE.encode())


def _frame(envelope: JsonObject, delta: JsonObject, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return encode_sse_event(orjson.dumps(envelope | {"choices": [choice]}))


def _encode_delta(delta: StreamDelta, id: str) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning_content": text}
        case ToolCallDelta(index, arguments, None, None):
            return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
        case ToolCallDelta(index, arguments, given, tool):
            function = without_none({"name": tool, "arguments": arguments})
            call = {"index": index, "id": given or call_id(id, index), "type": "function", "function": function}
            return {"tool_calls": [call]}


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)))


def is_usage_frame(frame: bytes) -> bool:
    """Return whether the frame contains only usage, which clients must request."""
    return b'"choices":[]' in frame


CODEC = Codec(
    name="openai_chat",
    stream_type="text/event-stream; charset=utf-8",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=OpenAIChatStreamDecoder,
    encode_error=encode_error,
)
"""The `/chat/completions` protocol."""
