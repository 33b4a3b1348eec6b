"""Gemini: field names, which the vendor takes in camel and in snake case, and its own SDK mixes."""

import re
from typing import Any, TypeVar

from offbook.codecs.parsing import convert_request
from offbook.messages import JsonObject

T = TypeVar("T")
_KNOWN = (
    *("systemInstruction", "generationConfig", "maxOutputTokens"),
    *("inlineData", "fileData", "mimeType", "fileUri", "functionCall", "functionResponse", "thoughtSignature"),
    *("functionDeclarations", "parametersJsonSchema", "toolConfig", "functionCallingConfig", "allowedFunctionNames"),
)
_CAMEL = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _KNOWN}


def in_camel_case(fields: JsonObject) -> JsonObject:
    """The fields, those whose names we know under their camel case name."""
    return {_CAMEL.get(name, name): value for name, value in fields.items()}


def read_fields(value: object, shape: type[T]) -> T:
    """A JSON object as `shape`, in whichever case its names are.

    Raises:
        RequestError: it is no object, or a field is missing or has the wrong type.
    """
    return convert_request(in_camel_case(convert_request(value, dict[str, Any])), shape)
