"""Bedrock Converse and ConverseStream: requests, whole and streamed responses, usage and errors."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import orjson
from msgspec import Struct, field

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    content_blocks,
    convert_request,
    decode_answer,
    error_message,
    renamed,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import (
    SYSTEM_ROLES,
    DataUrl,
    FunctionSpec,
    arguments_object,
    encode_turns,
    parse_data_url,
    read_messages,
)
from offbook.codecs.event_stream import (
    EVENT_STREAM_TYPE,
    EventMessage,
    EventStreamDecoder,
    encode_event,
    encode_exception,
)
from offbook.errors import ProviderError, RequestError
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
)

_PATH = re.compile(r"(?:.*/)?model/(?P<model>.+)/(?:converse|invoke)(?P<stream>-stream|-with-response-stream)?")

_IMAGE_TYPE = "image/"


def model_in(path: str) -> tuple[str, bool]:
    """Return the model in a path, and whether the path requests a stream.

    Raises:
        RequestError: the path names no model.
    """
    found = _PATH.fullmatch(path.partition("?")[0])
    if found is None:
        raise RequestError("the path names no model", source="request path")
    return unquote(found["model"]), found["stream"] is not None


def path_of(request: Request, operation: str, stream_operation: str) -> str:
    """Return the path of an operation on the model of the request."""
    return f"/model/{quote(request.model, safe='')}/{stream_operation if request.stream else operation}"


def encode_content(content: Content) -> list[JsonObject]:
    """Encode content as blocks. Empty text becomes no block, because the API rejects an empty one."""
    if isinstance(content, list):
        return [_encode_part(part) for part in content]
    return [{"text": content}] if content else []


def decode_content(blocks: list[JsonObject]) -> str | list[JsonObject]:
    """Decode blocks to the OpenAI chat format. A single plain text block becomes a string."""
    if len(blocks) == 1 and is_plain_text(blocks[0]):
        return str(blocks[0]["text"])
    return [_decode_block(block) for block in blocks]


def is_plain_text(block: JsonObject) -> bool:
    """Return whether the block is text alone."""
    return block.keys() == {"text"} and isinstance(block["text"], str)


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}} if (image := parse_data_url(url)) is not None:
            image_format = image.media_type.removeprefix(_IMAGE_TYPE)
            return {"image": {"format": image_format, "source": {"bytes": image.data}}}
    return part


def _decode_block(block: JsonObject) -> JsonObject:
    """Decode text and images. Other blocks pass through unchanged."""
    match block:
        case {"text": str(text), **rest} if not rest:
            return {"type": "text", "text": text}
        case {"image": {"format": str(image_format), "source": {"bytes": str(data), **others}}} if not others:
            return {"type": "image_url", "image_url": {"url": str(DataUrl(_IMAGE_TYPE + image_format, data))}}
    return block


class _InputSchema(Struct):
    json: dict[str, Any]


class _ToolSpec(Struct):
    name: str
    input_schema: _InputSchema = field(name="inputSchema")
    description: str | None = None
    strict: bool | None = None


def encode_tool(tool: JsonObject) -> JsonObject:
    """Encode a function tool. Others pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool.get("function"), FunctionSpec)
    fields = {
        "name": function.name,
        "description": function.description,
        "inputSchema": {"json": function.schema},
        "strict": function.strict,
    }
    return {"toolSpec": without_none(fields)}


def decode_tool(tool: JsonObject) -> JsonObject:
    """Decode a tool with a specification. Others, like cache points, pass through unchanged."""
    if "toolSpec" not in tool:
        return tool
    read = convert_request(tool["toolSpec"], _ToolSpec)
    function = {"name": read.name, "description": read.description, "parameters": read.input_schema.json}
    return {"type": "function", "function": without_none(function | {"strict": read.strict})}


def encode_choice(choice: str | JsonObject | None) -> JsonObject | None:
    """Encode a choice. The API cannot forbid all tools."""
    match choice:
        case "auto":
            return {"auto": {}}
        case "required":
            return {"any": {}}
        case {"type": "function", "function": {"name": name}}:
            return {"tool": {"name": name}}
        case dict():
            return choice
    return None


def decode_choice(choice: JsonObject | None) -> str | JsonObject | None:
    match choice:
        case {"auto": _}:
            return "auto"
        case {"any": _}:
            return "required"
        case {"tool": {"name": name}}:
            return {"type": "function", "function": {"name": name}}
    return choice


class _ConverseMessage(Struct):
    role: str
    content: list[dict[str, Any]]


class _ToolUse(Struct):
    tool_use_id: str = field(name="toolUseId")
    name: str
    input: Any = None


class _ToolResult(Struct):
    tool_use_id: str = field(name="toolUseId")
    content: list[dict[str, Any]] = []
    status: str | None = None


def _encode_message(message: JsonObject) -> JsonObject:
    [read] = read_messages([message])
    calls = [
        {"toolUse": {"toolUseId": call.id, "name": call.function.name, "input": arguments_object(call.to_tool_call())}}
        for call in read.tool_calls or ()
    ]
    return {"role": read.role, "content": [*encode_content(read.content), *calls]}


def _encode_result(message: JsonObject) -> JsonObject:
    result = {"toolUseId": message.get("tool_call_id"), "content": encode_content(message.get("content"))}
    return {"toolResult": result | ({"status": "error"} if message.get("is_error") else {})}


def encode_system(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the text of all system messages as blocks."""
    systems = (message for message in messages if message.get("role") in SYSTEM_ROLES)
    return [block for message in systems for block in encode_content(message.get("content"))]


def decode_system(blocks: list[JsonObject]) -> list[JsonObject]:
    """Return the system messages: one for each block if all are only text, else one with all blocks."""
    if all(is_plain_text(block) for block in blocks):
        return [{"role": "system", "content": block["text"]} for block in blocks]
    return [{"role": "system", "content": decode_content(blocks)}]


def _decode_message(message: _ConverseMessage) -> list[JsonObject]:
    if message.role == "assistant":
        return [_decode_assistant(message.content)]
    results = [_decode_result(block["toolResult"]) for block in message.content if "toolResult" in block]
    said = [block for block in message.content if "toolResult" not in block]
    return results if results and not said else [*results, {"role": message.role, "content": decode_content(said)}]


def _decode_assistant(blocks: list[JsonObject]) -> JsonObject:
    said = [block for block in blocks if not _is_call(block)]
    calls = [_decode_call(block["toolUse"]) for block in blocks if _is_call(block)]
    message: JsonObject = {"role": "assistant", "content": decode_content(said) if said else None}
    return message | {"tool_calls": calls} if calls else message


def _is_call(block: JsonObject) -> bool:
    use = block.get("toolUse")
    return use is not None and not (isinstance(use, dict) and use.get("type") == "server_tool_use")


def _decode_call(block: Any) -> JsonObject:
    read = convert_request(block, _ToolUse)
    arguments = orjson.dumps({} if read.input is None else read.input).decode()
    return {"id": read.tool_use_id, "type": "function", "function": {"name": read.name, "arguments": arguments}}


def _decode_result(block: Any) -> JsonObject:
    read = convert_request(block, _ToolResult)
    message = {"role": "tool", "tool_call_id": read.tool_use_id, "content": decode_content(read.content)}
    return message | ({"is_error": True} if read.status == "error" else {})


class _InferenceConfig(Struct):
    max_tokens: int | None = field(default=None, name="maxTokens")
    temperature: float | None = None


class _ToolConfig(Struct):
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] | None = field(default=None, name="toolChoice")


class _Body(Struct):
    messages: list[_ConverseMessage]
    system: list[dict[str, Any]] = []
    inference_config: dict[str, Any] = field(default_factory=dict, name="inferenceConfig")
    tool_config: _ToolConfig | None = field(default=None, name="toolConfig")


def encode_request(request: Request) -> WireRequest:
    extra = dict(request.extra)
    config = {"maxTokens": request.max_tokens, "temperature": request.temperature}
    inference = extra.pop("inferenceConfig", {}) | without_none(config)
    tools: JsonObject = {"tools": [encode_tool(tool) for tool in request.tools]}
    tools |= without_none({"toolChoice": encode_choice(request.tool_choice)})
    fields = {
        "system": encode_system(request.messages) or None,
        "messages": encode_turns(request.messages, message=_encode_message, result=_encode_result),
        "inferenceConfig": inference or None,
        "toolConfig": tools if request.tools else None,
    }
    return WireRequest(path_of(request, "converse", "converse-stream"), without_none(fields) | extra)


def decode_request(wire: WireRequest) -> Request:
    model, is_streamed = model_in(wire.path)
    kept: JsonObject = {"messages": []} if ":prompt/" in model else {}  # a prompt that the vendor keeps has its own
    body = convert_request(kept | wire.body, _Body)
    config = convert_request(body.inference_config, _InferenceConfig)
    extra = undeclared_fields(wire.body, _Body)
    if inference := undeclared_fields(body.inference_config, _InferenceConfig):
        extra["inferenceConfig"] = inference
    tools = body.tool_config or _ToolConfig()
    spoken = (decoded for message in body.messages for decoded in _decode_message(message))
    return Request(
        messages=(*decode_system(body.system), *spoken),
        model=model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        tools=tuple(decode_tool(tool) for tool in tools.tools),
        tool_choice=decode_choice(tools.tool_choice),
        extra=extra,
        stream=is_streamed,
    )


_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
_ERROR_KINDS = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class ToolUse(Struct):
    tool_use_id: str = field(default="", name="toolUseId")
    name: str = ""
    input: dict[str, Any] | None = None


class _ReasoningText(Struct):
    text: str = ""


class _Reasoning(Struct):
    reasoning_text: _ReasoningText | None = field(default=None, name="reasoningText")


class _ContentBlock(Struct):
    """A block of any kind: the field that is set decides which."""

    text: str | None = None
    tool_use: ToolUse | None = field(default=None, name="toolUse")
    reasoning: _Reasoning | None = field(default=None, name="reasoningContent")


class _AnswerMessage(Struct):
    content: list[_ContentBlock]


class _Output(Struct):
    message: _AnswerMessage


class ConverseUsage(Struct):
    input_tokens: int = field(default=0, name="inputTokens")
    output_tokens: int = field(default=0, name="outputTokens")
    cache_read: int = field(default=0, name="cacheReadInputTokens")
    cache_write: int = field(default=0, name="cacheWriteInputTokens")


class _Answer(Struct):
    output: _Output
    stop_reason: str | None = field(default=None, name="stopReason")
    usage: ConverseUsage = field(default_factory=ConverseUsage)


def decode_response(data: bytes) -> Response:
    """Decode a response. It does not name its model."""
    body = decode_answer(data, _Answer)
    blocks = body.output.message.content
    thoughts = [block.reasoning.reasoning_text for block in blocks if block.reasoning is not None]
    uses = [block.tool_use for block in blocks if block.tool_use is not None]
    return Response(
        content="".join(block.text or "" for block in blocks),
        usage=decode_usage(body.usage),
        finish_reason=renamed(body.stop_reason, _FINISH_REASONS),
        tool_calls=tuple(ToolCall(use.name, use.input or {}, use.tool_use_id or None) for use in uses),
        reasoning="".join(thought.text for thought in thoughts if thought is not None) or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    blocks: list[JsonObject] = []
    if response.reasoning:
        blocks.append({"reasoningContent": {"reasoningText": {"text": response.reasoning}}})
    if response.content:
        blocks.append({"text": response.content})
    for index, call in enumerate(response.tool_calls):
        use = {"toolUseId": call.id or call_id(id, index), "name": call.tool, "input": arguments_object(call)}
        blocks.append({"toolUse": use})
    return {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": renamed(response.finish_reason, _STOP_REASONS),
        "usage": encode_usage(response.usage),
        "metrics": {"latencyMs": 0},
    }


def call_id(id: str, index: int) -> str:
    """Return an id for a call without one. Clients refer to it in the result."""
    return f"tooluse_{id}_{index}"


def decode_usage(usage: ConverseUsage) -> Usage:
    prompt_tokens = usage.input_tokens + usage.cache_read + usage.cache_write
    return Usage.of(prompt_tokens, usage.output_tokens, cached=usage.cache_read)


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "inputTokens": usage.prompt_tokens - usage.cached_tokens,
        "outputTokens": usage.completion_tokens,
        "totalTokens": usage.prompt_tokens + usage.completion_tokens,
        "cacheReadInputTokens": usage.cached_tokens,
        "cacheWriteInputTokens": 0,
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    default = "ValidationException" if status_code < 500 else "InternalServerException"
    return {"message": message, "__type": _ERROR_KINDS.get(status_code, default)}


def decode_error(data: bytes) -> str:
    return error_message(data, "message")


STREAM_ERROR = "modelStreamErrorException"


class _BlockStart(Struct):
    tool_use: ToolUse | None = field(default=None, name="toolUse")


class _ContentBlockStart(Struct):
    index: int = field(name="contentBlockIndex")
    start: _BlockStart = field(default_factory=_BlockStart)


class _ToolUseDelta(Struct):
    input: str = ""


class _ReasoningPiece(Struct):
    text: str | None = None


class _BlockDelta(Struct):
    text: str | None = None
    tool_use: _ToolUseDelta | None = field(default=None, name="toolUse")
    reasoning: _ReasoningPiece | None = field(default=None, name="reasoningContent")


class _ContentBlockDelta(Struct):
    index: int = field(name="contentBlockIndex")
    delta: _BlockDelta


class _MessageStop(Struct):
    stop_reason: str | None = field(default=None, name="stopReason")


class _Metadata(Struct):
    usage: ConverseUsage = field(default_factory=ConverseUsage)


def exception_error(message: EventMessage) -> ProviderError:
    """Return the error for an exception inside a stream."""
    raw = message.payload.decode("utf-8", "replace")
    return stream_error(f"{message.name}: {decode_error(message.payload)}", raw=raw)


class BedrockStreamDecoder(FramedStreamDecoder[EventMessage]):
    """Decodes the events of a message. A stream is complete after `messageStop`; its usage follows."""

    def __init__(self) -> None:
        super().__init__(EventStreamDecoder())
        self._call_of_block: dict[int, int] = {}
        self._usage = ConverseUsage()
        self._finish_reason: str | None = None
        self._done = False

    def _end(self) -> Response:
        if not self._done:
            raise incomplete_stream_error()
        return self._joined.join(Response(usage=decode_usage(self._usage), finish_reason=self._finish_reason))

    def _read(self, message: EventMessage) -> list[StreamDelta]:
        if message.is_exception:
            raise exception_error(message)
        match message.name:
            case "contentBlockDelta":
                return self._continue(decode_answer(message.payload, _ContentBlockDelta))
            case "contentBlockStart":
                event = decode_answer(message.payload, _ContentBlockStart)
                use = event.start.tool_use
                if use is None:
                    return []
                call_index = self._call_of_block[event.index] = len(self._call_of_block)
                return [ToolCallDelta(call_index, "", use.tool_use_id or None, use.name)]
            case "messageStop":
                self._finish_reason = renamed(decode_answer(message.payload, _MessageStop).stop_reason, _FINISH_REASONS)
                self._done = True
            case "metadata":
                self._usage = decode_answer(message.payload, _Metadata).usage
        return []

    def _continue(self, event: _ContentBlockDelta) -> list[StreamDelta]:
        piece = event.delta
        if piece.text:
            return [TextDelta(piece.text)]
        if piece.reasoning is not None and piece.reasoning.text:
            return [ReasoningDelta(piece.reasoning.text)]
        call_index = self._call_of_block.get(event.index)
        if piece.tool_use is None or not piece.tool_use.input or call_index is None:
            return []
        return [ToolCallDelta(call_index, piece.tool_use.input)]


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a message's events, each delta in a block of its kind. The pieces of a tool call must be adjacent."""
    yield _frame("messageStart", {"role": "assistant"})
    for index, pieces in enumerate(content_blocks(deltas)):
        yield from _encode_block(index, pieces, id)
    yield _frame("messageStop", {"stopReason": renamed(response.finish_reason, _STOP_REASONS)})
    yield _frame("metadata", {"usage": encode_usage(response.usage), "metrics": {"latencyMs": 0}})


def _encode_block(index: int, pieces: Iterable[StreamDelta], id: str) -> Iterator[bytes]:
    """Encode one block. Only tool calls have a start event."""
    place = {"contentBlockIndex": index}
    for position, delta in enumerate(pieces):
        if position == 0 and isinstance(delta, ToolCallDelta):
            use = {"toolUseId": delta.id or call_id(id, delta.index), "name": delta.tool or ""}
            yield _frame("contentBlockStart", {"start": {"toolUse": use}} | place)
        yield _frame("contentBlockDelta", {"delta": _encode_delta(delta)} | place)
    yield _frame("contentBlockStop", place)


def _encode_delta(delta: StreamDelta) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"text": text}
        case ReasoningDelta(text):
            return {"reasoningContent": {"text": text}}
        case ToolCallDelta(_, arguments):
            return {"toolUse": {"input": arguments}}


def _frame(name: str, fields: JsonObject) -> bytes:
    return encode_event(name, orjson.dumps(fields))


def encode_stream_error(message: str) -> bytes:
    return encode_exception(STREAM_ERROR, orjson.dumps({"message": message}))


CODEC = Codec(
    name="bedrock",
    stream_type=EVENT_STREAM_TYPE,
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=BedrockStreamDecoder,
    encode_error=encode_error,
    decode_error=decode_error,
)
"""The `/model/{model}/converse` protocol, with Bedrock keys. Requests without a key are signed."""
