"""Gemini generateContent: the messages of a conversation as contents and parts."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

import orjson
from msgspec import Struct, field

from offbook.codecs.base import convert_request, without_none
from offbook.codecs.chat_message import CallIds, ChatMessage, ChatToolCall, DataUrl, arguments_object, parse_data_url
from offbook.messages import Content, JsonObject, Message, ToolCall

T = TypeVar("T")
_KNOWN = (
    *("systemInstruction", "generationConfig", "maxOutputTokens"),
    *("inlineData", "fileData", "mimeType", "fileUri", "functionCall", "functionResponse", "thoughtSignature"),
    *("functionDeclarations", "parametersJsonSchema", "toolConfig", "functionCallingConfig", "allowedFunctionNames"),
)
_CAMEL = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _KNOWN}


def in_camel_case(fields: JsonObject) -> JsonObject:
    """Return the fields with the known names in camel case."""
    return {_CAMEL.get(name, name): value for name, value in fields.items()}


def read_fields(value: object, shape: type[T]) -> T:
    """Convert a JSON object to `shape`, whether its names are in snake case or camel case.

    Raises:
        RequestError: `value` is not an object, or a field is missing or has the wrong type.
    """
    return convert_request(in_camel_case(convert_request(value, dict[str, Any])), shape)


FILE_SCHEMES = ("http://", "https://", "gs://")


class _InlineData(Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _FileData(Struct, rename="camel"):
    file_uri: str = ""
    mime_type: str | None = None


def encode_parts(content: Content) -> list[JsonObject]:
    """Encode content as parts. Anything but text and images passes through unchanged."""
    if isinstance(content, str):
        return [{"text": content}]
    return [_encode_part(part) for part in content or ()]


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return _encode_image(url, image.get("format")) or part
        case _:
            return part


def _encode_image(url: str, media_type: str | None) -> JsonObject | None:
    if inline := parse_data_url(url):
        return {"inlineData": {"mimeType": inline.media_type, "data": inline.data}}
    if url.startswith(FILE_SCHEMES):
        return {"fileData": without_none({"mimeType": media_type, "fileUri": url})}
    return None


def decode_parts(parts: list[JsonObject]) -> Content:
    """Decode parts with names in camel case to content: text alone is a string, no parts are None.

    Raises:
        RequestError: a part has the wrong shape.
    """
    content = [_decode_part(part) for part in parts]
    match content:
        case []:
            return None
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return content


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"inlineData": inline}:
            return _decode_inline(read_fields(inline, _InlineData)) or part
        case {"fileData": file}:
            return _decode_file(read_fields(file, _FileData)) or part
        case _:
            return part


def _decode_inline(inline: _InlineData) -> JsonObject | None:
    if not inline.mime_type.startswith("image/"):
        return None
    data = inline.data.replace("-", "+").replace("_", "/")  # the vendor's SDK writes URL-safe base64
    return {"type": "image_url", "image_url": {"url": str(DataUrl(inline.mime_type, data))}}


def _decode_file(file: _FileData) -> JsonObject | None:
    if file.mime_type is not None and not file.mime_type.startswith("image/"):
        return None
    return {"type": "image_url", "image_url": without_none({"url": file.file_uri, "format": file.mime_type})}


SYSTEM_ROLES = ("system", "developer")
SKIP_SIGNATURE = "skip_thought_signature_validator"
"""The signature that the vendor documents for a call in the history that has none."""
_WIRE_ROLES = {"assistant": "model"}


class GeminiContent(Struct):
    parts: list[dict[str, Any]] = field(default_factory=list)
    role: str | None = None

    def camel_parts(self) -> list[JsonObject]:
        return [in_camel_case(part) for part in self.parts]


class FunctionCallShape(Struct):
    name: str = ""
    args: dict[str, Any] | None = None
    id: str | None = None


class _FunctionResponse(Struct):
    name: str = ""
    response: dict[str, Any] | None = None
    id: str | None = None


def encode_system(messages: Sequence[ChatMessage]) -> JsonObject | None:
    """Return the system instruction made of all system messages, or None if there are none."""
    parts = [part for message in messages if message.role in SYSTEM_ROLES for part in encode_parts(message.content)]
    return {"parts": parts} if parts else None


def encode_contents(messages: Sequence[ChatMessage], *, signed: bool) -> list[JsonObject]:
    """Encode a conversation without its system messages and empty messages.

    `signed` says that the model rejects calls in the history without a signature.
    """
    contents: list[JsonObject] = []
    tools: dict[str | None, str] = {}
    for are_results, group in groupby(messages, key=lambda message: message.role == "tool"):
        if are_results:
            contents.append({"role": "user", "parts": [_encode_result(message, tools) for message in group]})
            continue
        for message in group:
            tools |= {call.id: call.function.name for call in message.tool_calls or ()}
            parts = _encode_message(message, signed=signed)
            if parts and message.role not in SYSTEM_ROLES:
                contents.append({"role": _WIRE_ROLES.get(message.role, message.role), "parts": parts})
    return contents


def _encode_message(message: ChatMessage, *, signed: bool) -> list[JsonObject]:
    thoughts = [{"text": message.reasoning_content, "thought": True}] if message.reasoning_content else []
    calls = [_encode_signed_call(call) for call in message.tool_calls or ()]
    if signed and calls:
        calls[0].setdefault("thoughtSignature", SKIP_SIGNATURE)
    return [*thoughts, *encode_parts(message.content), *calls]


def _encode_signed_call(call: ChatToolCall) -> JsonObject:
    google = call.extra_content and call.extra_content.google
    signature = google.thought_signature if google else None
    return encode_call(call.to_tool_call()) | without_none({"thoughtSignature": signature})


def encode_call(call: ToolCall) -> JsonObject:
    """Return a tool call as a part."""
    return {"functionCall": without_none({"id": call.id, "name": call.tool, "args": arguments_object(call)})}


def _encode_result(message: ChatMessage, tools: dict[str | None, str]) -> JsonObject:
    name = tools.get(message.tool_call_id) or message.name or ""
    result = {"id": message.tool_call_id, "name": name, "response": {"result": message.content}}
    return {"functionResponse": without_none(result)}


def decode_contents(contents: Sequence[GeminiContent]) -> list[JsonObject]:
    """Decode a conversation to messages. Calls without an id are numbered.

    Raises:
        RequestError: a part has the wrong shape.
    """
    ids = CallIds()
    return [message for content in contents for message in _decode_content(content, ids)]


def _decode_content(content: GeminiContent, ids: CallIds) -> list[JsonObject]:
    parts = content.camel_parts()
    if content.role == "model":
        return [_decode_model_content(parts, ids)]
    results = [_decode_result(part["functionResponse"], ids) for part in parts if "functionResponse" in part]
    rest = [part for part in parts if "functionResponse" not in part]
    if results and not rest:
        return results
    return [*results, Message(content.role or "user", decode_parts(rest)).to_dict()]


def _decode_model_content(parts: list[JsonObject], ids: CallIds) -> JsonObject:
    thoughts = [part.get("text") for part in parts if part.get("thought")]
    calls = [part for part in parts if "functionCall" in part]
    rest = [part for part in parts if not part.get("thought") and "functionCall" not in part]
    message = Message(
        role="assistant",
        content=decode_parts(rest),
        tool_calls=tuple(_decode_call(part["functionCall"], ids) for part in calls),
        reasoning="".join(text for text in thoughts if isinstance(text, str)) or None,
    ).to_dict()
    for call, part in zip(message.get("tool_calls", ()), calls, strict=True):
        if part.get("thoughtSignature", SKIP_SIGNATURE) != SKIP_SIGNATURE:
            call["extra_content"] = {"google": {"thought_signature": part["thoughtSignature"]}}
    return message


def _decode_call(value: object, ids: CallIds) -> ToolCall:
    call = convert_request(value, FunctionCallShape)
    return ToolCall(call.name, call.args or {}, ids.of_call(call.name, given=call.id))


def _decode_result(value: object, ids: CallIds) -> JsonObject:
    result = convert_request(value, _FunctionResponse)
    call_id = ids.of_result(result.name, given=result.id)
    return {"role": "tool", "tool_call_id": call_id, "content": _unwrap(result.response or {})}


def _unwrap(response: JsonObject) -> str:
    value = response["result"] if list(response) == ["result"] else response
    return value if isinstance(value, str) else orjson.dumps(value).decode()
