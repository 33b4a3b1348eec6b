"""The conversation of one run, as it is kept and as clients get it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from offbook.agent.message import Message, MessageType
from offbook.messages import JsonObject


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
