"""Units: the messages of a transcript that stay or go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.agent.message import Message, MessageRole, MessageType

NUDGES = frozenset(
    {
        MessageType.RETRY_NUDGE,
        MessageType.STEP_NUDGE,
        MessageType.PREREQUISITE_NUDGE,
        MessageType.REPETITION_NUDGE,
    }
)


class Unit(Struct, frozen=True):
    """A call with its reasoning and its results, an answer with the nudge after it, or a message by itself.

    A pinned unit is a system prompt or the first user message, and is never dropped.
    """

    messages: tuple[Message, ...]
    is_pinned: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether it ends in nudges. A turn of which something is refused is refused as a whole."""
        return any(is_nudge(message) for message in self.messages)


def split_units(messages: Iterable[Message]) -> list[Unit]:
    """The transcript as units, in order; joined again they are the same messages. Takes linear time."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _belongs(message, groups[-1]):
            groups[-1].append(message)
        else:
            groups.append([message])
    first_user = next((group[0] for group in groups if _is_users(group[0])), None)
    return [Unit(tuple(group), _is_system(group[0]) or group[0] is first_user) for group in groups]


def join_units(units: Iterable[Unit]) -> list[Message]:
    """The messages of the units, in order."""
    return [message for unit in units for message in unit.messages]


def first_recent(units: Sequence[Unit], keep_recent: int) -> int:
    """Where the last `keep_recent` units begin; pinned ones are not counted."""
    loose = [place for place, unit in enumerate(units) if not unit.is_pinned]
    return loose[-keep_recent] if len(loose) >= keep_recent else 0


def is_nudge(message: Message) -> bool:
    return message.metadata.type in NUDGES


def _belongs(message: Message, group: Sequence[Message]) -> bool:
    """Whether the message goes with the group before it."""
    last = group[-1]
    if message.role == MessageRole.TOOL:
        return bool(last.tool_calls) or (last.role == MessageRole.TOOL and len(group) > 1)
    if message.role == MessageRole.ASSISTANT:
        return last.metadata.type == MessageType.REASONING
    return is_nudge(message) and (last.role == MessageRole.ASSISTANT or is_nudge(last))


def _is_system(message: Message) -> bool:
    return message.role == MessageRole.SYSTEM and not is_nudge(message)


def _is_users(message: Message) -> bool:
    return message.role == MessageRole.USER and not is_nudge(message) and message.metadata.type != MessageType.SUMMARY
