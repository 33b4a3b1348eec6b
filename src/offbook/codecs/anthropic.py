"""Anthropic messages: requests with their messages and tools, whole and streamed responses, usage and errors."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    content_blocks,
    convert_request,
    decode_answer,
    nested_error_message,
    renamed,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import (
    SYSTEM_ROLES,
    CalledTool,
    DataUrl,
    FunctionSpec,
    arguments_object,
    encode_turns,
    parse_data_url,
)
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.messages import (
    Content,
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


def encode_content(content: Content) -> str | list[JsonObject]:
    """Encode content. Parts other than images are the same in both formats, or pass through unchanged."""
    if isinstance(content, list):
        return [_encode_part(part) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Decode content to the OpenAI chat format. A single plain text block becomes a string."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and is_plain_text(content[0]):
        return str(content[0]["text"])
    return [_decode_block(block) for block in content]


def blocks_of(content: str | list[JsonObject]) -> list[JsonObject]:
    """Return content as blocks. Empty text becomes no block, because the API rejects an empty one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def is_plain_text(block: JsonObject) -> bool:
    """Return whether the block is text without further fields, such as cache control."""
    return block.keys() == {"type", "text"} and block["type"] == "text" and isinstance(block["text"], str)


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}, **rest} if source := _image_source(url):
            return {"type": "image", "source": source, **rest}
    return part


def _decode_block(block: JsonObject) -> JsonObject:
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}, **rest}:
            return {"type": "image_url", "image_url": {"url": str(DataUrl(media_type, data))}, **rest}
        case {"type": "image", "source": {"type": "url", "url": url}, **rest}:
            return {"type": "image_url", "image_url": {"url": url}, **rest}
    return block


def _image_source(url: str) -> JsonObject | None:
    if url.startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    image = parse_data_url(url)
    if image is None or not image.media_type:
        return None
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


_ENCODED_CHOICES = {"required": "any"}
_DECODED_CHOICES = {"any": "required"}


class _Tool(Struct):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


def encode_tool(tool: JsonObject) -> JsonObject:
    """Encode a function tool with its extra fields. Other tools pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool.get("function"), FunctionSpec)
    fields = {
        "name": function.name,
        "description": function.description,
        "input_schema": function.schema,
        "strict": function.strict,
    }
    return without_none(fields) | _other_fields(tool, "type", "function")


def decode_tool(tool: JsonObject) -> JsonObject:
    """Decode a function tool. Tools that run on the vendor's servers pass through unchanged."""
    if tool.get("type") not in (None, "custom") or "input_schema" not in tool:
        return tool
    read = convert_request(tool, _Tool)
    function = without_none(
        {"name": read.name, "description": read.description, "parameters": read.input_schema, "strict": read.strict}
    )
    return {"type": "function", "function": function} | _other_fields(tool, "type", *_Tool.__struct_fields__)


def encode_choice(choice: str | JsonObject | None) -> JsonObject | None:
    match choice:
        case str(word):
            return {"type": _ENCODED_CHOICES.get(word, word)}
        case {"type": "function", "function": {"name": name}}:
            return {"type": "tool", "name": name}
    return choice


def decode_choice(choice: JsonObject | None) -> str | JsonObject | None:
    """Decode a choice to the OpenAI chat format. A choice with extra fields passes through unchanged."""
    match choice:
        case {"type": "tool", "name": name, **rest} if not rest:
            return {"type": "function", "function": {"name": name}}
        case {"type": str(word), **rest} if not rest:
            return _DECODED_CHOICES.get(word, word)
    return choice


def _other_fields(tool: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in tool.items() if name not in names}


_OWN_FIELDS = ("cache_control", "caller", "is_error", "toolset_name")


class AnthropicMessage(Struct):
    role: str
    content: str | list[dict[str, Any]]


class _ToolUse(Struct):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(Struct):
    tool_use_id: str
    content: str | list[dict[str, Any]] = ""


def encode_system(messages: Iterable[JsonObject]) -> str | list[JsonObject] | None:
    """Return the system prompt: the text of a single system message, or the blocks of all of them."""
    contents = [encode_content(message.get("content")) for message in messages if message.get("role") in SYSTEM_ROLES]
    if len(contents) == 1:
        return contents[0]
    return [block for content in contents for block in blocks_of(content)] or None


def decode_system(system: str | list[JsonObject] | None) -> list[JsonObject]:
    """Return the system messages: one for each block if all are only text, else one with all blocks."""
    if system is None:
        return []
    if isinstance(system, list) and all(is_plain_text(block) for block in system):
        return [{"role": "system", "content": block["text"]} for block in system]
    return [{"role": "system", "content": system}]


def _encode_message(message: JsonObject) -> JsonObject:
    content = encode_content(message.get("content"))
    if calls := message.get("tool_calls"):
        content = [*blocks_of(content), *(_encode_call(call) for call in calls)]
    return {"role": message.get("role"), "content": content}


def _encode_call(call: JsonObject) -> JsonObject:
    read = convert_request(call, CalledTool)
    given = read.function.arguments
    arguments = given if isinstance(given, dict) else arguments_object(ToolCall.parse("", given))
    block = {"type": "tool_use", "id": read.id, "name": read.function.name, "input": arguments}
    return block | _own_fields(call)


def _encode_result(message: JsonObject) -> JsonObject:
    block = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    return block | {"content": encode_content(message.get("content"))} | _own_fields(message)


def _decode_message(message: AnthropicMessage) -> list[JsonObject]:
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    if message.role == "assistant":
        return [_decode_assistant(message.content)]
    # Tool results first: in the OpenAI chat format they follow their calls at once.
    said, results = _split(message.content, "tool_result")
    messages = [_decode_result(result) for result in results]
    return messages if results and not said else [*messages, {"role": message.role, "content": decode_content(said)}]


def _decode_assistant(blocks: list[JsonObject]) -> JsonObject:
    said, calls = _split(blocks, "tool_use")
    message: JsonObject = {"role": "assistant", "content": decode_content(said) if said else None}
    return message | {"tool_calls": [_decode_call(call) for call in calls]} if calls else message


def _split(blocks: list[JsonObject], kind: str) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the blocks of other kinds, and the blocks of `kind`."""
    others = [block for block in blocks if block.get("type") != kind]
    return others, [block for block in blocks if block.get("type") == kind]


def _decode_call(block: JsonObject) -> JsonObject:
    read = convert_request(block, _ToolUse)
    function = {"name": read.name, "arguments": orjson.dumps(read.input).decode()}
    return {"id": read.id, "type": "function", "function": function} | _own_fields(block)


def _decode_result(block: JsonObject) -> JsonObject:
    read = convert_request(block, _ToolResult)
    message = {"role": "tool", "tool_call_id": read.tool_use_id, "content": decode_content(read.content)}
    return message | _own_fields(block)


def _own_fields(carrier: JsonObject) -> JsonObject:
    """Return the fields that only this API knows. They stay on the message in the OpenAI chat format."""
    return {name: carrier[name] for name in _OWN_FIELDS if name in carrier}


PATH = "/v1/messages"
_VERTEX_PATH = re.compile(r"/models/(?P<model>[^/]+):(?:streamR|r)awPredict")
DEFAULT_MAX_TOKENS = 4096
"""The token limit of a request without one. The API requires a limit."""


class _Body(Struct):
    messages: list[AnthropicMessage]
    model: str
    system: str | list[dict[str, Any]] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    stream: bool | None = None


def encode_request(request: Request) -> WireRequest:
    fields: JsonObject = {
        "model": request.model,
        "max_tokens": DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "system": encode_system(request.messages),
        "messages": encode_turns(request.messages, message=_encode_message, result=_encode_result),
        "temperature": request.temperature,
        "tools": [encode_tool(tool) for tool in request.tools] or None,
        "tool_choice": encode_choice(request.tool_choice),
        "stream": True if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra))


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. Those to Vertex AI have the model in the path, and the version of the API in the body."""
    on_vertex = _VERTEX_PATH.search(wire.path)
    fields = wire.body
    if on_vertex is not None:
        fields = {name: value for name, value in fields.items() if name != "anthropic_version"}
        fields["model"] = unquote(on_vertex["model"])
    body = convert_request(fields, _Body)
    spoken = (decoded for message in body.messages for decoded in _decode_message(message))
    return Request(
        messages=(*decode_system(body.system), *spoken),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra=undeclared_fields(fields, _Body),
        stream=bool(body.stream),
    )


REQUEST_ID = f"req_{NO_ID}"
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERROR_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ContentBlock(Struct):
    """A block of any type; the type decides which fields are set."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class AnthropicUsage(Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct):
    content: list[ContentBlock]
    model: str = ""
    stop_reason: str | None = None
    usage: AnthropicUsage | None = None


def decode_response(data: bytes) -> Response:
    message = decode_answer(data, _Message)
    blocks = message.content
    return Response(
        content="".join(block.text or "" for block in blocks if block.type == "text"),
        model=message.model,
        usage=decode_usage(message.usage or AnthropicUsage()),
        finish_reason=renamed(message.stop_reason, _FINISH_REASONS),
        tool_calls=tuple(
            ToolCall(block.name or "", block.input or {}, block.id) for block in blocks if block.type == "tool_use"
        ),
        reasoning="".join(block.thinking or "" for block in blocks if block.type == "thinking") or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    blocks: list[JsonObject] = []
    if response.reasoning:
        blocks.append(thinking_block(response.reasoning))
    if response.content:
        blocks.append(text_block(response.content))
    for index, call in enumerate(response.tool_calls):
        blocks.append(tool_use_block(call.id or call_id(id, index), call.tool) | {"input": arguments_object(call)})
    end = {"stop_reason": renamed(response.finish_reason, _STOP_REASONS), "usage": encode_usage(response.usage)}
    return message_envelope(response, id) | {"content": blocks} | end


def message_envelope(response: Response, id: str) -> JsonObject:
    """Return a message before it has content."""
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def thinking_block(thinking: str) -> JsonObject:
    return {"type": "thinking", "thinking": thinking, "signature": ""}


def tool_use_block(call_id: str, tool: str | None) -> JsonObject:
    """Return a tool use without input."""
    return {"type": "tool_use", "id": call_id, "name": tool or "", "input": {}}


def call_id(id: str, index: int) -> str:
    """Return an id for a call without one. Clients refer to it in the result."""
    return f"toolu_{id}_{index}"


def decode_usage(usage: AnthropicUsage) -> Usage:
    cached = usage.cache_read_input_tokens or 0
    details = usage.output_tokens_details
    return Usage.of(
        (usage.input_tokens or 0) + (usage.cache_creation_input_tokens or 0) + cached,
        usage.output_tokens or 0,
        cached=cached,
        reasoning=(details and details.thinking_tokens) or 0,
    )


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    kind = _ERROR_KINDS.get(status_code, "invalid_request_error" if status_code < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}


class _TypedEvent(Struct):
    type: str = ""


class _MessageHead(Struct):
    model: str = ""
    usage: AnthropicUsage | None = None


class _MessageStart(Struct):
    message: _MessageHead


class _BlockStart(Struct):
    index: int
    content_block: ContentBlock


class _ContentDelta(Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None


class _BlockDelta(Struct):
    index: int
    delta: _ContentDelta


class _MessageTail(Struct):
    stop_reason: str | None = None


class _MessageDelta(Struct):
    delta: _MessageTail = field(default_factory=_MessageTail)
    usage: AnthropicUsage | None = None


class AnthropicStreamDecoder(FramedStreamDecoder[ServerSentEvent]):
    """Decodes message events. A stream is complete after its stop reason or `message_stop`."""

    def __init__(self) -> None:
        super().__init__(SseDecoder())
        self._call_count = 0
        self._call_of_block: dict[int, int] = {}
        self._model = ""
        self._usage = AnthropicUsage()
        self._finish_reason: str | None = None
        self._done = False

    def _end(self) -> Response:
        if not self._done and self._finish_reason is None:
            raise incomplete_stream_error()
        rest = Response(model=self._model, usage=decode_usage(self._usage), finish_reason=self._finish_reason)
        return self._joined.join(rest)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        match "" if self._done else _kind(event):
            case "content_block_delta":
                return self._continue(decode_answer(event.data, _BlockDelta))
            case "content_block_start":
                return self._open(decode_answer(event.data, _BlockStart))
            case "message_start":
                opening = decode_answer(event.data, _MessageStart).message
                self._model = opening.model
                self._count(opening.usage)
            case "message_delta":
                ending = decode_answer(event.data, _MessageDelta)
                self._finish_reason = renamed(ending.delta.stop_reason, _FINISH_REASONS) or self._finish_reason
                self._count(ending.usage)
            case "message_stop":
                self._done = True
            case "error":
                raise stream_error(nested_error_message(event.data.encode()), raw=event.data)
        return []

    def _count(self, usage: AnthropicUsage | None) -> None:
        """Replace earlier counts with later ones: each event reports the total so far."""
        if usage is not None:
            self._usage = replace(self._usage, **without_none(asdict(usage)))

    def _open(self, start: _BlockStart) -> list[StreamDelta]:
        block = start.content_block
        if block.type != "tool_use":
            return _text_deltas(block.type, block.text, block.thinking)
        call_index = self._call_count
        self._call_count += 1
        if block.input:  # sent whole, so pieces that follow only repeat it
            return [ToolCallDelta(call_index, json_text(block.input), block.id, block.name)]
        self._call_of_block[start.index] = call_index
        return [ToolCallDelta(call_index, "", block.id, block.name)]

    def _continue(self, event: _BlockDelta) -> list[StreamDelta]:
        piece = event.delta
        if piece.type != "input_json_delta":
            return _text_deltas(piece.type.removesuffix("_delta"), piece.text, piece.thinking)
        call_index = self._call_of_block.get(event.index)
        return [ToolCallDelta(call_index, piece.partial_json)] if call_index is not None and piece.partial_json else []


def _kind(event: ServerSentEvent) -> str:
    """Return the event's type: its name if that is sufficient, else the type in its data."""
    if event.event in ("ping", "error"):
        return event.event
    return decode_answer(event.data, _TypedEvent).type or event.event


def _text_deltas(kind: str, text: str | None, thinking: str | None) -> list[StreamDelta]:
    if kind == "text" and text:
        return [TextDelta(text)]
    if kind == "thinking" and thinking:
        return [ReasoningDelta(thinking)]
    return []


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a message's events, each delta in a block of its kind. The pieces of a tool call must be adjacent."""
    counted_first = replace(response.usage, completion_tokens=0, reasoning_tokens=0)
    yield _frame("message_start", {"message": message_envelope(response, id) | {"usage": encode_usage(counted_first)}})
    yield from _encode_blocks(deltas, id)
    end = {"stop_reason": renamed(response.finish_reason, _STOP_REASONS), "stop_sequence": None}
    yield _frame("message_delta", {"delta": end, "usage": encode_usage(response.usage)})
    yield _frame("message_stop", {})


def _encode_blocks(deltas: Iterable[StreamDelta], id: str) -> Iterator[bytes]:
    for index, pieces in enumerate(content_blocks(deltas)):
        for position, delta in enumerate(pieces):
            if position == 0:
                yield _frame("content_block_start", {"index": index, "content_block": _encode_start(delta, id)})
            yield _frame("content_block_delta", {"index": index, "delta": _encode_delta(delta)})
        yield _frame("content_block_stop", {"index": index})


def _encode_start(delta: StreamDelta, id: str) -> JsonObject:
    match delta:
        case TextDelta():
            return text_block("")
        case ReasoningDelta():
            return thinking_block("")
        case ToolCallDelta(index, _, given, tool):
            return tool_use_block(given or call_id(id, index), tool)


def _encode_delta(delta: StreamDelta) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"type": "text_delta", "text": text}
        case ReasoningDelta(text):
            return {"type": "thinking_delta", "thinking": text}
        case ToolCallDelta(_, arguments):
            return {"type": "input_json_delta", "partial_json": arguments}


def _frame(kind: str, fields: JsonObject) -> bytes:
    return encode_sse_event(orjson.dumps({"type": kind} | fields), kind)


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)), "error")


API_VERSION = "2023-06-01"


def auth_headers(api_key: str) -> dict[str, str]:
    key = {"x-api-key": api_key} if api_key else {}
    return {"anthropic-version": API_VERSION} | key


CODEC = Codec(
    name="anthropic",
    stream_type="text/event-stream; charset=utf-8",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=AnthropicStreamDecoder,
    encode_error=encode_error,
    auth_headers=auth_headers,
)
"""The `/v1/messages` protocol."""
