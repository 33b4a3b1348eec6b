"""The compaction strategies (none, sliding window, tiered), and the message units and summaries they use."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from offbook.errors import InputError

Size: TypeAlias = Callable[[Sequence[Message]], int]


class CompactResult(Struct, frozen=True):
    """The result of a compaction. `phase` is the last phase that had an effect; 0 if nothing changed."""

    messages: Sequence[Message]
    phase: int = 0


class CompactStrategy(ABC):
    """A way to make a transcript smaller. Strategies have no state and can be shared.

    `starts_at` is the share of the budget above which `compact` is called.
    """

    starts_at: float = 1.0

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        """Return a smaller transcript, or the same one if nothing can be dropped.

        Never raises, and never changes `messages`.

        Args:
            size: returns the tokens of a sequence of messages.
            step_hint: which steps have been done, for a summary.
        """


class NoCompact(CompactStrategy):
    """Never compacts."""

    starts_at = inf

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        return CompactResult(messages)


def checked_count(count: int, *, source: str) -> int:
    """Return the number. Raises InputError if it is not a positive integer."""
    if type(count) is not int or count < 1:
        raise InputError(f"expected a positive integer, got {count!r}", source=source)
    return count


def checked_share(share: float, *, source: str) -> float:
    """Return the share of the budget. Raises InputError if it is not above 0 and at most 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of the budget, above 0 and at most 1, got {share!r}", source=source)
    return share


NUDGES = frozenset(
    {
        MessageType.RETRY_NUDGE,
        MessageType.STEP_NUDGE,
        MessageType.PREREQUISITE_NUDGE,
        MessageType.REPETITION_NUDGE,
    }
)


class Unit(Struct, frozen=True):
    """A call with its reasoning and results, an answer with the nudge after it, or a single message.

    A pinned unit is a system prompt or the first user message, and is never dropped.
    """

    messages: tuple[Message, ...]
    is_pinned: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether it has nudges: a turn with a refused call is refused as a whole."""
        return any(is_nudge(message) for message in self.messages)

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning about the size of an earlier transcript."""
        return self.messages[0].metadata.type == MessageType.CONTEXT_WARNING


def split_units(messages: Iterable[Message]) -> list[Unit]:
    """Split a transcript into units, in order; `join_units` is the inverse. Takes linear time."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _belongs(message, groups[-1]):
            groups[-1].append(message)
        else:
            groups.append([message])
    first_user = next((group[0] for group in groups if _is_users(group[0])), None)
    return [Unit(tuple(group), _is_system(group[0]) or group[0] is first_user) for group in groups]


def join_units(units: Iterable[Unit]) -> list[Message]:
    """Return the messages of the units, in order."""
    return [message for unit in units for message in unit.messages]


def first_recent(units: Sequence[Unit], keep_recent: int) -> int:
    """Return the position of the first of the last `keep_recent` units; pinned ones and warnings are not counted."""
    loose = [position for position, unit in enumerate(units) if not unit.is_pinned and not unit.is_warning]
    return loose[-keep_recent] if len(loose) >= keep_recent else 0


def is_nudge(message: Message) -> bool:
    return message.metadata.type in NUDGES


def _belongs(message: Message, group: Sequence[Message]) -> bool:
    """Whether the message belongs to the group before it."""
    last = group[-1]
    if message.role == MessageRole.TOOL:
        return bool(last.tool_calls) or (last.role == MessageRole.TOOL and len(group) > 1)
    if message.role == MessageRole.ASSISTANT:
        return last.metadata.type == MessageType.REASONING
    return is_nudge(message) and (last.role == MessageRole.ASSISTANT or is_nudge(last))


def _is_system(message: Message) -> bool:
    return message.role == MessageRole.SYSTEM and not is_nudge(message)


def _is_users(message: Message) -> bool:
    return message.role == MessageRole.USER and not is_nudge(message) and message.metadata.type not in _NOTES


_NOTES = (MessageType.SUMMARY, MessageType.CONTEXT_WARNING)


class SlidingWindowCompact(CompactStrategy):
    """Keeps system prompts, the first user message and the last units, once `threshold` of the budget is exceeded.

    Args:
        keep_recent: how many units are kept, at least 1. A call and its results are one unit.
        threshold: a share of the budget.

    Raises:
        InputError: a number is out of range.
    """

    def __init__(self, keep_recent: int = 8, *, threshold: float = 0.75) -> None:
        self._keep_recent = checked_count(keep_recent, source="keep_recent")
        self.starts_at = checked_share(threshold, source="threshold")

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        if size(messages) <= self.starts_at * budget_tokens:
            return CompactResult(messages)
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        window = [unit for unit in units[:recent] if unit.is_pinned] + units[recent:]
        return CompactResult(messages) if len(window) == len(units) else CompactResult(join_units(window), phase=1)


_SUMMARY_TEXT = re.compile(
    r"Earlier messages left out here to save space: (\d+)\. Tool calls in them: (\{.*\})\.(?:\n((?s:.*)))?"
)


class TranscriptSummary(Struct, frozen=True):
    """The number of dropped messages, the number of calls of each tool in them, and the steps that have been done."""

    left_out: int
    calls: Mapping[str, int]
    step_hint: str = ""

    @classmethod
    def read(cls, message: Message) -> TranscriptSummary | None:
        """Parse the summary in a message; None if it has none, or one that another program wrote."""
        match = _SUMMARY_TEXT.fullmatch(message.content) if message.metadata.type == MessageType.SUMMARY else None
        if match is None:
            return None
        left_out, calls, step_hint = match.groups(default="")
        return cls(int(left_out), json.loads(calls), step_hint)

    @classmethod
    def of(cls, dropped: Iterable[Message], *, step_hint: str) -> TranscriptSummary:
        """Return the summary of messages, including earlier summaries; their hint is used if `step_hint` is empty."""
        left_out, calls, older_hint = 0, Counter[str](), ""
        for message in dropped:
            older = cls.read(message)
            if older is not None:
                left_out, older_hint = left_out + older.left_out, older.step_hint
                calls.update(older.calls)
                continue
            left_out += 1
            if message.metadata.type == MessageType.TOOL_RESULT and message.tool_name is not None:
                calls[message.tool_name] += 1
        return cls(left_out, calls, step_hint or older_hint)

    def to_message(self, *, step_index: int | None) -> Message:
        """Return the message to the model."""
        calls = json.dumps(self.calls)
        text = f"Earlier messages left out here to save space: {self.left_out}. Tool calls in them: {calls}."
        content = f"{text}\n{self.step_hint}" if self.step_hint else text
        return Message(MessageRole.USER, content, MessageMeta(MessageType.SUMMARY, step_index))


Phase: TypeAlias = Callable[[Sequence[Unit]], Sequence[Unit]]

HEAD_CHARS = 200
LONG_CHARS = 300
"""Results above this length are shortened: the first `HEAD_CHARS` and the note about the rest are always shorter."""


class TieredCompact(CompactStrategy):
    """Compacts old units in three phases; each runs only while the size exceeds its threshold.

    1. Drop nudges and the turns that they answered, and warnings about the size.
    2. Also shorten long tool results, and drop reasoning.
    3. Also drop whole units, oldest first, until the size is at most the first threshold, and put one
       summary in their place.

    A phase that would not make the transcript smaller is skipped. System prompts, the first user message and
    the recent units are never changed, even if they exceed the budget.

    Args:
        keep_recent: how many units at the end are never changed, at least 1.
        phase_thresholds: three shares of the budget, in ascending order.

    Raises:
        InputError: a number is out of range.
    """

    def __init__(self, keep_recent: int = 2, phase_thresholds: tuple[float, float, float] = (0.75, 0.85, 0.95)) -> None:
        self._keep_recent = checked_count(keep_recent, source="keep_recent")
        shares = tuple(checked_share(share, source="phase_thresholds") for share in phase_thresholds)
        if len(shares) != 3 or list(shares) != sorted(shares):
            raise InputError(
                f"expected three shares in ascending order, got {phase_thresholds!r}", source="phase_thresholds"
            )
        self._thresholds = shares
        self.starts_at = self._thresholds[0]

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        tokens = size(messages)
        old, recent = self._split(messages)

        def size_of(units: Sequence[Unit]) -> int:
            return size([*join_units(units), *recent])

        def is_small(units: Sequence[Unit]) -> bool:
            return size_of(units) <= self.starts_at * budget_tokens

        phases: tuple[Phase, ...] = (_drop_refused, _shorten_units, partial(_summarise, is_small, step_hint))
        reached = 0
        for phase, (threshold, compact_units) in enumerate(zip(self._thresholds, phases, strict=True), start=1):
            if tokens <= threshold * budget_tokens:
                break
            smaller = compact_units(old)
            if smaller != old and (smaller_tokens := size_of(smaller)) < tokens:
                old, tokens, reached = smaller, smaller_tokens, phase
        return CompactResult([*join_units(old), *recent], reached) if reached else CompactResult(messages)

    def _split(self, messages: Sequence[Message]) -> tuple[Sequence[Unit], Sequence[Message]]:
        """Return the old units, and the messages of the recent ones."""
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        return units[:recent], join_units(units[recent:])


def _drop_refused(old: Sequence[Unit]) -> list[Unit]:
    return [unit for unit in old if not unit.is_refused and not unit.is_warning]


def _shorten_units(old: Sequence[Unit]) -> list[Unit]:
    shortened = (unit if unit.is_pinned else _shorten_unit(unit) for unit in old)
    return [unit for unit in shortened if unit.messages]


def _shorten_unit(unit: Unit) -> Unit:
    without_reasoning = (message for message in unit.messages if message.metadata.type != MessageType.REASONING)
    messages = tuple(_shorten_result(message) for message in without_reasoning)
    return unit if messages == unit.messages else Unit(messages)


def _shorten_result(message: Message) -> Message:
    length = len(message.content)
    if message.role != MessageRole.TOOL or length <= LONG_CHARS:
        return message
    note = f"[{length - HEAD_CHARS} of {length} characters left out to save space]"
    return replace(message, content=f"{message.content[:HEAD_CHARS]}… {note}")


def _summarise(is_small: Callable[[Sequence[Unit]], bool], step_hint: str, old: Sequence[Unit]) -> Sequence[Unit]:
    """Drop as few of the oldest units as it takes to make the transcript small, or all if that is not enough."""
    summaries = {position for position, unit in enumerate(old) if TranscriptSummary.read(unit.messages[0]) is not None}
    loose = [position for position, unit in enumerate(old) if not unit.is_pinned and position not in summaries]
    if not loose:
        return old

    def without(count: int) -> list[Unit]:
        return _replace_by_summary(old, sorted({*summaries, *loose[:count]}), step_hint)

    fewer = range(1, len(loose))
    return without(1 + bisect_left(fewer, True, key=lambda count: is_small(without(count))))


def _replace_by_summary(units: Sequence[Unit], positions: Sequence[int], step_hint: str) -> list[Unit]:
    """Return the units with one summary in place of those at the positions."""
    dropped = join_units(units[position] for position in positions)
    summary = TranscriptSummary.of(dropped, step_hint=step_hint).to_message(step_index=dropped[-1].metadata.step_index)
    dropped_positions = set(positions)
    remaining = [unit for position, unit in enumerate(units) if position not in dropped_positions]
    remaining.insert(positions[0], Unit((summary,)))
    return remaining
