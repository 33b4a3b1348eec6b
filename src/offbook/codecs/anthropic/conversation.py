"""Anthropic messages: the conversation, whose system prompt and tool results have places of their own."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import orjson
from msgspec import Struct

from offbook.codecs.anthropic.content import blocks_of, decode_content, encode_content, is_plain_text
from offbook.codecs.anthropic.tools import encode_input
from offbook.codecs.parsing import convert_request
from offbook.messages import JsonObject, ToolCall

_SYSTEM_ROLES = ("system", "developer")
_OWN_FIELDS = ("cache_control", "caller", "is_error", "toolset_name")


class WireMessage(Struct):
    role: str
    content: str | list[dict[str, Any]]


class _Function(Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class _Call(Struct):
    function: _Function
    id: str | None = None


class _ToolUse(Struct):
    id: str
    name: str
    input: dict[str, Any]


class _ToolResult(Struct):
    tool_use_id: str
    content: str | list[dict[str, Any]] = ""


def encode_system(messages: Iterable[JsonObject]) -> str | list[JsonObject] | None:
    """The system prompt: the text of a single system message, or the blocks of all of them."""
    contents = [encode_content(message.get("content")) for message in messages if _is_system(message)]
    if len(contents) == 1:
        return contents[0]
    return [block for content in contents for block in blocks_of(content)] or None


def decode_system(system: str | list[JsonObject] | None) -> list[JsonObject]:
    """The system messages: one for each block if all are nothing but text, else one that holds all blocks."""
    if system is None:
        return []
    if isinstance(system, list) and all(is_plain_text(block) for block in system):
        return [{"role": "system", "content": block["text"]} for block in system]
    return [{"role": "system", "content": system}]


def encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    """All but the system messages. Tool messages in a row become one user message, as the API demands."""
    encoded: list[JsonObject] = []
    spoken = (message for message in messages if not _is_system(message))
    for is_tool, group in groupby(spoken, key=lambda message: message.get("role") == "tool"):
        if is_tool:
            encoded.append({"role": "user", "content": [_encode_result(message) for message in group]})
        else:
            encoded.extend(_encode_message(message) for message in group)
    return encoded


def decode_messages(messages: Iterable[WireMessage]) -> list[JsonObject]:
    """The messages in the OpenAI chat shape.

    Raises:
        RequestError: a tool call or tool result lacks what identifies it.
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
    read = convert_request(call, _Call)
    block = {"type": "tool_use", "id": read.id, "name": read.function.name}
    return block | {"input": _encode_arguments(read.function.arguments)} | _own_fields(call)


def _encode_arguments(arguments: str | dict[str, Any]) -> JsonObject:
    return arguments if isinstance(arguments, dict) else encode_input(ToolCall.parse("", arguments))


def _encode_result(message: JsonObject) -> JsonObject:
    block = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    return block | {"content": encode_content(message.get("content"))} | _own_fields(message)


def _decode_message(message: WireMessage) -> list[JsonObject]:
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
    """What only this API knows of a call or result; it travels on the message in the OpenAI chat shape."""
    return {name: carrier[name] for name in _OWN_FIELDS if name in carrier}
