"""Compaction strategies (none, sliding window, tiered), with the message units and summary they use."""

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

from offbook.agent.context.token_ledger import Size
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from offbook.errors import InputError


class CompactResult(Struct, frozen=True):
    """What became of a transcript. `phase` tells how far the strategy went; at 0 it left everything as it was."""

    messages: Sequence[Message]
    phase: int = 0


class CompactStrategy(ABC):
    """A way to make a transcript smaller. Strategies hold no state, and may be shared.

    `starts_at` is the share of the budget above which the strategy is asked at all.
    """

    starts_at: float = 1.0

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        """A smaller transcript, or the same if nothing can be done.

        Never raises, and never changes `messages`.

        Args:
            size: how many tokens a sequence of messages is.
            step_hint: which steps are done and which are not, for a summary to tell.
        """


class NoCompact(CompactStrategy):
    """Never touches anything."""

    starts_at = inf

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        return CompactResult(messages)


def checked_budget(budget_tokens: int) -> int:
    """The budget as it is, if it is a whole number above zero."""
    if type(budget_tokens) is not int or budget_tokens < 1:
        raise InputError(f"expected a whole number of tokens above zero, got {budget_tokens!r}", source="budget_tokens")
    return budget_tokens


def checked_keep_recent(keep_recent: int) -> int:
    """The number as it is, if it is one or more: the model must see what it has just been told."""
    if type(keep_recent) is not int or keep_recent < 1:
        raise InputError(f"expected a whole number of one or more, got {keep_recent!r}", source="keep_recent")
    return keep_recent


def checked_share(share: float, *, source: str) -> float:
    """The share of the budget as it is, if it is above zero and at most one."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of the budget, above 0 and up to 1, got {share!r}", source=source)
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


class SlidingWindowCompact(CompactStrategy):
    """Keeps system prompts, the first user message and the last units, once `threshold` of the budget is exceeded.

    Args:
        keep_recent: how many units are kept, one or more. A call and its results are one unit.
        threshold: a share of the budget.

    Raises:
        InputError: a number that makes no sense.
    """

    def __init__(self, keep_recent: int = 8, *, threshold: float = 0.75) -> None:
        self._keep_recent = checked_keep_recent(keep_recent)
        self.starts_at = checked_share(threshold, source="threshold")

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        if size(messages) <= self.starts_at * budget_tokens:
            return CompactResult(messages)
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        kept = [unit for unit in units[:recent] if unit.is_pinned] + units[recent:]
        return CompactResult(messages) if len(kept) == len(units) else CompactResult(join_units(kept), phase=1)


_SUMMARY_TEXT = re.compile(
    r"Earlier messages left out here to save space: (\d+)\. Tool calls in them: (\{.*\})\.(?:\n((?s:.*)))?"
)


class TranscriptSummary(Struct, frozen=True):
    """How many messages were left out, how often each tool answered in them, and what is done and what is not."""

    left_out: int
    calls: Mapping[str, int]
    step_hint: str = ""

    @classmethod
    def read(cls, message: Message) -> TranscriptSummary | None:
        """The summary that a message tells; None if it tells none, or one of another author."""
        told = _SUMMARY_TEXT.fullmatch(message.content) if message.metadata.type == MessageType.SUMMARY else None
        if told is None:
            return None
        left_out, calls, step_hint = told.groups(default="")
        return cls(int(left_out), json.loads(calls), step_hint)

    @classmethod
    def of(cls, dropped: Iterable[Message], *, step_hint: str) -> TranscriptSummary:
        """The summary of messages, among which there may be summaries; their hint holds if there is no newer one."""
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
        """The message for the model to read."""
        calls = json.dumps(self.calls)
        text = f"Earlier messages left out here to save space: {self.left_out}. Tool calls in them: {calls}."
        content = f"{text}\n{self.step_hint}" if self.step_hint else text
        return Message(MessageRole.USER, content, MessageMeta(MessageType.SUMMARY, step_index))


Phase: TypeAlias = Callable[[Sequence[Unit]], Sequence[Unit]]

HEAD_CHARS = 200
LONG_CHARS = 300
"""From where on a result is long: a head and the note about the rest are always shorter."""


class TieredCompact(CompactStrategy):
    """Makes old units smaller in three phases, each tried only if the size is still over its threshold.

    1. Drops nudges with what they answered.
    2. Also shortens long tool results, and drops reasoning.
    3. Also drops whole units, oldest first, until the size is no more than the first threshold, and
       puts one summary in their place.

    A phase that would not make the transcript smaller is passed over. System prompts, the first user
    message and the recent units stay as they are, even if that is more than the budget.

    Args:
        keep_recent: how many units at the end are left alone, one or more.
        phase_thresholds: three shares of the budget, none below the one before it.

    Raises:
        InputError: a number that makes no sense.
    """

    def __init__(self, keep_recent: int = 2, phase_thresholds: tuple[float, float, float] = (0.75, 0.85, 0.95)) -> None:
        self._keep_recent = checked_keep_recent(keep_recent)
        self._thresholds = _checked_thresholds(phase_thresholds)
        self.starts_at = self._thresholds[0]

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        tokens = size(messages)
        old, recent = self._parts(messages)

        def sized(units: Sequence[Unit]) -> int:
            return size([*join_units(units), *recent])

        def is_small(units: Sequence[Unit]) -> bool:
            return sized(units) <= self.starts_at * budget_tokens

        phases: tuple[Phase, ...] = (_drop_refused, _shorten_units, partial(_summarise, is_small, step_hint))
        reached = 0
        for phase, (threshold, compacted) in enumerate(zip(self._thresholds, phases, strict=True), start=1):
            if tokens <= threshold * budget_tokens:
                break
            smaller = compacted(old)
            if smaller != old and (smaller_tokens := sized(smaller)) < tokens:
                old, tokens, reached = smaller, smaller_tokens, phase
        return CompactResult([*join_units(old), *recent], reached) if reached else CompactResult(messages)

    def _parts(self, messages: Sequence[Message]) -> tuple[Sequence[Unit], Sequence[Message]]:
        """The old units, and the messages of the recent ones."""
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        return units[:recent], join_units(units[recent:])


def _checked_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(checked_share(share, source="phase_thresholds") for share in thresholds)
    if len(shares) != 3 or list(shares) != sorted(shares):
        raise InputError(f"expected three rising shares, got {thresholds!r}", source="phase_thresholds")
    return shares


def _drop_refused(old: Sequence[Unit]) -> list[Unit]:
    return [unit for unit in old if not unit.is_refused]


def _shorten_units(old: Sequence[Unit]) -> list[Unit]:
    shortened = (unit if unit.is_pinned else _shorten_unit(unit) for unit in old)
    return [unit for unit in shortened if unit.messages]


def _shorten_unit(unit: Unit) -> Unit:
    kept = (message for message in unit.messages if message.metadata.type != MessageType.REASONING)
    messages = tuple(_shorten_result(message) for message in kept)
    return unit if messages == unit.messages else Unit(messages)


def _shorten_result(message: Message) -> Message:
    length = len(message.content)
    if message.role != MessageRole.TOOL or length <= LONG_CHARS:
        return message
    note = f"[{length - HEAD_CHARS} of {length} characters left out to save space]"
    return replace(message, content=f"{message.content[:HEAD_CHARS]}… {note}")


def _summarise(is_small: Callable[[Sequence[Unit]], bool], step_hint: str, old: Sequence[Unit]) -> Sequence[Unit]:
    """The units after as many of the oldest were dropped as it takes, or all if that is still not enough."""
    summaries = {place for place, unit in enumerate(old) if TranscriptSummary.read(unit.messages[0]) is not None}
    loose = [place for place, unit in enumerate(old) if not unit.is_pinned and place not in summaries]
    if not loose:
        return old

    def without(count: int) -> list[Unit]:
        return _replace_by_summary(old, sorted({*summaries, *loose[:count]}), step_hint)

    fewer = range(1, len(loose))
    return without(1 + bisect_left(fewer, True, key=lambda count: is_small(without(count))))


def _replace_by_summary(units: Sequence[Unit], places: Sequence[int], step_hint: str) -> list[Unit]:
    """The units with one summary instead of those at the places."""
    dropped = join_units(units[place] for place in places)
    summary = TranscriptSummary.of(dropped, step_hint=step_hint).to_message(step_index=dropped[-1].metadata.step_index)
    gone = set(places)
    kept = [unit for place, unit in enumerate(units) if place not in gone]
    kept.insert(places[0], Unit((summary,)))
    return kept
