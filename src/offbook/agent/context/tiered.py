"""The strategy that gives up the least first: nudges, then the length of results, then whole units."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from offbook.agent.context.limits import checked_keep_recent, checked_share
from offbook.agent.context.size import Size
from offbook.agent.context.strategy import CompactResult, CompactStrategy
from offbook.agent.context.summary import Summary
from offbook.agent.context.units import Unit, first_recent, join_units, split_units
from offbook.agent.message import Message, MessageRole, MessageType
from offbook.errors import InputError

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

        phases: tuple[Phase, ...] = (_without_refused, _shortened, partial(_summarised, is_small, step_hint))
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


def _without_refused(old: Sequence[Unit]) -> list[Unit]:
    return [unit for unit in old if not unit.is_refused]


def _shortened(old: Sequence[Unit]) -> list[Unit]:
    shortened = (unit if unit.is_pinned else _shortened_unit(unit) for unit in old)
    return [unit for unit in shortened if unit.messages]


def _shortened_unit(unit: Unit) -> Unit:
    kept = (message for message in unit.messages if message.metadata.type != MessageType.REASONING)
    messages = tuple(_shortened_result(message) for message in kept)
    return unit if messages == unit.messages else Unit(messages)


def _shortened_result(message: Message) -> Message:
    length = len(message.content)
    if message.role != MessageRole.TOOL or length <= LONG_CHARS:
        return message
    note = f"[{length - HEAD_CHARS} of {length} characters left out to save space]"
    return replace(message, content=f"{message.content[:HEAD_CHARS]}… {note}")


def _summarised(is_small: Callable[[Sequence[Unit]], bool], step_hint: str, old: Sequence[Unit]) -> Sequence[Unit]:
    """The units after as many of the oldest were dropped as it takes, or all if that is still not enough."""
    summaries = {place for place, unit in enumerate(old) if Summary.read(unit.messages[0]) is not None}
    loose = [place for place, unit in enumerate(old) if not unit.is_pinned and place not in summaries]
    if not loose:
        return old

    def without(count: int) -> list[Unit]:
        return _replaced(old, sorted({*summaries, *loose[:count]}), step_hint)

    fewer = range(1, len(loose))
    return without(1 + bisect_left(fewer, True, key=lambda count: is_small(without(count))))


def _replaced(units: Sequence[Unit], places: Sequence[int], step_hint: str) -> list[Unit]:
    """The units with one summary instead of those at the places."""
    dropped = join_units(units[place] for place in places)
    summary = Summary.of(dropped, step_hint=step_hint).to_message(step_index=dropped[-1].metadata.step_index)
    gone = set(places)
    kept = [unit for place, unit in enumerate(units) if place not in gone]
    kept.insert(places[0], Unit((summary,)))
    return kept
