"""Causes of findings: which findings are one defect, and after how many cases each was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.errors import InputError
from offbook.faults.site import MARK_LETTERS
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.explore.explorer import CaseResult

_PARTICULARS = re.compile(rf"\b(?:call \d+|HTTP \d+|\d+ times|(?:fault|injected)-[{MARK_LETTERS}]+)\b")


def cause_of(result: CaseResult) -> tuple[str, str]:
    """Return what the findings of one group have in common: their title and their cause.

    Errors that ended a run before it had changed anything have no cause of their own.
    """
    merely_ended = result.verdict == "crashed" and not result.run.effects
    return result.title, "" if merely_ended else evidence_cause(result)


def evidence_cause(result: CaseResult) -> str:
    """Return the first line of the evidence without what differs from case to case: numbers of calls, marks."""
    return _PARTICULARS.sub("…", first_line(result))


def first_line(result: CaseResult) -> str:
    """Return the first line of the evidence."""
    return next(iter(result.evidence), "").partition("\n")[0]


_CONFIDENCE = 0.95
_BARS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 12


class Discovery(Struct, frozen=True, omit_defaults=True):
    """After how many `cases`, in the order in which they were scheduled, each new cause of a finding was `found`.

    `stopped_after` is the number of cases without a new cause that ended the exploration; 0 if none did.
    """

    cases: int = 0
    found: tuple[int, ...] = ()
    stopped_after: int = 0

    @property
    def quiet(self) -> int:
        """The number of cases since the last new cause."""
        return self.cases - max(self.found, default=0)

    @property
    def bound(self) -> float:
        """The probability that a further case finds a new cause, at most, with a confidence of 95 %.

        It holds if further cases are like those since the last new cause.
        """
        return 1 - (1 - _CONFIDENCE) ** (1 / self.quiet) if self.quiet else 1.0

    def describe(self, *, left: int) -> Iterator[str]:
        """Yield lines about how the causes were found; with cases `left` to run, how likely another cause is."""
        if self.stopped_after:
            yield f"stopped: {pluralize(self.stopped_after, 'case')} in a row found no new cause (until_quiet)"
        if not self.found or len(self.found) == self.cases:
            return
        last = f"the last of {len(self.found)}" if len(self.found) > 1 else "the only one"
        line = f"causes found by case: 1 {self._curve} {self.cases:,}; {last} came with case {max(self.found):,}"
        more = f"; a further case finds a new one with at most {100 * self.bound:.2g} % (95 %)"
        yield line + (more if left and self.quiet else "")

    @property
    def _curve(self) -> str:
        """Return a bar for each part of the cases, as high as the number of causes that it found."""
        width = min(_CURVE_WIDTH, self.cases)
        counts = [0] * width
        for place in self.found:
            counts[(place - 1) * width // self.cases] += 1
        most = max(counts)
        return "".join(_BARS[count * (len(_BARS) - 1) // most] for count in counts)


def discovery_of(results: Iterable[CaseResult], dealt: Iterable[str], *, stopped_after: int = 0) -> Discovery:
    """Return how the causes of findings were found if the cases run as they were `dealt`, by their ids."""
    places = {case: place for place, case in enumerate(dealt)}
    known: set[tuple[str, str]] = set()
    found: list[int] = []
    cases = 0
    for cases, result in enumerate(sorted(results, key=lambda each: places.get(each.case.id, -1)), 1):
        if result.is_finding and (cause := cause_of(result)) not in known:
            known.add(cause)
            found.append(cases)
    return Discovery(cases, tuple(found), stopped_after)


class QuietRule:
    """Ends an exploration when a number of cases in a row, in the order of the schedule, found no new cause.

    Workers finish cases in any order. Results therefore wait for those that were scheduled before them, and those that
    come after the end are dropped: any number of workers gives the same report.

    Raises:
        InputError: the number is not positive.
    """

    def __init__(self, cases: int | None) -> None:
        if cases is not None and cases < 1:
            raise InputError(f"expected a number of cases, got {cases}", source="until_quiet", hint="like 200")
        self._cases, self._quiet = cases, 0
        self._known: set[tuple[str, str]] = set()

    @property
    def is_over(self) -> bool:
        """Whether enough cases in a row have found nothing new."""
        return self._cases is not None and self._quiet >= self._cases

    @property
    def stopped_after(self) -> int:
        return self._quiet if self.is_over else 0

    def add(self, result: CaseResult) -> None:
        """Count the next case of the schedule."""
        cause = cause_of(result) if result.is_finding else None
        self._quiet = 0 if cause is not None and cause not in self._known else self._quiet + 1
        if cause is not None:
            self._known.add(cause)

    def limit(self, order: Iterable[str], results: Iterator[CaseResult]) -> Iterator[CaseResult]:
        """Yield the results until the rule is met; `order` are the ids of their cases in the order of the schedule."""
        if self._cases is None:
            yield from results
            return
        waiting: dict[str, CaseResult] = {}
        ids = list(order)
        for result in results:
            waiting[result.case.id] = result
            while ids and ids[0] in waiting:
                following = waiting.pop(ids.pop(0))
                self.add(following)
                yield following
                if self.is_over:
                    return
        for each in filter(None, (waiting.get(each) for each in ids)):  # a deadline has left some out
            self.add(each)
            yield each
