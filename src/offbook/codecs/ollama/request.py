"""Ollama: requests."""

from typing import Any

from msgspec import Struct

from offbook.codecs.chat_message import read_messages
from offbook.codecs.codec import WireRequest
from offbook.codecs.ollama.conversation import WireMessage, decode_messages, encode_messages
from offbook.codecs.parsing import convert_request, without_none
from offbook.messages import JsonObject, Request

PATH = "/api/chat"


class _Options(Struct):
    temperature: float | None = None
    num_predict: int | None = None


class _Body(Struct):
    messages: list[WireMessage]
    model: str
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None


def encode_request(request: Request) -> WireRequest:
    limits = without_none({"temperature": request.temperature, "num_predict": request.max_tokens})
    options = limits | convert_request(request.extra.get("options") or {}, dict[str, Any])
    fields: JsonObject = {
        "model": request.model,
        "messages": encode_messages(read_messages(request.messages)),
        "stream": request.stream,
        "tools": list(request.tools) or None,
        "tool_choice": request.tool_choice,
    }
    merged = {"options": options} if options else {}
    return WireRequest(PATH, without_none(fields) | dict(request.extra) | merged)


def decode_request(wire: WireRequest) -> Request:
    """The request; one that does not say whether to stream asks for a stream."""
    body = convert_request(wire.body, _Body)
    limits = convert_request(body.options or {}, _Options)
    options = _others(body.options or {}, _Options)
    return Request(
        messages=tuple(decode_messages(body.messages)),
        model=body.model,
        temperature=limits.temperature,
        max_tokens=limits.num_predict,
        tools=tuple(body.tools or ()),
        tool_choice=body.tool_choice,
        extra=_others(wire.body, _Body) | ({"options": options} if options else {}),
        stream=body.stream is not False,
    )


def _others(fields: JsonObject, shape: type[Struct]) -> JsonObject:
    """The fields that `shape` does not declare."""
    return {name: value for name, value in fields.items() if name not in shape.__struct_fields__}
