"""OpenAI responses: requests, with their messages and tools."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from offbook.codecs.base import WireRequest, convert_request, undeclared_fields, without_none
from offbook.codecs.openai_responses.response import OutputItem
from offbook.messages import Content, JsonObject, Request


def encode_content(content: Content, *, text_type: str = "input_text") -> str | list[JsonObject]:
    """Encode content. `text_type` is the type of text parts: `output_text` for the model's own messages."""
    if isinstance(content, list):
        return [_encode_part(part, text_type) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Decode content to the OpenAI chat format. A single part that is only text becomes that text."""
    if isinstance(content, str):
        return content
    parts = [_decode_part(part) for part in content]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def _encode_part(part: JsonObject, text_type: str) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text), **rest}:
            return {"type": text_type, "text": text, **rest}
        case {"type": "image_url", "image_url": {"url": str(url)} as image, **rest}:
            detail = {name: value for name, value in image.items() if name != "url"}
            return {"type": "input_image", "image_url": url, **detail, **rest}
        case {"type": "file", "file": dict(file), **rest}:
            return {"type": "input_file", **file, **rest}
    return part


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "input_text" | "output_text", "text": str(text), **rest}:
            return {"type": "text", "text": text, **_without_empty(rest)}
        case {"type": "input_image", "image_url": str(url), **image}:
            return {"type": "image_url", "image_url": {"url": url, **_without_empty(image)}}
        case {"type": "input_file", **file}:
            return {"type": "file", "file": _without_empty(file)}
    return part


def _without_empty(fields: JsonObject) -> JsonObject:
    """Drop fields that are None or an empty list, such as `annotations` in responses that are sent back."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


ITEM_ROLE = "item"
"""The role of a message whose content is one item that the OpenAI chat format does not have."""
REASONING_ITEMS = "reasoning_items"
"""The field of an assistant message that holds the reasoning items before it, which only this API reads."""
_OWN_FIELDS = ("caller", "namespace", "phase")


class _ChatFunction(Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class _ChatCall(Struct):
    function: _ChatFunction
    id: str | None = None


class _Message(Struct):
    role: str
    content: str | list[dict[str, Any]]


class _FunctionCall(Struct):
    call_id: str
    name: str
    arguments: str


class _FunctionCallOutput(Struct):
    call_id: str
    output: str | list[dict[str, Any]]


def encode_conversation(messages: Sequence[JsonObject]) -> tuple[str | None, list[JsonObject]]:
    """Return the instructions, which are the text of a leading system message, and all other messages as items.

    `reasoning_content` is left out: the API accepts only its own reasoning items.
    """
    match messages:
        case [{"role": "system", "content": str(instructions)}, *rest]:
            return instructions, _encode_messages(rest)
    return None, _encode_messages(messages)


def decode_conversation(instructions: str | None, items: str | Iterable[JsonObject]) -> list[JsonObject]:
    """Decode a conversation to the OpenAI chat format.

    Raises:
        RequestError: an item lacks a required field.
    """
    messages: list[JsonObject] = [] if instructions is None else [{"role": "system", "content": instructions}]
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    turn = _AssistantTurn()
    for item in items:
        if not turn.add(item):
            messages += turn.end()
            turn = _AssistantTurn()
            if not turn.add(item):
                messages.append(_decode_other(item))
    return messages + turn.end()


class _AssistantTurn:
    """Collects the items that make up one assistant message: reasoning, then text, then calls."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._reasoning: list[JsonObject] = []

    def add(self, item: JsonObject) -> bool:
        """Add the item if it belongs to this turn, and return whether it does."""
        match item:
            case {"type": "function_call"}:
                self._calls.append(_decode_call(item))
            case {"type": "reasoning"} if not self._message and not self._calls:
                self._reasoning.append(item)
            case {"role": "assistant"} if not self._message and not self._calls:
                self._message = _decode_message(item)
            case _:
                return False
        return True

    def end(self) -> list[JsonObject]:
        """Return the message, if the turn has any content."""
        fields = {
            "tool_calls": self._calls,
            "reasoning_content": "".join(convert_request(item, OutputItem).reasoning() for item in self._reasoning),
            REASONING_ITEMS: self._reasoning,
        }
        filled = {name: value for name, value in fields.items() if value}
        return [{"role": "assistant", "content": None} | self._message | filled] if self._message or filled else []


def _encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    return [item for message in messages for item in _encode_message(message)]


def _encode_message(message: JsonObject) -> list[JsonObject]:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls") or ()
    if role == ITEM_ROLE and isinstance(content, list):
        return content
    if role == "tool":
        return [_encode_result(message)]
    spoken: list[JsonObject] = []
    if content or not (calls or message.get(REASONING_ITEMS)):
        text_type = "output_text" if role == "assistant" else "input_text"
        spoken = [{"role": role, "content": encode_content(content, text_type=text_type)} | _own_fields(message)]
    return [*(message.get(REASONING_ITEMS) or ()), *spoken, *(_encode_call(call) for call in calls)]


def _encode_call(call: JsonObject) -> JsonObject:
    read = convert_request(call, _ChatCall)
    arguments = read.function.arguments
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    item = {"type": "function_call", "call_id": read.id, "name": read.function.name, "arguments": text}
    return item | _own_fields(call)


def _encode_result(message: JsonObject) -> JsonObject:
    item = {"type": "function_call_output", "call_id": message.get("tool_call_id")}
    return item | {"output": encode_content(message.get("content"))} | _own_fields(message)


def _decode_other(item: JsonObject) -> JsonObject:
    """Decode an item that is not part of an assistant's turn."""
    match item.get("type", "message"):
        case "message":
            return _decode_message(item)
        case "function_call_output":
            return _decode_result(item)
    return {"role": ITEM_ROLE, "content": [item]}


def _decode_message(item: JsonObject) -> JsonObject:
    read = convert_request(item, _Message)
    return {"role": read.role, "content": decode_content(read.content)} | _own_fields(item)


def _decode_call(item: JsonObject) -> JsonObject:
    read = convert_request(item, _FunctionCall)
    function = {"name": read.name, "arguments": read.arguments}
    return {"id": read.call_id, "type": "function", "function": function} | _own_fields(item)


def _decode_result(item: JsonObject) -> JsonObject:
    read = convert_request(item, _FunctionCallOutput)
    message = {"role": "tool", "tool_call_id": read.call_id, "content": decode_content(read.output)}
    return message | _own_fields(item)


def _own_fields(carrier: JsonObject) -> JsonObject:
    """Return the fields that only this API has; they stay on the message in the OpenAI chat format."""
    return {name: carrier[name] for name in _OWN_FIELDS if carrier.get(name) is not None}


_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
_DEFAULTS = {"parameters": None, "strict": False}
"""The defaults of a function: unlike chat completions, this API treats an omitted `strict` as true."""


class _ChatTool(Struct):
    function: dict[str, Any]


class _FunctionTool(Struct):
    name: str


def encode_tool(tool: JsonObject) -> JsonObject:
    """Encode a function tool, with the fields beside its function. Other tools pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool, _ChatTool).function
    return _DEFAULTS | function | {name: value for name, value in tool.items() if name != "function"}


def decode_tool(tool: JsonObject) -> JsonObject:
    """Decode a function tool. Tools that run on the vendor's servers pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    convert_request(tool, _FunctionTool)
    fields = {"strict": None} | tool
    given = {name: value for name, value in fields.items() if name not in _DEFAULTS or value is not _DEFAULTS[name]}
    function = {name: value for name, value in given.items() if name in _FUNCTION_FIELDS}
    return {name: value for name, value in given.items() if name not in function} | {"function": function}


def encode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    match choice:
        case {"type": "function", "function": {"name": name}}:
            return {"type": "function", "name": name}
    return choice


def decode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    """Decode a choice to the OpenAI chat format; one that the format does not have passes through unchanged."""
    match choice:
        case {"type": "function", "name": name}:
            return {"type": "function", "function": {"name": name}}
    return choice


PATH = "/responses"


class _Body(Struct):
    input: str | list[dict[str, Any]]
    model: str
    instructions: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None


def encode_request(request: Request) -> WireRequest:
    instructions, items = encode_conversation(request.messages)
    fields: JsonObject = {
        "model": request.model,
        "instructions": instructions,
        "input": items,
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "tools": [encode_tool(tool) for tool in request.tools] or None,
        "tool_choice": encode_choice(request.tool_choice),
        "stream": True if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra))


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. References to server state, such as `previous_response_id`, stay in `extra`."""
    body = convert_request(wire.body, _Body)
    return Request(
        messages=tuple(decode_conversation(body.instructions, body.input)),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_output_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra=undeclared_fields(wire.body, _Body),
        stream=bool(body.stream),
    )
