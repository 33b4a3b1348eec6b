"""Anthropic messages: requests."""

from typing import Any

from msgspec import Struct

from offbook.codecs.anthropic.conversation import (
    WireMessage,
    decode_messages,
    decode_system,
    encode_messages,
    encode_system,
)
from offbook.codecs.anthropic.tools import decode_choice, decode_tool, encode_choice, encode_tool
from offbook.codecs.codec import WireRequest
from offbook.codecs.parsing import convert_request, without_none
from offbook.messages import JsonObject, Request

PATH = "/v1/messages"
DEFAULT_MAX_TOKENS = 4096
"""What is sent when the request sets no limit: the API demands one."""


class _Body(Struct):
    messages: list[WireMessage]
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
    body = convert_request(wire.body, _Body)
    return Request(
        messages=(*decode_system(body.system), *decode_messages(body.messages)),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra={name: value for name, value in wire.body.items() if name not in _Body.__struct_fields__},
        stream=bool(body.stream),
    )
