"""The messages of a transcript, and the transcript that a run appends them to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, TypeAlias, overload

from msgspec import Struct, field

from offbook.messages import JsonObject, ToolCall


class MessageRole(StrEnum):
    """The role of a message. Its repr is that of a plain string."""

    __repr__ = str.__repr__

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MessageType(StrEnum):
    """The purpose of a message. Its repr is that of a plain string."""

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
    CONTEXT_WARNING = "context_warning"
    SUMMARY = "summary"


class MessageMeta(Struct, frozen=True, gc=False):
    """The purpose of a message and the iteration that added it; `step_index` is None before the first iteration."""

    type: MessageType
    step_index: int | None = None


class ToolCallInfo(Struct, frozen=True, gc=False):
    """A tool call in a transcript. `args` is a string if the model did not write a JSON object."""

    name: str
    args: JsonObject | str = field(default_factory=dict)
    call_id: str = ""

    @classmethod
    def of(cls, call: ToolCall) -> ToolCallInfo:
        return cls(call.tool, call.args if call.raw_arguments is None else call.raw_arguments, call.id or "")


class Message(Struct, frozen=True, gc=False):
    """One message of a transcript. `tool_name` and `tool_call_id` identify the call that a tool message answers."""

    role: str
    content: str
    metadata: MessageMeta
    tool_calls: Sequence[ToolCallInfo] = ()
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_dict(self, *, reasoning: str = "") -> JsonObject:
        """Return the message in the OpenAI chat format, with arguments as objects.

        `reasoning` is the model's reasoning before a tool call; it is used as the content if there is no text.
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


def opening_messages(system_prompt: str, user_message: str) -> list[Message]:
    """Return the first messages of a transcript: the system prompt, unless it is empty, and the user's message."""
    user = Message(MessageRole.USER, user_message, MessageMeta(MessageType.USER_INPUT))
    if not system_prompt:
        return [user]
    return [Message(MessageRole.SYSTEM, system_prompt, MessageMeta(MessageType.SYSTEM_PROMPT)), user]


ReasoningReplay: TypeAlias = Literal["all", "last", "none"]
"""The reasoning that a model gets again: all of it, that of the last call, or none."""


class Transcript(Sequence[Message]):
    """Messages in order, append-only. Adding a message and taking a snapshot take constant time.

    Args:
        on_message: called with every message that `add` adds.
        initial: the first messages; `on_message` is not called with them.
    """

    def __init__(self, on_message: Callable[[Message], object], initial: Iterable[Message] = ()) -> None:
        self._on_message = on_message
        self._messages: list[Message] = []
        self._sent: list[JsonObject] = []
        self._reasoned: list[int] = []
        self._reasoning = ""
        for message in initial:
            self._append(message)

    def add(self, message: Message) -> None:
        self._append(message)
        self._on_message(message)

    def with_messages(self, messages: Iterable[Message]) -> Transcript:
        """Return a transcript that continues from other messages, as after a compaction."""
        return Transcript(self._on_message, messages)

    def snapshot(self, reasoning: ReasoningReplay = "all") -> Snapshot:
        """Return the messages so far as clients get them: reasoning is part of the tool call that follows it.

        Leaving out some of it takes time in proportion to the messages.
        """
        dropped = {"all": [], "last": self._reasoned[:-1], "none": self._reasoned}[reasoning]
        if not dropped:
            return Snapshot(self._sent, len(self._sent))
        sent = list(self._sent)
        for position in dropped:
            sent[position] = {**sent[position], "content": ""}
        return Snapshot(sent, len(sent))

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        if message.metadata.type is MessageType.REASONING:
            self._reasoning = message.content
            return
        if message.tool_calls and self._reasoning and not message.content:
            self._reasoned.append(len(self._sent))
        self._sent.append(message.to_dict(reasoning=self._reasoning if message.tool_calls else ""))
        self._reasoning = ""

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]


class Snapshot(Sequence[JsonObject]):
    """A view of the first messages of an append-only list: equal to a copy, without copying."""

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[JsonObject], length: int) -> None:
        self._messages, self._length = messages, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[JsonObject]:
        return iter(self._messages[: self._length])

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> list[JsonObject]: ...
    def __getitem__(self, index: int | slice) -> JsonObject | list[JsonObject]:
        if isinstance(index, slice):
            return self._messages[: self._length][index]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(index)
        return self._messages[position]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
