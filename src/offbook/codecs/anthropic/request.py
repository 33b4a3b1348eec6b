"""Anthropic messages: requests, with their messages and tools."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from urllib.parse import unquote

import orjson
from msgspec import Struct

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.codecs.chat_message import DataUrl, arguments_object, parse_data_url
from offbook.messages import Content, JsonObject, Request, ToolCall


def encode_content(content: Content) -> str | list[JsonObject]:
    """Encode content. Parts other than images are the same in both formats, or pass through unchanged."""
    if isinstance(content, list):
        return [_encode_part(part) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Decode content to the OpenAI chat format. A single block that is only text becomes that text."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and is_plain_text(content[0]):
        return str(content[0]["text"])
    return [_decode_block(block) for block in content]


def blocks_of(content: str | list[JsonObject]) -> list[JsonObject]:
    """Return content as blocks; none for empty text, which the API rejects as a block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def is_plain_text(block: JsonObject) -> bool:
    """Return whether the block is text without anything else, such as cache control."""
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


_NO_PARAMETERS = {"type": "object", "properties": {}}
_ENCODED_CHOICES = {"required": "any"}
_DECODED_CHOICES = {"any": "required"}


class _FunctionSpec(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(Struct):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


def encode_tool(tool: JsonObject) -> JsonObject:
    """Encode a function tool, with the fields beside its function. Other tools pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool.get("function"), _FunctionSpec)
    fields = {
        "name": function.name,
        "description": function.description,
        "input_schema": function.parameters or _NO_PARAMETERS,
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
    """Decode a choice to the OpenAI chat format; one that has more fields passes through unchanged."""
    match choice:
        case {"type": "tool", "name": name, **rest} if not rest:
            return {"type": "function", "function": {"name": name}}
        case {"type": str(word), **rest} if not rest:
            return _DECODED_CHOICES.get(word, word)
    return choice


def _other_fields(tool: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in tool.items() if name not in names}


_SYSTEM_ROLES = ("system", "developer")
_OWN_FIELDS = ("cache_control", "caller", "is_error", "toolset_name")


class AnthropicMessage(Struct):
    role: str
    content: str | list[dict[str, Any]]


class _CalledFunction(Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class _ToolCallShape(Struct):
    function: _CalledFunction
    id: str | None = None


class _ToolUse(Struct):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(Struct):
    tool_use_id: str
    content: str | list[dict[str, Any]] = ""


def encode_system(messages: Iterable[JsonObject]) -> str | list[JsonObject] | None:
    """Return the system prompt: the text of a single system message, or the blocks of all of them."""
    contents = [encode_content(message.get("content")) for message in messages if _is_system(message)]
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


def encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """Encode all but the system messages. Adjacent tool messages become one user message, as the API requires."""
    encoded: list[JsonObject] = []
    spoken = (message for message in messages if not _is_system(message))
    for is_tool, group in groupby(spoken, key=lambda message: message.get("role") == "tool"):
        if is_tool:
            encoded.append({"role": "user", "content": [_encode_result(message) for message in group]})
        else:
            encoded.extend(_encode_message(message) for message in group)
    return encoded


def decode_messages(messages: Iterable[AnthropicMessage]) -> list[JsonObject]:
    """Decode messages to the OpenAI chat format.

    Raises:
        RequestError: a tool call or tool result lacks its id.
    """
    return [decoded for message in messages for decoded in _decode_message(message)]


def _is_system(message: JsonObject) -> bool:
    return message.get("role") in _SYSTEM_ROLES


def _encode_message(message: JsonObject) -> JsonObject:
    content = encode_content(message.get("content"))
    if calls := message.get("tool_calls"):
        content = [*blocks_of(content), *(_encode_call(call) for call in calls)]
    return {"role": message.get("role"), "content": content}


def _encode_call(call: JsonObject) -> JsonObject:
    read = convert_request(call, _ToolCallShape)
    block = {"type": "tool_use", "id": read.id, "name": read.function.name}
    return block | {"input": _encode_arguments(read.function.arguments)} | _own_fields(call)


def _encode_arguments(arguments: str | dict[str, Any]) -> JsonObject:
    return arguments if isinstance(arguments, dict) else arguments_object(ToolCall.parse("", arguments))


def _encode_result(message: JsonObject) -> JsonObject:
    block = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    return block | {"content": encode_content(message.get("content"))} | _own_fields(message)


def _decode_message(message: AnthropicMessage) -> list[JsonObject]:
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    if message.role == "assistant":
        return [_decode_assistant(message.content)]
    return _decode_user(message.role, message.content)


def _decode_assistant(blocks: list[JsonObject]) -> JsonObject:
    said, calls = _split(blocks, "tool_use")
    message: JsonObject = {"role": "assistant", "content": decode_content(said) if said else None}
    return message | {"tool_calls": [_decode_call(call) for call in calls]} if calls else message


def _decode_user(role: str, blocks: list[JsonObject]) -> list[JsonObject]:
    """Tool results first: in the OpenAI chat shape they follow their calls at once."""
    said, results = _split(blocks, "tool_result")
    messages = [_decode_result(result) for result in results]
    return messages if results and not said else [*messages, {"role": role, "content": decode_content(said)}]


def _split(blocks: list[JsonObject], kind: str) -> tuple[list[JsonObject], list[JsonObject]]:
    """The blocks that are not of `kind`, and those that are."""
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
    """Return the fields that only this API has; they stay on the message in the OpenAI chat format."""
    return {name: carrier[name] for name in _OWN_FIELDS if name in carrier}


PATH = "/v1/messages"
_VERTEX_PATH = re.compile(r"/models/(?P<model>[^/]+):(?:streamR|r)awPredict")
DEFAULT_MAX_TOKENS = 4096
"""The limit of a request that sets none: the API requires one."""


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
        "messages": encode_messages(request.messages),
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
    return Request(
        messages=(*decode_system(body.system), *decode_messages(body.messages)),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra=undeclared_fields(fields, _Body),
        stream=bool(body.stream),
    )
