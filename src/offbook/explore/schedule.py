"""Which cases of an exploration run first, how many a budget allows, and what it leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.run import ModelCall, Run
from offbook.faults.fault import FaultFamily
from offbook.tools.effects import UNDECLARED

_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNITS_S = (3600.0, 60.0, 1.0)


class Budget(Struct, frozen=True):
    """How many cases may run, or how long an exploration may start new ones. None is no limit."""

    cases: int | None = None
    time_s: float | None = None


NO_BUDGET = Budget()


def parse_budget(value: int | str | None, *, source: str = "budget") -> Budget:
    """Return the budget that a number of cases (`2000`) or a time (`90s`, `5m`, `1h30m`) stands for.

    Raises:
        InputError: it is neither, or 0.
    """
    if value is None:
        return NO_BUDGET
    text = str(value).strip()
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return Budget(cases=int(text))
    match = _TIME.fullmatch(text) if text else None
    parts = zip(match.groups(), _UNITS_S, strict=True) if match else ()
    time_s = sum(float(number) * unit_s for number, unit_s in parts if number)
    if not time_s:
        hint = "like 2000, or 90s, 5m, 1h30m"
        raise InputError(f"expected a number of cases or a time, got {text!r}", source=source, hint=hint)
    return Budget(time_s=time_s)


class Deadline:
    """When no further case may start."""

    def __init__(self, time_s: float | None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._at_s = None if time_s is None else clock.monotonic_s() + time_s

    @property
    def has_passed(self) -> bool:
        return self._at_s is not None and self._clock.monotonic_s() >= self._at_s

    @property
    def left_s(self) -> float | None:
        """How long cases may still start; None without a deadline."""
        return None if self._at_s is None else max(0.0, self._at_s - self._clock.monotonic_s())


def rows_near_effects(run: Run) -> frozenset[str]:
    """Return the rows of the calls just before and just after a side effect of a run, and of the tools that have one.

    If nothing is known about its tools, as in a recording, all of them may have one.
    """
    tools = _tools_with_effects(run)
    near = {f"{each.tool} {each.call}" for each in run.tools if each.tool in tools}
    for place, call in enumerate(run.calls):
        following = run.calls[place + 1 : place + 2]
        if any(tool in tools for tool, _ in call.asks_for) or _effects_after(call, following, run):
            near |= {call.row, *(each.row for each in following)}
    return frozenset(near)


def _tools_with_effects(run: Run) -> Collection[str]:
    if not run.declarations and not run.effects:
        return {each.tool for each in run.tools}
    with_effects = {effect.tool for effect in run.effects}
    return with_effects | {tool for tool in run.declarations if run.declarations.get(tool, UNDECLARED).has_effect}


def _effects_after(call: ModelCall, following: Sequence[ModelCall], run: Run) -> bool:
    """Return whether an effect was observed between the answer to a call and that to the next one, or the end."""
    total = sum(effect.source == "observed" for effect in run.effects)
    later = following[0].effects_before if following else total
    return call.effects_before is not None and later is not None and later > call.effects_before


class Schedule(Struct, frozen=True):
    """Cases in the order in which they run: `first` the most telling one of each class, then the `others`."""

    first: tuple[FaultCase, ...]
    others: tuple[FaultCase, ...]

    def within(self, cases: int | None) -> Schedule:
        """Return the part that this number of cases allows."""
        if cases is None:
            return self
        return Schedule(self.first[:cases], self.others[: max(0, cases - len(self.first))])

    @property
    def all(self) -> list[FaultCase]:
        return [*self.first, *self.others]


def schedule(cases: Sequence[FaultCase], promise: Callable[[FaultCase], int]) -> Schedule:
    """Return the cases, the most telling ones first; of equally telling ones, in their order.

    Those of the largest `promise` come first (near effects, behind findings), then faults of tools, then answers that
    are lost or doubled; faults that last come behind their like. But each family of faults gets its most telling case
    before any other case runs, and then each fault, as the heatmap has it, before one of them gets its second.
    """
    ranked = sorted(cases, key=lambda case: (-promise(case), *_rank(case)))
    known = set[str]()
    first = [case for case in ranked if _has_new([case.family], known)]
    known = {column for case in first for column in case.columns}
    first += [case for case in ranked if _has_new(case.columns, known)]
    chosen = {case.id for case in first}
    return Schedule(tuple(first), tuple(case for case in ranked if case.id not in chosen))


def _rank(case: FaultCase) -> tuple[bool, ...]:
    faults = [line.fault for line in case.lines]
    is_of_tool = any(fault.is_for_tools for fault in faults)
    loses_answer = any("loses_answer" in fault.traits for fault in faults)
    return not is_of_tool, case.lasts, not loses_answer


def _has_new(names: Iterable[str], known: set[str]) -> bool:
    """Return whether one of the names is not known yet, and add them."""
    new = set(names) - known
    known |= new
    return bool(new)


def most_telling(cases: Sequence[FaultCase], budget: int | None, near: Collection[str] = ()) -> list[FaultCase]:
    """Return at most `budget` of the cases, in their order. `near` are the rows near effects."""
    return in_case_order(schedule(cases, lambda case: case.is_in(near)).within(budget).all, lambda case: case)


T = TypeVar("T")


def in_case_order(items: Iterable[T], case_of: Callable[[T], FaultCase]) -> list[T]:
    """Return items in the order of their cases, in which they are reported."""
    return sorted(items, key=lambda item: (len(case_of(item).id), case_of(item).id))


class LeftOut(Struct, frozen=True):
    """How many `cases` of a fault a budget has left out, and how many were `tried`. A pair counts by its second one."""

    family: FaultFamily
    fault: str
    cases: int
    tried: int


def left_out(cases: Iterable[FaultCase], tried: Iterable[FaultCase]) -> tuple[LeftOut, ...]:
    """Return what of the `cases` is not among those that were tried, by fault."""
    run = list(tried)
    ids = {case.id for case in run}
    counts = Counter(column for case in run for column in case.columns)
    missing = [case for case in cases if case.id not in ids]
    columns = Counter(case.columns[0] for case in missing)
    families = {case.columns[0]: case.family for case in missing}
    return tuple(LeftOut(families[each], each, count, counts[each]) for each, count in columns.items())
