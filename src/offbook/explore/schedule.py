"""The order of cases, the budget with the cases that it leaves out, and the estimated remaining time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.explore.cases import CaseGroup, FaultCase
from offbook.explore.run import Run
from offbook.faults.fault import FaultFamily
from offbook.faults.http import HOPELESS_STATUSES, HttpError
from offbook.shard import Shard
from offbook.text import pluralize

_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNITS_S = (3600.0, 60.0, 1.0)
LONG_S = 5.0
"""The minimum duration of an exploration that is announced with an estimate."""


class CaseBudget(Struct, frozen=True):
    """The limit of cases, or of the time in which an exploration may start new ones. None is no limit."""

    cases: int | None = None
    time_s: float | None = None


NO_BUDGET: CaseBudget = CaseBudget()


def parse_budget(value: int | str | None, *, source: str = "budget") -> CaseBudget:
    """Return the budget that a number of cases (`2000`) or a time (`90s`, `5m`, `1h30m`) stands for.

    Raises:
        InputError: it is neither, or 0.
    """
    if value is None:
        return NO_BUDGET
    text = str(value).strip()
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return CaseBudget(cases=int(text))
    match = _TIME.fullmatch(text) if text else None
    parts = zip(match.groups(), _UNITS_S, strict=True) if match else ()
    time_s = sum(float(number) * unit_s for number, unit_s in parts if number)
    if not time_s:
        hint = "like 2000, or 90s, 5m, 1h30m"
        raise InputError(f"expected a number of cases or a time, got {text!r}", source=source, hint=hint)
    return CaseBudget(time_s=time_s)


def check_shard(budget: CaseBudget, shard: Shard | None, *, until_quiet: int | None = None) -> None:
    """Raise InputError if cases are left out by their time or their results: shards could not agree on which."""
    if shard is not None and budget.time_s is not None:
        hint = "use a number of cases, the same in every shard: --budget 2000"
        raise InputError("a budget of time cannot be split into shards", source="--budget", hint=hint)
    if shard is not None and until_quiet is not None:
        hint = "leave one of the two out"
        raise InputError("a shard does not know what the others find", source="until_quiet", hint=hint)


CLOSING_SHARE = 0.03
"""The share of a time budget for the work after the last case: its verdict, and reports."""


class BudgetDeadline:
    """The deadline of the last case: the end of the budget, minus the time reserved for closing.

    The time begins at `start_s` by the clock, now by default. If that is in the past, loading took the time since then;
    closing also takes time, and half as much is kept for it.
    """

    def __init__(self, time_s: float | None, clock: Clock = SYSTEM_CLOCK, *, start_s: float | None = None) -> None:
        self._clock = clock
        now_s = clock.monotonic_s()
        begin_s = now_s if start_s is None else start_s
        self._end_s = None if time_s is None else begin_s + time_s
        self._closing_s = max((now_s - begin_s) / 2, 0.0 if time_s is None else time_s * CLOSING_SHARE)

    def keep_for_closing(self, time_s: float) -> None:
        """Keep at least so much time for what comes after the last case."""
        self._closing_s = max(self._closing_s, time_s)

    @property
    def has_passed(self) -> bool:
        return not self.allows(0.0)

    def allows(self, expected_s: float) -> bool:
        """Return whether a case that takes so long would end in time, if it started now."""
        left_s = self.left_s
        return left_s is None or expected_s < left_s

    @property
    def left_s(self) -> float | None:
        """The remaining time for cases, or None without a deadline."""
        if self._end_s is None:
            return None
        return max(0.0, self._end_s - self._closing_s - self._clock.monotonic_s())


NO_DEADLINE: BudgetDeadline = BudgetDeadline(None)


def rows_near_effects(run: Run) -> frozenset[str]:
    """Return the rows of the calls just before and just after a side effect of a run, and of the tools that have one.

    If nothing is known about its tools, as in a recording, all of them may have one.
    """
    tools = {effect.tool for effect in run.effects}
    tools |= {tool for tool, declared in run.declarations.items() if declared.has_effect}
    if not run.declarations and not run.effects:
        tools = {each.tool for each in run.tools}
    observed = sum(effect.source == "observed" for effect in run.effects)
    near = {f"{each.tool} {each.call}" for each in run.tools if each.tool in tools}
    for place, call in enumerate(run.calls):
        following = run.calls[place + 1 : place + 2]
        later = following[0].effects_before if following else observed
        has_effect = call.effects_before is not None and later is not None and later > call.effects_before
        if has_effect or any(tool in tools for tool, _ in call.asks_for):
            near |= {call.row, *(each.row for each in following)}
    return frozenset(near)


class CaseSchedule(Struct, frozen=True):
    """Cases in the order in which they run.

    `first` is the most telling one of each family of faults, `next` one of each fault and one at each call, `others`
    are the rest.
    """

    first: tuple[FaultCase, ...]
    next: tuple[FaultCase, ...]
    others: tuple[FaultCase, ...]

    def within(self, cases: int | None) -> list[FaultCase]:
        """Return those that this number of cases allows."""
        return [*self.first, *self.next, *self.others][:cases]


def schedule(cases: Sequence[FaultCase], near: Collection[str]) -> CaseSchedule:
    """Return the cases, the most telling ones first; equally telling ones keep their order.

    Cases in the rows `near` effects come first, then tool faults, then lost or doubled answers; a lasting fault comes
    after the same fault that fires once. An error that no other try changes comes at the later of two calls near
    effects first: a run that starts over there does again what it has done. But each family of faults gets its most
    telling case before any other case runs, then each fault, as the heatmap names it, gets one, and then each call. Of
    the others, single faults, crashes and orders take turns.
    """
    ranked = sorted(cases, key=lambda case: (not case.is_in(near), *rank(case), -_calls_before(case, near)))
    first = _first_of_each(ranked, lambda case: [case.family], [])
    known = [*first, *_first_of_each(ranked, lambda case: case.columns, first)]
    known += _first_of_each(ranked, lambda case: case.rows, known)
    ids = {case.id for case in known}
    others = take_turns([case for case in ranked if case.id not in ids], lambda case: case.group)
    return CaseSchedule(tuple(first), tuple(known[len(first) :]), tuple(others))


def _first_of_each(
    cases: Iterable[FaultCase], names_of: Callable[[FaultCase], Iterable[str]], known: Iterable[FaultCase]
) -> list[FaultCase]:
    """Return the first case for each name that no `known` case has."""
    names = {name for case in known for name in names_of(case)}
    found = []
    for case in cases:
        if new := set(names_of(case)) - names:
            names |= new
            found.append(case)
    return found


def take_turns(cases: Iterable[FaultCase], group_of: Callable[[FaultCase], object]) -> list[FaultCase]:
    """Return the cases with the first one of each group before the second one of any, and so on."""
    counts = Counter[object]()
    turns: list[tuple[int, FaultCase]] = []
    for case in cases:
        turns.append((counts[group_of(case)], case))
        counts[group_of(case)] += 1
    return [case for _, case in sorted(turns, key=lambda each: each[0])]


def rank(case: FaultCase) -> tuple[bool, ...]:
    """Return the priority of a case by its faults alone, the most informative one first."""
    faults = [line.fault for line in case.lines]
    is_of_tool = any(fault.is_for_tools for fault in faults)
    loses_answer = any("loses_answer" in fault.traits for fault in faults)
    return not is_of_tool, case.lasts, not loses_answer


def _calls_before(case: FaultCase, near: Collection[str]) -> int:
    """Return the number of the call that no retry helps, if it is near an effect, or else 0."""
    line = case.lines[0]
    is_hopeless = isinstance(line.fault, HttpError) and line.fault.status_code in HOPELESS_STATUSES
    return (line.at.call or 0) if is_hopeless and case.is_in(near) else 0


T = TypeVar("T")


def in_case_order(items: Iterable[T], case_of: Callable[[T], FaultCase]) -> list[T]:
    """Return items in the order of their cases, in which they are reported."""
    return sorted(items, key=lambda item: (len(case_of(item).id), case_of(item).id))


class LeftOutFault(Struct, frozen=True):
    """The number of a fault's `cases` that a budget left out, and of those `tried`. A pair counts by
    its second fault.
    """

    family: FaultFamily
    fault: str
    cases: int
    tried: int


class LeftOutGroup(Struct, frozen=True):
    """The number of `cases` of a group (single faults, crashes, orders, pairs) that a budget left out, `of` a total.

    Only the pairs after executed single faults are known, and counted.
    """

    group: CaseGroup
    cases: int
    of: int


def left_out(cases: Iterable[FaultCase], tried: Iterable[FaultCase]) -> tuple[LeftOutFault, ...]:
    """Return what of the `cases` is not among those that were tried, by fault."""
    run = list(tried)
    ids = {case.id for case in run}
    counts = Counter(column for case in run for column in case.columns)
    missing = [case for case in cases if case.id not in ids]
    columns = Counter(case.columns[0] for case in missing)
    families = {case.columns[0]: case.family for case in missing}
    return tuple(LeftOutFault(families[each], each, count, counts[each]) for each, count in columns.items())


def left_out_groups(cases: Iterable[FaultCase], tried: Iterable[FaultCase]) -> tuple[LeftOutGroup, ...]:
    """Return how many of the `cases` were not tried, by group."""
    ids = {case.id for case in tried}
    known = list(cases)
    totals = Counter(case.group for case in known)
    missing = Counter(case.group for case in known if case.id not in ids)
    return tuple(LeftOutGroup(group, missing[group], total) for group, total in totals.items() if missing[group])


class Pace:
    """Measures cases, and estimates the real time of those to come.

    A case to come takes as long as the cases of its fault (as the heatmap names it) have taken on average; if there was
    none, as those of the same type, then of the same family, then all that have run. So faults that make a run wait
    count for what they cost, even if all of them come last. Before the first case, only the clean run is known. It also
    loads what the other runs find loaded, so they take at most as long.

    `cases` is the number of all cases, including those that have ended. It is a guess while it `has_guesses`.
    """

    def __init__(self) -> None:
        self.clean_s = 0.0
        self.cases = 0
        self.deadline = NO_DEADLINE
        self._workers = 1
        self._left: Counter[tuple[str, ...]] = Counter()
        self._pairs = 0
        self._held = set[tuple[str, ...]]()
        self._counts: Counter[str] = Counter()
        self._times_s: dict[str, float] = {}
        self._lock = Lock()  # a terminal is drawn from another thread

    def expect(self, cases: Iterable[FaultCase], workers: int, *, pairs: int = 0) -> None:
        """Set the expected work: these concurrent cases, then about `pairs` pairs."""
        with self._lock:
            self._workers, self._pairs = workers, pairs
            self._left.clear()
            for case in cases:
                self._left[names := tuple(_names(case))] += 1
                if any("holds_back" in line.fault.traits for line in case.lines):
                    self._held.add(names)

    def note(self, case: FaultCase, real_s: float | None) -> None:
        """Note an ended case and its duration, or None if it shares a run and took no time."""
        names = tuple(_names(case))
        with self._lock:
            self._left[names] -= 1
            for name in names if real_s is not None else ():
                self._counts[name] += 1
                self._times_s[name] = self._times_s.get(name, 0.0) + (real_s or 0.0)

    def expected_s(self, case: FaultCase) -> float:
        """Return the expected duration of a case."""
        with self._lock:
            return self._expected_s(_names(case))

    def estimate(self, cases: int, *, is_program: bool) -> str:
        """Return the expected duration of the cases, like `412 cases, at most about 40 s`, or "" if it is short.

        The real-time waits of a program are unknown.
        """
        if self.remaining_s < LONG_S:
            return ""
        waiting = self.waiting if is_program else 0
        waits = f", and what the program waits in {waiting:,} that hold an answer back" if waiting else ""
        count = f"{'about ' if self.has_guesses else ''}{pluralize(cases, 'case')}"
        left_s = self.deadline.left_s
        if left_s is not None and left_s < self._total_s:
            return f"{count}, the most telling ones first, for {describe_time(left_s)}"
        return f"{count}, at most about {describe_time(self.remaining_s)}{waits}"

    @property
    def has_guesses(self) -> bool:
        """Whether the number of pairs to come is only estimated."""
        return self._pairs > 0

    @property
    def waiting(self) -> int:
        """The number of cases to come that hold an answer back for an unknown time."""
        with self._lock:
            return sum(count for names, count in self._left.items() if names in self._held)

    @property
    def remaining_s(self) -> float:
        """The expected time of the cases to come, limited by the deadline."""
        left_s = self.deadline.left_s
        return self._total_s if left_s is None else min(self._total_s, left_s)

    @property
    def _total_s(self) -> float:
        with self._lock:
            total_s = sum(count * self._expected_s(names) for names, count in self._left.items() if count > 0)
            return (total_s + self._pairs * self._expected_s(("pairs", "all"))) / self._workers

    def _expected_s(self, names: Iterable[str]) -> float:
        measured = next((name for name in names if self._counts[name]), None)
        return self.clean_s if measured is None else self._times_s[measured] / self._counts[measured]


def _names(case: FaultCase) -> Iterator[str]:
    """Yield the classes of a case, the closest one first."""
    yield f"fault {case.columns[0]}"
    yield f"type {case.lines[-1].fault.type}"
    yield f"family {case.family}"
    yield case.group
    yield "all"


def describe_time(time_s: float) -> str:
    """Return an approximate time: `less than a second`, `40 s`, `3 min`, `1 h 20 min`."""
    if time_s < 1:
        return "less than a second"
    if time_s < 10:
        return f"{time_s:.0f} s"
    if time_s < 90:
        return f"{5 * round(time_s / 5)} s"
    minutes = round(time_s / 60)
    hours, rest = divmod(minutes if minutes < 60 else 5 * round(minutes / 5), 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest else [])])
