"""Ollama chat: requests with their messages and tools, whole and streamed responses, and errors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    convert_request,
    decode_answer,
    error_message,
    renamed,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import (
    CallIds,
    ChatMessage,
    ChatToolCall,
    DataUrl,
    arguments_object,
    parse_data_url,
    read_messages,
)
from offbook.codecs.framing import NdjsonDecoder, encode_ndjson_line
from offbook.errors import MalformedResponseError, RequestError
from offbook.messages import (
    Accumulator,
    Content,
    JsonObject,
    Message,
    ReasoningDelta,
    Request,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    incomplete_stream_error,
)
from offbook.text import shorten

_MEDIA_TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""Media types by the first characters of the image in base64."""


def encode_content(content: Content) -> tuple[str, list[str]]:
    """Return the text and the images as base64.

    Raises:
        RequestError: a part is neither text nor an image given as a `data:` URL.
    """
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[str] = []
    for part in content or ():
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _:
                images.append(_encode_image(part))
    return "".join(texts), images


def _encode_image(part: JsonObject) -> str:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} if image := parse_data_url(url):
            return image.data
    raise RequestError(
        f"Ollama does not support {shorten(repr(part))}",
        source="messages",
        hint="use text, or images as data:image/png;base64,… URLs",
    )


def decode_content(text: str, images: list[str]) -> Content:
    """Return text alone as a string, text with images as parts."""
    if not images:
        return text
    texts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    return [*texts, *({"type": "image_url", "image_url": {"url": str(_data_url(image))}} for image in images)]


def _data_url(image: str) -> DataUrl:
    found = (media_type for start, media_type in _MEDIA_TYPES.items() if image.startswith(start))
    return DataUrl(next(found, "application/octet-stream"), image)


_WIRE_ROLES = {"developer": "system"}


class OllamaMessage(Struct):
    role: str = "assistant"
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def encode_messages(messages: Sequence[ChatMessage]) -> list[JsonObject]:
    """Encode messages, each tool result with the name of its tool.

    Raises:
        RequestError: Ollama does not support a part of a message.
    """
    encoded: list[JsonObject] = []
    tools: dict[str | None, str] = {}
    for message in messages:
        tools |= {call.id: call.function.name for call in message.tool_calls or ()}
        tool_name = tools.get(message.tool_call_id, message.name) if message.role == "tool" else None
        encoded.append(_encode_message(message, tool_name))
    return encoded


def _encode_message(message: ChatMessage, tool_name: str | None) -> JsonObject:
    text, images = encode_content(message.content)
    optional = {
        "thinking": message.reasoning_content or None,
        "images": images or None,
        "tool_calls": encode_calls(call.to_tool_call() for call in message.tool_calls or ()) or None,
        "tool_name": tool_name,
        "tool_call_id": message.tool_call_id,
    }
    return {"role": _WIRE_ROLES.get(message.role, message.role), "content": text} | without_none(optional)


def encode_calls(calls: Iterable[ToolCall]) -> list[JsonObject]:
    return [
        without_none({"id": call.id, "function": {"name": call.tool, "arguments": arguments_object(call)}})
        for call in calls
    ]


def decode_messages(messages: Iterable[OllamaMessage]) -> list[JsonObject]:
    """Decode messages to the OpenAI chat format. Calls without an id are numbered."""
    ids = CallIds()
    return [_decode_message(message, ids) for message in messages]


def _decode_message(message: OllamaMessage, ids: CallIds) -> JsonObject:
    calls = tuple(_decode_call(call, ids) for call in message.tool_calls or ())
    content = decode_content(message.content or "", message.images or [])
    is_result = message.role == "tool"
    return Message(
        role=message.role,
        content=(content or None) if calls else content,
        tool_calls=calls,
        tool_call_id=ids.of_result(message.tool_name, given=message.tool_call_id) if is_result else None,
        reasoning=message.thinking or None,
    ).to_dict()


def _decode_call(call: ChatToolCall, ids: CallIds) -> ToolCall:
    return replace(call.to_tool_call(), id=ids.of_call(call.function.name, given=call.id))


PATH = "/api/chat"


class Limits(Struct):
    """The limits that every protocol has."""

    temperature: float | None = None
    num_predict: int | None = None


class _Body(Struct):
    messages: list[OllamaMessage]
    model: str
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None


def encode_request(request: Request) -> WireRequest:
    fields: JsonObject = {
        "model": request.model,
        "messages": encode_messages(read_messages(request.messages)),
        "stream": request.stream,
        "tools": list(request.tools) or None,
        "tool_choice": request.tool_choice,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra) | encode_options(request))


def encode_options(request: Request) -> JsonObject:
    """Return the request's options, including its limits."""
    limits = without_none({"temperature": request.temperature, "num_predict": request.max_tokens})
    options = limits | convert_request(request.extra.get("options") or {}, dict[str, Any])
    return {"options": options} if options else {}


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. It is streamed unless `stream` is false."""
    body = convert_request(wire.body, _Body)
    limits = convert_request(body.options or {}, Limits)
    options = undeclared_fields(body.options or {}, Limits)
    return Request(
        messages=tuple(decode_messages(body.messages)),
        model=body.model,
        temperature=limits.temperature,
        max_tokens=limits.num_predict,
        tools=tuple(body.tools or ()),
        tool_choice=body.tool_choice,
        extra=undeclared_fields(wire.body, _Body) | ({"options": options} if options else {}),
        stream=body.stream is not False,
    )


CREATED_AT = "1970-01-01T00:00:00Z"
_DONE_REASONS = {"tool_calls": "stop"}


class ChatResponse(Struct):
    """A whole response, or one line of a streamed one."""

    message: OllamaMessage | None = None
    model: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: str | dict[str, Any] | None = None

    @property
    def usage(self) -> Usage:
        return Usage.of(self.prompt_eval_count or 0, self.eval_count or 0)


def decode_response(data: bytes) -> Response:
    answer = decode_answer(data, ChatResponse)
    if answer.message is None:
        raise MalformedResponseError("the response has no message", raw=data.decode("utf-8", "replace"))
    return response_of(answer)


def response_of(answer: ChatResponse) -> Response:
    """Return a whole answer as a response."""
    joined = Accumulator()
    for delta in decode_deltas(answer.message or OllamaMessage()):
        joined.add(delta)
    return with_finish_reason(joined.join(Response(model=answer.model, usage=answer.usage)), answer.done_reason)


def decode_deltas(message: OllamaMessage, *, calls_before: int = 0) -> list[StreamDelta]:
    """Return the message as deltas. Calls without an id are numbered, starting at `calls_before`."""
    deltas: list[StreamDelta] = []
    if message.thinking:
        deltas.append(ReasoningDelta(message.thinking))
    if message.content:
        deltas.append(TextDelta(message.content))
    deltas.extend(_call_delta(call, index) for index, call in enumerate(message.tool_calls or (), calls_before))
    return deltas


def _call_delta(call: ChatToolCall, index: int) -> ToolCallDelta:
    return ToolCallDelta(index, call.to_tool_call().arguments, call.id or f"call_{index}", call.function.name)


def with_finish_reason(response: Response, done_reason: str | None) -> Response:
    """Return the response with its finish reason."""
    is_calling = done_reason == "stop" and response.tool_calls
    return replace(response, finish_reason="tool_calls" if is_calling else done_reason)


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    """Encode a response. The protocol has no ids."""
    calls = encode_calls(response.tool_calls) or None
    optional = without_none({"thinking": response.reasoning, "tool_calls": calls})
    return encode_partial_response(response, {"content": response.content} | optional) | encode_end(response)


def encode_partial_response(response: Response, message: JsonObject) -> JsonObject:
    """Return a response, or a line of one, without its end."""
    return {
        "model": response.model,
        "created_at": CREATED_AT,
        "message": {"role": "assistant"} | message,
        "done": False,
    }


def encode_end(response: Response) -> JsonObject:
    """Return the fields that only the last line has. Durations are in nanoseconds."""
    reason = renamed(response.finish_reason, _DONE_REASONS)
    return without_none({"done": True, "done_reason": reason}) | {
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": response.usage.prompt_tokens,
        "prompt_eval_duration": 0,
        "eval_count": response.usage.completion_tokens,
        "eval_duration": 0,
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    return {"error": message}


def decode_error(data: bytes) -> str:
    return error_message(data, "error")


class OllamaStreamDecoder(FramedStreamDecoder[bytes]):
    """Decodes lines, each a partial response. A line with `done` completes the stream."""

    def __init__(self) -> None:
        super().__init__(NdjsonDecoder())
        self._calls = 0
        self._last = ChatResponse()

    def _end(self) -> Response:
        if not self._last.done:
            raise incomplete_stream_error()
        rest = Response(model=self._last.model, usage=self._last.usage)
        return with_finish_reason(self._joined.join(rest), self._last.done_reason)

    def _read(self, line: bytes) -> list[StreamDelta]:
        answer = self._decode_line(line)
        if answer.error is not None:
            raise stream_error(answer.error, raw=line.decode("utf-8", "replace"))
        self._last = answer
        deltas = [] if answer.message is None else decode_deltas(answer.message, calls_before=self._calls)
        self._calls += sum(isinstance(delta, ToolCallDelta) for delta in deltas)
        return deltas

    def _decode_line(self, line: bytes) -> ChatResponse:
        return decode_answer(line, ChatResponse)


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode the deltas as lines. Tool calls are sent whole, after the text. The protocol has no ids."""
    calls = Accumulator()
    for delta in deltas:
        match delta:
            case TextDelta(text):
                yield _line(encode_partial_response(response, {"content": text}))
            case ReasoningDelta(text):
                yield _line(encode_partial_response(response, {"content": "", "thinking": text}))
            case ToolCallDelta():
                calls.add(delta)
    for call in encode_calls(calls.join(response).tool_calls):
        yield _line(encode_partial_response(response, {"content": "", "tool_calls": [call]}))
    yield _line(encode_partial_response(response, {"content": ""}) | encode_end(response))


def _line(answer: JsonObject) -> bytes:
    return encode_ndjson_line(orjson.dumps(answer))


def encode_stream_error(message: str) -> bytes:
    return _line(encode_error(500, message))


CODEC = Codec(
    name="ollama",
    stream_type="application/x-ndjson",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=OllamaStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
)
"""The `/api/chat` protocol."""
