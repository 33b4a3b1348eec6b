"""OpenAI responses: the conversation as items, where calls, results and reasoning stand beside the messages."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from offbook.codecs.openai_responses.content import decode_content, encode_content
from offbook.codecs.openai_responses.item import OutputItem
from offbook.codecs.parsing import convert_request
from offbook.messages import JsonObject

ITEM_ROLE = "item"
"""The role of a message whose content is one item that the OpenAI chat shape has no word for."""
REASONING_ITEMS = "reasoning_items"
"""Where an assistant message keeps the reasoning that belongs before it, as only this API can read it."""
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
    """The instructions, which are the text of a system message at the front, and all else as items.

    `reasoning_content` is left out: the API takes back none but its own reasoning items.
    """
    match messages:
        case [{"role": "system", "content": str(instructions)}, *rest]:
            return instructions, _encode_messages(rest)
    return None, _encode_messages(messages)


def decode_conversation(instructions: str | None, items: str | Iterable[JsonObject]) -> list[JsonObject]:
    """The messages in the OpenAI chat shape.

    Raises:
        RequestError: an item lacks what makes it one.
    """
    messages: list[JsonObject] = [] if instructions is None else [{"role": "system", "content": instructions}]
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    turn = _Turn()
    for item in items:
        if not turn.take(item):
            messages += turn.end()
            turn = _Turn()
            if not turn.take(item):
                messages.append(_decode_other(item))
    return messages + turn.end()


class _Turn:
    """Gathers the items that one assistant message stands for: reasoning, then what is said, then calls."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._reasoning: list[JsonObject] = []

    def take(self, item: JsonObject) -> bool:
        """Add the item, if it belongs to this turn."""
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
        """The message, if the turn has anything to say."""
        told = {
            "tool_calls": self._calls,
            "reasoning_content": "".join(convert_request(item, OutputItem).thought() for item in self._reasoning),
            REASONING_ITEMS: self._reasoning,
        }
        filled = {name: value for name, value in told.items() if value}
        return [{"role": "assistant", "content": None} | self._message | filled] if self._message or filled else []


def _encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    return [item for message in messages for item in _encode_message(message)]


def _encode_message(message: JsonObject) -> list[JsonObject]:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls") or ()
    if role == ITEM_ROLE and isinstance(content, list):
        return content
    if role == "tool":
        return [_encode_result(message)]
    said: list[JsonObject] = []
    if content or not (calls or message.get(REASONING_ITEMS)):
        text_type = "output_text" if role == "assistant" else "input_text"
        said = [{"role": role, "content": encode_content(content, text_type=text_type)} | _own_fields(message)]
    return [*(message.get(REASONING_ITEMS) or ()), *said, *(_encode_call(call) for call in calls)]


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
    """An item that is no part of an assistant's turn."""
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
    """What only this API knows of a message, call or result; it travels on the message in the OpenAI chat shape."""
    return {name: carrier[name] for name in _OWN_FIELDS if carrier.get(name) is not None}
