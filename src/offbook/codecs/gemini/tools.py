"""Gemini: tools and the choice among them."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from offbook.codecs.gemini.names import in_camel_case, read_fields
from offbook.codecs.parsing import without_none
from offbook.errors import RequestError
from offbook.messages import JsonObject


class _PlainSchema(Struct, rename="camel", forbid_unknown_fields=True):
    """The JSON schemas that `parameters` takes; `parametersJsonSchema` takes any."""

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
    """All functions as one tool; a tool of another type goes as it is."""
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
    """The declaration, without `strict`, which the vendor refuses."""
    kept = {name: value for name, value in function.items() if name not in ("parameters", "strict")}
    parameters = function.get("parameters")
    name = "parameters" if _is_plain(parameters) else "parametersJsonSchema"
    return kept | without_none({name: parameters})


def _is_plain(schema: object) -> bool:
    try:
        msgspec.convert(schema, type=_PlainSchema)
    except msgspec.ValidationError:
        return False
    return True


def decode_tools(tools: Iterable[JsonObject]) -> tuple[JsonObject, ...]:
    """Each declared function as a tool of its own.

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
    """The tool config for a choice.

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
            raise RequestError(f"cannot tell Gemini about {choice!r}", source="tool_choice", hint=hint)


def decode_tool_choice(config: JsonObject) -> tuple[str | JsonObject | None, JsonObject]:
    """The choice that a tool config makes, and what is left of the config.

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
