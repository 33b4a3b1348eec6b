"""The messages of a transcript, and the transcript that a run appends them to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import overload

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


class Transcript(Sequence[Message]):
    """Messages in order, append-only. Adding one and taking a snapshot cost the same however long it is.

    Args:
        on_message: told of every message that `add` adds.
        seed: what was said before; nobody is told of it.
    """

    def __init__(self, on_message: Callable[[Message], object], seed: Iterable[Message] = ()) -> None:
        self._on_message = on_message
        self._messages: list[Message] = []
        self._wire: list[JsonObject] = []
        self._thought = ""
        for message in seed:
            self._append(message)

    def add(self, message: Message) -> None:
        self._append(message)
        self._on_message(message)

    def cut_to(self, messages: Iterable[Message]) -> Transcript:
        """A transcript that goes on with other messages than those so far, as after a compaction."""
        return Transcript(self._on_message, messages)

    def snapshot(self) -> Snapshot:
        """The messages so far as clients get them: reasoning is folded into the tool call that it led to."""
        return Snapshot(self._wire, len(self._wire))

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        if message.metadata.type is MessageType.REASONING:
            self._thought = message.content
            return
        self._wire.append(message.to_dict(reasoning=self._thought if message.tool_calls else ""))
        self._thought = ""

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
    """The first messages of a list that only grows at its end: a copy that copies nothing."""

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
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(index)
        return self._messages[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
