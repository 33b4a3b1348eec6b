"""Gemini generateContent: requests, with their tools and tool choice."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.codecs.chat_message import read_messages
from offbook.codecs.gemini.content import (
    GeminiContent,
    decode_contents,
    decode_parts,
    encode_contents,
    encode_system,
    in_camel_case,
    read_fields,
)
from offbook.decoding import convert
from offbook.errors import RequestError
from offbook.messages import JsonObject, Message, Request


class _PlainSchema(Struct, rename="camel", forbid_unknown_fields=True):
    """The JSON schemas that `parameters` supports; `parametersJsonSchema` supports any."""

    type: str | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    nullable: bool | None = None
    default: Any = None
    example: Any = None
    enum: list[str] | None = None
    any_of: list["_PlainSchema"] | None = None
    properties: dict[str, "_PlainSchema"] | None = None
    required: list[str] | None = None
    property_ordering: list[str] | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    items: "_PlainSchema | None" = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class _Tool(Struct, rename="camel"):
    function_declarations: list[dict[str, Any]] | None = None


class _FunctionCalling(Struct, rename="camel"):
    mode: str = "AUTO"
    allowed_function_names: list[str] | None = None


def encode_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Encode all functions as one tool. Other tools pass through unchanged."""
    declarations: list[JsonObject] = []
    others: list[JsonObject] = []
    for tool in tools:
        match tool:
            case {"type": "function", "function": dict(function)}:
                declarations.append(_encode_function(function))
            case _:
                others.append(tool)
    return [{"functionDeclarations": declarations}, *others] if declarations else others


def _encode_function(function: JsonObject) -> JsonObject:
    """Return the declaration without `strict`, which the vendor rejects."""
    kept = {name: value for name, value in function.items() if name not in ("parameters", "strict")}
    parameters = function.get("parameters")
    name = "parameters" if _is_plain_schema(parameters) else "parametersJsonSchema"
    return kept | without_none({name: parameters})


def _is_plain_schema(schema: object) -> bool:
    try:
        convert(schema, _PlainSchema)
    except msgspec.ValidationError:
        return False
    return True


def decode_tools(tools: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Decode each declared function as a tool of its own.

    Raises:
        RequestError: the declarations have the wrong shape.
    """
    return tuple(decoded for tool in tools for decoded in _decode_tool(tool))


def _decode_tool(tool: JsonObject) -> list[JsonObject]:
    declarations = read_fields(tool, _Tool).function_declarations
    if declarations is None:
        return [tool]
    rest = {name: value for name, value in in_camel_case(tool).items() if name != "functionDeclarations"}
    return [*map(_decode_function, declarations), *([rest] if rest else [])]


def _decode_function(declaration: JsonObject) -> JsonObject:
    function = in_camel_case(declaration)
    if "parametersJsonSchema" in function:
        function["parameters"] = function.pop("parametersJsonSchema")
    return {"type": "function", "function": function}


def encode_tool_choice(choice: str | JsonObject | None) -> JsonObject:
    """Return the tool config for a choice.

    Raises:
        RequestError: the choice is an object that does not name one function.
    """
    match choice:
        case None:
            return {}
        case str():
            return {"functionCallingConfig": {"mode": "ANY" if choice == "required" else choice.upper()}}
        case {"function": {"name": str(name)}}:
            return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}
        case _:
            hint = '"auto", "none", "required" or {"type": "function", "function": {"name": "…"}}'
            raise RequestError(f"Gemini does not support {choice!r}", source="tool_choice", hint=hint)


def decode_tool_choice(config: JsonObject) -> tuple[str | JsonObject | None, JsonObject]:
    """Return the choice in a tool config, and the rest of the config.

    Raises:
        RequestError: the config has the wrong shape.
    """
    rest = in_camel_case(config)
    calling = rest.pop("functionCallingConfig", None)
    if calling is None:
        return None, rest
    match read_fields(calling, _FunctionCalling):
        case _FunctionCalling(mode="ANY", allowed_function_names=[name]):
            return {"type": "function", "function": {"name": name}}, rest
        case _FunctionCalling(mode=mode, allowed_function_names=None | []):
            return "required" if mode == "ANY" else mode.lower(), rest
        case _:
            return None, dict(config)


_PATH = re.compile(
    r"(?:/v1[a-z0-9]*)?/(?:(?:projects/[^/?]+/locations/[^/?]+/)?publishers/google/)?(?:models/)?"
    r"(?P<model>[^?]*[^?/]):(?P<method>generateContent|streamGenerateContent)(?:\?.*)?"
)
_WANTS_SIGNATURES = re.compile(r"(.*/)?gemini-(?![12][.-])")


class _Limits(Struct, rename="camel"):
    temperature: float | None = None
    max_output_tokens: int | None = None


class _Body(Struct, rename="camel"):
    contents: list[GeminiContent]
    system_instruction: GeminiContent | None = None
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
    return WireRequest(_path(request), without_none(fields) | dict(request.extra) | _without_empty(merged))


def _path(request: Request) -> str:
    model = request.model if "/" in request.model else f"models/{request.model}"
    return f"/{model}:streamGenerateContent?alt=sse" if request.stream else f"/{model}:generateContent"


def _extra(request: Request, name: str) -> JsonObject:
    return convert_request(request.extra.get(name) or {}, dict[str, Any])


def decode_request(wire: WireRequest) -> Request:
    path = _PATH.fullmatch(wire.path)
    if path is None:
        raise RequestError(
            f"{wire.path!r} does not name a model", source="path", hint="/models/{model}:generateContent"
        )
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
        extra=undeclared_fields(in_camel_case(wire.body), _Body)
        | _without_empty({"toolConfig": tool_config, "generationConfig": undeclared_fields(config, _Limits)}),
        stream=path["method"] == "streamGenerateContent",
    )


def _system(instruction: GeminiContent | None) -> list[JsonObject]:
    return [] if instruction is None else [Message("system", decode_parts(instruction.camel_parts())).to_dict()]


def _without_empty(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value}
