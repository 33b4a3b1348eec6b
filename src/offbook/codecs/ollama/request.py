"""Ollama chat: requests, with their messages and tools."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.codecs.chat_message import (
    CallIds,
    ChatMessage,
    ChatToolCall,
    DataUrl,
    arguments_object,
    parse_data_url,
    read_messages,
)
from offbook.errors import RequestError
from offbook.messages import Content, JsonObject, Message, Request, ToolCall
from offbook.text import shorten

_MEDIA_TYPES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""Media types by the first characters of the image in base64."""


def encode_content(content: Content) -> tuple[str, list[str]]:
    """Return the text and the images as base64.

    Raises:
        RequestError: a part is neither text nor an image given as a `data:` URL.
    """
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[str] = []
    for part in content or ():
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case _:
                images.append(_encode_image(part))
    return "".join(texts), images


def _encode_image(part: JsonObject) -> str:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} if image := parse_data_url(url):
            return image.data
    raise RequestError(
        f"Ollama does not support {shorten(repr(part))}",
        source="messages",
        hint="use text, or images as data:image/png;base64,… URLs",
    )


def decode_content(text: str, images: list[str]) -> Content:
    """Return text alone as a string, text with images as parts."""
    if not images:
        return text
    texts: list[JsonObject] = [{"type": "text", "text": text}] if text else []
    return [*texts, *({"type": "image_url", "image_url": {"url": str(_data_url(image))}} for image in images)]


def _data_url(image: str) -> DataUrl:
    found = (media_type for start, media_type in _MEDIA_TYPES.items() if image.startswith(start))
    return DataUrl(next(found, "application/octet-stream"), image)


_WIRE_ROLES = {"developer": "system"}


class OllamaMessage(Struct):
    role: str = "assistant"
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def encode_messages(messages: Sequence[ChatMessage]) -> list[JsonObject]:
    """Encode messages, each tool result with the name of its tool.

    Raises:
        RequestError: Ollama does not support a part of a message.
    """
    encoded: list[JsonObject] = []
    tools: dict[str | None, str] = {}
    for message in messages:
        tools |= {call.id: call.function.name for call in message.tool_calls or ()}
        tool_name = tools.get(message.tool_call_id, message.name) if message.role == "tool" else None
        encoded.append(_encode_message(message, tool_name))
    return encoded


def _encode_message(message: ChatMessage, tool_name: str | None) -> JsonObject:
    text, images = encode_content(message.content)
    optional = {
        "thinking": message.reasoning_content or None,
        "images": images or None,
        "tool_calls": encode_calls(call.to_tool_call() for call in message.tool_calls or ()) or None,
        "tool_name": tool_name,
        "tool_call_id": message.tool_call_id,
    }
    return {"role": _WIRE_ROLES.get(message.role, message.role), "content": text} | without_none(optional)


def encode_calls(calls: Iterable[ToolCall]) -> list[JsonObject]:
    return [
        without_none({"id": call.id, "function": {"name": call.tool, "arguments": arguments_object(call)}})
        for call in calls
    ]


def decode_messages(messages: Iterable[OllamaMessage]) -> list[JsonObject]:
    """Decode messages to the OpenAI chat format. Calls without an id are numbered."""
    ids = CallIds()
    return [_decode_message(message, ids) for message in messages]


def _decode_message(message: OllamaMessage, ids: CallIds) -> JsonObject:
    calls = tuple(_decode_call(call, ids) for call in message.tool_calls or ())
    content = decode_content(message.content or "", message.images or [])
    is_result = message.role == "tool"
    return Message(
        role=message.role,
        content=(content or None) if calls else content,
        tool_calls=calls,
        tool_call_id=ids.of_result(message.tool_name, given=message.tool_call_id) if is_result else None,
        reasoning=message.thinking or None,
    ).to_dict()


def _decode_call(call: ChatToolCall, ids: CallIds) -> ToolCall:
    return replace(call.to_tool_call(), id=ids.of_call(call.function.name, given=call.id))


PATH = "/api/chat"


class _Options(Struct):
    temperature: float | None = None
    num_predict: int | None = None


class _Body(Struct):
    messages: list[OllamaMessage]
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
    """Decode a request. It is streamed unless `stream` is false."""
    body = convert_request(wire.body, _Body)
    limits = convert_request(body.options or {}, _Options)
    options = undeclared_fields(body.options or {}, _Options)
    return Request(
        messages=tuple(decode_messages(body.messages)),
        model=body.model,
        temperature=limits.temperature,
        max_tokens=limits.num_predict,
        tools=tuple(body.tools or ()),
        tool_choice=body.tool_choice,
        extra=undeclared_fields(wire.body, _Body) | ({"options": options} if options else {}),
        stream=body.stream is not False,
    )
