"""Messages in the OpenAI chat shape, checked, for codecs that have to take them apart."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from offbook.codecs.parsing import convert_request
from offbook.messages import JsonObject, ToolCall

RAW_ARGUMENTS = "raw_arguments"
"""Where a protocol that carries arguments as an object keeps a text that is none."""


class ChatFunction(Struct):
    name: str = ""
    arguments: str | dict[str, Any] | None = None


class GoogleContent(Struct):
    thought_signature: str | None = None


class ExtraContent(Struct):
    google: GoogleContent | None = None


class ChatToolCall(Struct):
    """A tool call of an assistant message. `extra_content` is where Google's OpenAI-shaped API keeps its signatures."""

    function: ChatFunction
    id: str | None = None
    extra_content: ExtraContent | None = None

    def to_tool_call(self) -> ToolCall:
        arguments = self.function.arguments
        if isinstance(arguments, dict):
            return ToolCall(self.function.name, arguments, self.id)
        return ToolCall.parse(self.function.name, arguments or "", id=self.id)


class ChatMessage(Struct):
    """One message of a request."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None


def read_messages(messages: Sequence[JsonObject]) -> list[ChatMessage]:
    """The messages of a request as declared shapes.

    Raises:
        RequestError: a message is not in the OpenAI chat shape.
    """
    return convert_request(messages, list[ChatMessage])


def arguments_object(call: ToolCall) -> JsonObject:
    """The arguments as an object; a text that is no JSON object is kept under `raw_arguments`."""
    return call.args if call.raw_arguments is None else {RAW_ARGUMENTS: call.raw_arguments}
