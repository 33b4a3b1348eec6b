"""OpenAI chat completions: requests, with their messages and tools."""

import re
from typing import Any

import orjson
from msgspec import Struct

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.messages import JsonObject, Request

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
