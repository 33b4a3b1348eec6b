"""Ollama: the messages of a conversation."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.call_ids import CallIds
from offbook.codecs.chat_message import ChatMessage, ChatToolCall, arguments_object
from offbook.codecs.ollama.content import decode_content, encode_content
from offbook.codecs.parsing import without_none
from offbook.messages import JsonObject, Message, ToolCall

_WIRE_ROLES = {"developer": "system"}


class WireMessage(Struct):
    role: str = "assistant"
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def encode_messages(messages: Sequence[ChatMessage]) -> list[JsonObject]:
    """The conversation, each tool result with the name of the tool that was called.

    Raises:
        RequestError: a message holds what Ollama cannot take.
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


def decode_messages(messages: Iterable[WireMessage]) -> list[JsonObject]:
    """The conversation in the OpenAI chat shape; calls that have no id are numbered."""
    ids = CallIds()
    return [_decode_message(message, ids) for message in messages]


def _decode_message(message: WireMessage, ids: CallIds) -> JsonObject:
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
