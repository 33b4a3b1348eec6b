"""OpenAI responses: the tools on offer and the choice among them, whose functions are flat."""

from typing import Any

from msgspec import Struct

from offbook.codecs.parsing import convert_request
from offbook.messages import JsonObject

_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
_UNSAID = {"parameters": None, "strict": False}
"""What goes for a function that does not say: this API takes one for strict, unlike chat completions."""


class _ChatTool(Struct):
    function: dict[str, Any]


class _FunctionTool(Struct):
    name: str


def encode_tool(tool: JsonObject) -> JsonObject:
    """A function tool as the API takes it; what stands beside its function goes along. Others pass untouched."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool, _ChatTool).function
    return _UNSAID | function | {name: value for name, value in tool.items() if name != "function"}


def decode_tool(tool: JsonObject) -> JsonObject:
    """The inverse of `encode_tool`. Tools that the vendor's servers run pass untouched."""
    if tool.get("type") != "function":
        return tool
    convert_request(tool, _FunctionTool)
    fields = {"strict": None} | tool
    said = {name: value for name, value in fields.items() if name not in _UNSAID or value is not _UNSAID[name]}
    function = {name: value for name, value in said.items() if name in _FUNCTION_FIELDS}
    return {name: value for name, value in said.items() if name not in function} | {"function": function}


def encode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    match choice:
        case {"type": "function", "function": {"name": name}}:
            return {"type": "function", "name": name}
    return choice


def decode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    """The choice in the OpenAI chat shape; one that this shape has no word for passes untouched."""
    match choice:
        case {"type": "function", "name": name}:
            return {"type": "function", "function": {"name": name}}
    return choice
