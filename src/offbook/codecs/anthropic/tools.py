"""Anthropic messages: the tools on offer, the choice among them, and the input of a call."""

from typing import Any

from msgspec import Struct

from offbook.codecs.parsing import convert_request, without_none
from offbook.messages import JsonObject, ToolCall

RAW_ARGUMENTS = "raw_arguments"
"""The one field of a call's input when its arguments are text that is no JSON object."""

_NO_PARAMETERS = {"type": "object", "properties": {}}
_ENCODED_CHOICES = {"required": "any"}
_DECODED_CHOICES = {"any": "required"}


class _Function(Struct):
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
    """A function tool as the API takes it; what stands beside its function goes along. Others pass untouched."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool.get("function"), _Function)
    fields = {
        "name": function.name,
        "description": function.description,
        "input_schema": function.parameters or _NO_PARAMETERS,
        "strict": function.strict,
    }
    return without_none(fields) | _beside(tool, "type", "function")


def decode_tool(tool: JsonObject) -> JsonObject:
    """The inverse of `encode_tool`. Tools that the vendor's servers run pass untouched."""
    if tool.get("type") not in (None, "custom") or "input_schema" not in tool:
        return tool
    read = convert_request(tool, _Tool)
    function = without_none(
        {"name": read.name, "description": read.description, "parameters": read.input_schema, "strict": read.strict}
    )
    return {"type": "function", "function": function} | _beside(tool, "type", *_Tool.__struct_fields__)


def encode_choice(choice: str | JsonObject | None) -> JsonObject | None:
    match choice:
        case str(word):
            return {"type": _ENCODED_CHOICES.get(word, word)}
        case {"type": "function", "function": {"name": name}}:
            return {"type": "tool", "name": name}
    return choice


def decode_choice(choice: JsonObject | None) -> str | JsonObject | None:
    """The choice in the OpenAI chat shape; one that says more than that shape can passes untouched."""
    match choice:
        case {"type": "tool", "name": name, **rest} if not rest:
            return {"type": "function", "function": {"name": name}}
        case {"type": str(word), **rest} if not rest:
            return _DECODED_CHOICES.get(word, word)
    return choice


def encode_input(call: ToolCall) -> JsonObject:
    """The call's arguments as the object that the API demands, even where the model wrote none."""
    return call.args if call.raw_arguments is None else {RAW_ARGUMENTS: call.raw_arguments}


def _beside(tool: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in tool.items() if name not in names}
