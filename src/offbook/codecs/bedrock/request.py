"""Bedrock Converse: requests, with their messages and tools."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from urllib.parse import quote, unquote

import orjson
from msgspec import Struct, field

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.codecs.chat_message import DataUrl, arguments_object, parse_data_url, read_messages
from offbook.errors import RequestError
from offbook.messages import Content, JsonObject, Request

_PATH = re.compile(r"(?:.*/)?model/(?P<model>.+)/(?:converse|invoke)(?P<stream>-stream|-with-response-stream)?")
_SYSTEM_ROLES = ("system", "developer")
_NO_PARAMETERS = {"type": "object", "properties": {}}
_IMAGE_TYPE = "image/"


def model_in(path: str) -> tuple[str, bool]:
    """Return the model that a path names, and whether it asks for a stream.

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
    """Encode content as blocks; none for empty text, which the API rejects as a block."""
    if isinstance(content, list):
        return [_encode_part(part) for part in content]
    return [{"text": content}] if content else []


def decode_content(blocks: list[JsonObject]) -> str | list[JsonObject]:
    """Decode blocks to the OpenAI chat format. A single block that is only text becomes that text."""
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


class _FunctionSpec(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


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
    function = convert_request(tool.get("function"), _FunctionSpec)
    fields = {
        "name": function.name,
        "description": function.description,
        "inputSchema": {"json": function.parameters or _NO_PARAMETERS},
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
    """Encode a choice; the API has none that forbids all tools."""
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


class _Message(Struct):
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


def encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Encode all but the system messages. Adjacent tool messages become one user message, as the API requires."""
    encoded: list[JsonObject] = []
    spoken = (message for message in messages if message.get("role") not in _SYSTEM_ROLES)
    for is_tool, group in groupby(spoken, key=lambda message: message.get("role") == "tool"):
        if is_tool:
            encoded.append({"role": "user", "content": [_encode_result(message) for message in group]})
        else:
            encoded.extend(_encode_message(message) for message in group)
    return encoded


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
    """Return the blocks of the system prompt: those of all system messages."""
    systems = (message for message in messages if message.get("role") in _SYSTEM_ROLES)
    return [block for message in systems for block in encode_content(message.get("content"))]


def decode_system(blocks: list[JsonObject]) -> list[JsonObject]:
    """Return the system messages: one for each block if all are only text, else one with all blocks."""
    if all(is_plain_text(block) for block in blocks):
        return [{"role": "system", "content": block["text"]} for block in blocks]
    return [{"role": "system", "content": decode_content(blocks)}]


def decode_messages(messages: Iterable[_Message]) -> list[JsonObject]:
    """Decode messages to the OpenAI chat format.

    Raises:
        RequestError: a tool call or tool result lacks its id.
    """
    return [decoded for message in messages for decoded in _decode_message(message)]


def _decode_message(message: _Message) -> list[JsonObject]:
    if message.role == "assistant":
        return [_decode_assistant(message.content)]
    results = [_decode_result(block["toolResult"]) for block in message.content if "toolResult" in block]
    said = [block for block in message.content if "toolResult" not in block]
    return results if results and not said else [*results, {"role": message.role, "content": decode_content(said)}]


def _decode_assistant(blocks: list[JsonObject]) -> JsonObject:
    said = [block for block in blocks if "toolUse" not in block]
    calls = [_decode_call(block["toolUse"]) for block in blocks if "toolUse" in block]
    message: JsonObject = {"role": "assistant", "content": decode_content(said) if said else None}
    return message | {"tool_calls": calls} if calls else message


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
    messages: list[_Message]
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
        "messages": encode_messages(request.messages),
        "inferenceConfig": inference or None,
        "toolConfig": tools if request.tools else None,
    }
    return WireRequest(path_of(request, "converse", "converse-stream"), without_none(fields) | extra)


def decode_request(wire: WireRequest) -> Request:
    body = convert_request(wire.body, _Body)
    model, is_streamed = model_in(wire.path)
    config = convert_request(body.inference_config, _InferenceConfig)
    extra = undeclared_fields(wire.body, _Body)
    if inference := undeclared_fields(body.inference_config, _InferenceConfig):
        extra["inferenceConfig"] = inference
    tools = body.tool_config or _ToolConfig()
    return Request(
        messages=(*decode_system(body.system), *decode_messages(body.messages)),
        model=model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        tools=tuple(decode_tool(tool) for tool in tools.tools),
        tool_choice=decode_choice(tools.tool_choice),
        extra=extra,
        stream=is_streamed,
    )
