"""What a transcript is made of: messages, and what kind each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, field

from offbook.messages import JsonObject, ToolCall


class MessageRole(StrEnum):
    """Who speaks. It is shown as the text that it is."""

    __repr__ = str.__repr__

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MessageType(StrEnum):
    """Why a message is there. It is shown as the text that it is."""

    __repr__ = str.__repr__

    SYSTEM_PROMPT = "system_prompt"
    USER_INPUT = "user_input"
    REASONING = "reasoning"
    TEXT_RESPONSE = "text_response"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RETRY_NUDGE = "retry_nudge"
    STEP_NUDGE = "step_nudge"
    PREREQUISITE_NUDGE = "prerequisite_nudge"
    REPETITION_NUDGE = "repetition_nudge"
    SUMMARY = "summary"


class MessageMeta(Struct, frozen=True, gc=False):
    """What the loop knows about a message. `step_index` is the iteration that it came from, None before the first."""

    type: MessageType
    step_index: int | None = None


class ToolCallInfo(Struct, frozen=True, gc=False):
    """A tool call as a transcript keeps it. `args` is a text where the model wrote no JSON object."""

    name: str
    args: JsonObject | str = field(default_factory=dict)
    call_id: str = ""

    @classmethod
    def of(cls, call: ToolCall) -> ToolCallInfo:
        return cls(call.tool, call.args if call.raw_arguments is None else call.raw_arguments, call.id or "")


class Message(Struct, frozen=True, gc=False):
    """One message of a transcript. `tool_name` and `tool_call_id` say which call a tool message answers."""

    role: str
    content: str
    metadata: MessageMeta
    tool_calls: Sequence[ToolCallInfo] = ()
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_dict(self, *, reasoning: str = "") -> JsonObject:
        """This message as clients get it: the OpenAI chat shape, with arguments as objects.

        `reasoning` is what the model thought before a tool call; it takes the place of text that is not there.
        """
        message: JsonObject = {"role": str.__str__(self.role), "content": self.content or reasoning}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.args}}
                for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        if self.tool_name is not None:
            message["name"] = self.tool_name
        return message
