"""Gemini: requests."""

import re
from typing import Any

from msgspec import Struct

from offbook.codecs.chat_message import read_messages
from offbook.codecs.codec import WireRequest
from offbook.codecs.gemini.contents import ContentShape, decode_contents, encode_contents, encode_system
from offbook.codecs.gemini.names import in_camel_case, read_fields
from offbook.codecs.gemini.parts import decode_parts
from offbook.codecs.gemini.tools import decode_tool_choice, decode_tools, encode_tool_choice, encode_tools
from offbook.codecs.parsing import convert_request, without_none
from offbook.errors import RequestError
from offbook.messages import JsonObject, Message, Request

_PATH = re.compile(
    r"(?:/v1(?:alpha|beta)?)?/(?:models/)?(?P<model>[^?]*[^?/]):(?P<method>generateContent|streamGenerateContent)(?:\?.*)?"
)
_WANTS_SIGNATURES = re.compile(r"(.*/)?gemini-(?![12][.-])")


class _Limits(Struct, rename="camel"):
    temperature: float | None = None
    max_output_tokens: int | None = None


class _Body(Struct, rename="camel"):
    contents: list[ContentShape]
    system_instruction: ContentShape | None = None
    tools: list[dict[str, Any]] | None = None
    tool_config: dict[str, Any] | None = None
    generation_config: dict[str, Any] | None = None


def encode_request(request: Request) -> WireRequest:
    messages = read_messages(request.messages)
    limits = without_none({"temperature": request.temperature, "maxOutputTokens": request.max_tokens})
    fields: JsonObject = {
        "contents": encode_contents(messages, signed=_WANTS_SIGNATURES.match(request.model) is not None),
        "systemInstruction": encode_system(messages),
        "tools": encode_tools(request.tools) or None,
    }
    merged = {
        "toolConfig": encode_tool_choice(request.tool_choice) | _extra(request, "toolConfig"),
        "generationConfig": limits | _extra(request, "generationConfig"),
    }
    return WireRequest(_path(request), without_none(fields) | dict(request.extra) | _filled(merged))


def _path(request: Request) -> str:
    model = request.model if "/" in request.model else f"models/{request.model}"
    return f"/{model}:streamGenerateContent?alt=sse" if request.stream else f"/{model}:generateContent"


def _extra(request: Request, name: str) -> JsonObject:
    return convert_request(request.extra.get(name) or {}, dict[str, Any])


def decode_request(wire: WireRequest) -> Request:
    path = _PATH.fullmatch(wire.path)
    if path is None:
        raise RequestError(f"{wire.path!r} names no model", source="path", hint="/models/{model}:generateContent")
    body = read_fields(wire.body, _Body)
    config = in_camel_case(body.generation_config or {})
    limits = convert_request(config, _Limits)
    tool_choice, tool_config = decode_tool_choice(body.tool_config or {})
    return Request(
        messages=(*_system(body.system_instruction), *decode_contents(body.contents)),
        model=path["model"],
        temperature=limits.temperature,
        max_tokens=limits.max_output_tokens,
        tools=decode_tools(body.tools or ()),
        tool_choice=tool_choice,
        extra=_others(in_camel_case(wire.body), _Body)
        | _filled({"toolConfig": tool_config, "generationConfig": _others(config, _Limits)}),
        stream=path["method"] == "streamGenerateContent",
    )


def _system(instruction: ContentShape | None) -> list[JsonObject]:
    return [] if instruction is None else [Message("system", decode_parts(instruction.camel_parts())).to_dict()]


def _others(fields: JsonObject, shape: type[Struct]) -> JsonObject:
    """The fields that `shape` does not declare."""
    return {name: value for name, value in fields.items() if name not in shape.__struct_encode_fields__}


def _filled(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value}
