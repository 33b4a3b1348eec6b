"""How long the rest of an exploration will take, by the time that cases of each fault have taken so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock

from offbook.explore.cases import FaultCase
from offbook.explore.schedule import Deadline
from offbook.text import pluralize

LONG_S = 5.0
"""How long an exploration is that is announced with an estimate."""


class Pace:
    """Measures cases, and estimates the real time of those to come.

    A case to come takes as long as the cases of its fault have taken on average, as the heatmap has it; if there was
    none, as those of the same type, then of the same family. If nothing like it has run, it takes as long as the clean
    run. So faults that make a run wait count for what they cost, even if all of them come last.
    """

    def __init__(self) -> None:
        self.clean_s = 0.0
        self.deadline = Deadline(None)
        self._workers = 1
        self._left: Counter[tuple[str, ...]] = Counter()
        self._held = set[tuple[str, ...]]()
        self._counts: Counter[str] = Counter()
        self._times_s: dict[str, float] = {}
        self._lock = Lock()  # a terminal is drawn from another thread

    def expect(self, cases: Iterable[FaultCase], workers: int) -> None:
        """Note that these cases are to come, so many at once."""
        with self._lock:
            self._workers = workers
            for case in cases:
                self._left[names := tuple(_names(case))] += 1
                if any("holds_back" in line.fault.traits for line in case.lines):
                    self._held.add(names)

    def note(self, case: FaultCase, real_s: float | None) -> None:
        """Note that a case has ended, and how long it took; None if it shares a run and took no time."""
        names = tuple(_names(case))
        with self._lock:
            self._left[names] -= 1
            for name in names if real_s is not None else ():
                self._counts[name] += 1
                self._times_s[name] = self._times_s.get(name, 0.0) + (real_s or 0.0)

    def estimate(self, cases: int, *, is_program: bool) -> str:
        """Return how long so many cases will take, like `412 cases, about 40 s`; empty if that is not long.

        A program waits in real time, for as long as it likes.
        """
        waiting = self.waiting if is_program else 0
        waits = f", and what the program waits in {waiting:,} that hold an answer back" if waiting else ""
        is_long = self.remaining_s >= LONG_S
        return f"{pluralize(cases, 'case')}, about {describe_time(self.remaining_s)}{waits}" if is_long else ""

    @property
    def waiting(self) -> int:
        """How many of the cases to come hold an answer back: what their callers wait is not known before."""
        with self._lock:
            return sum(count for names, count in self._left.items() if names in self._held)

    @property
    def remaining_s(self) -> float:
        """How long the cases to come will take, at most as long as cases may still start."""
        with self._lock:
            total_s = sum(count * self._expected_s(names) for names, count in self._left.items() if count > 0)
        estimate_s, left_s = total_s / self._workers, self.deadline.left_s
        return estimate_s if left_s is None else min(estimate_s, left_s)

    def _expected_s(self, names: Iterable[str]) -> float:
        measured = next((name for name in names if self._counts[name]), None)
        return self.clean_s if measured is None else self._times_s[measured] / self._counts[measured]


def _names(case: FaultCase) -> Iterator[str]:
    """Yield the classes of a case, the closest one first."""
    yield f"fault {case.columns[0]}"
    yield f"type {case.lines[-1].fault.type}"
    yield f"family {case.family}"


def describe_time(time_s: float) -> str:
    """Return about how long that is: `less than a second`, `40 s`, `3 min`, `1 h 20 min`."""
    if time_s < 1:
        return "less than a second"
    if time_s < 10:
        return f"{time_s:.0f} s"
    if time_s < 90:
        return f"{5 * round(time_s / 5)} s"
    minutes = round(time_s / 60)
    hours, rest = divmod(minutes if minutes < 60 else 5 * round(minutes / 5), 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest else [])])
