"""What every report of an exploration is made from: the exploration, its grouped findings, its totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from offbook.explore.cases import FaultCase
from offbook.explore.compare import ExplorationComparison, VerdictChange, compare_explorations
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.verdict import Verdict
from offbook.text import pluralize

Reproduce = Callable[[FaultCase], str]
"""Returns the command that runs a case again."""


class ReportInput(Struct, frozen=True, kw_only=True):
    """An exploration, the commands that run its cases again, and its changes since an earlier one, if there is one.

    An interrupted exploration is not complete.
    """

    exploration: Exploration
    reproduce: Reproduce
    comparison: ExplorationComparison | None = None
    is_complete: bool = True


class ReportOptions(Struct, frozen=True):
    """The commands that run cases again, and an earlier exploration to compare with."""

    reproduce: Reproduce
    before: Exploration | None = None

    def report_input(self, exploration: Exploration, *, is_complete: bool = True) -> ReportInput:
        """Return the input for a report of an exploration."""
        return ReportInput(
            exploration=exploration,
            reproduce=self.reproduce,
            comparison=None if self.before is None else compare_explorations(self.before, exploration),
            is_complete=is_complete,
        )


class FindingGroup(Struct, frozen=True):
    """A defect, and all cases that show it: those with the same verdict and, but for numbers, the same first evidence.

    Errors that merely ended the run are one group together.
    """

    results: tuple[CaseResult, ...]

    @property
    def first(self) -> FaultCase:
        """The first case that shows it."""
        return self.results[0].case

    @property
    def verdict(self) -> Verdict:
        return self.results[0].verdict

    @property
    def headline(self) -> str:
        """What happened, on one line."""
        causes = list(dict.fromkeys(map(_first_line, self.results)))
        if len(causes) == 1 or self.verdict != "crashed":
            return causes[0]
        errors = Counter(cause.partition(":")[0] for cause in causes)
        return f"it ended with an error that is not declared: {', '.join(errors)}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The evidence beside the headline: the rest of that of the first case, or the errors of all cases."""
        causes = Counter(map(_first_line, self.results))
        if len(causes) == 1 or self.verdict != "crashed":
            first, *rest = self.results[0].evidence or ("",)
            return (*filter(None, [first.partition("\n")[2]]), *rest)
        return tuple(f"{cause} ({pluralize(count, 'case')})" for cause, count in causes.items())


def group_findings(exploration: Exploration) -> list[FindingGroup]:
    """Return the findings, worst first, and those of one verdict in the order of the cases."""
    return _grouped(exploration, lambda each: "" if _merely_ended(each) else _cause(each))


def causes_of_findings(exploration: Exploration) -> list[FindingGroup]:
    """Return the findings by their causes: each error that ended a run is one."""
    return _grouped(exploration, _cause)


def _grouped(exploration: Exploration, cause: Callable[[CaseResult], str]) -> list[FindingGroup]:
    causes: dict[tuple[Verdict, str], list[CaseResult]] = {}
    for each in exploration.findings:
        causes.setdefault((each.verdict, cause(each)), []).append(each)
    return [FindingGroup(tuple(explored)) for explored in causes.values()]


def _merely_ended(result: CaseResult) -> bool:
    """Return whether an error ended the run before it had changed anything."""
    return result.verdict == "crashed" and not result.run.effects


_PARTICULARS = re.compile(r"\b(?:call \d+|HTTP \d+|\d+ times|(?:fault|injected)-[0-9a-f]+)\b")


def _cause(result: CaseResult) -> str:
    """Return the first line of the evidence without what differs from case to case: numbers of calls, marks."""
    return _PARTICULARS.sub("…", _first_line(result))


def _first_line(result: CaseResult) -> str:
    return next(iter(result.evidence), "").partition("\n")[0]


def exploration_totals(exploration: Exploration) -> str:
    """`44 cases, 13 findings: 1 repeated side effect, 12 crashed, 31 recovered`"""
    counts = verdict_counts(exploration)
    found = pluralize(len(exploration.findings), "finding")
    left = f"; the budget left out {pluralize(exploration.left, 'case')}" if exploration.left else ""
    return f"{pluralize(len(exploration.results), 'case')}, {found}{counts and f': {counts}'}{left}"


def verdict_counts(exploration: Exploration) -> str:
    """`1 repeated side effect, 12 crashed, 31 recovered`"""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in exploration.counts.items())


def comparison_totals(comparison: ExplorationComparison) -> str:
    """`compared with before: 2 worse, 1 other change, 41 the same`"""
    worse = len(comparison.worse)
    others = pluralize(len(comparison.changes) - worse, "other change")
    left = comparison.not_tried
    not_tried = f"; {pluralize(left, 'case')} {'was' if left == 1 else 'were'} not tried this time" if left else ""
    return f"compared with before: {worse:,} worse, {others}, {comparison.same:,} the same{not_tried}"


def describe_change(change: VerdictChange) -> str:
    """`recovered → crashed`, where a case that one of the two does not have is `no such case`."""
    return f"{change.before or 'no such case'} → {change.after or 'no such case'}"
