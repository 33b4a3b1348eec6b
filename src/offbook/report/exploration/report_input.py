"""The input of every report of an exploration: the exploration, its grouped findings, its totals."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.cases import FaultCase
from offbook.explore.causes import cause_of, evidence_cause, first_line
from offbook.explore.compare import ExplorationComparison, VerdictChange, compare_explorations
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.recovery import describe_recovery, describe_spread
from offbook.explore.results import pattern_like
from offbook.explore.run import Run, RunFailure
from offbook.explore.schedule import in_case_order
from offbook.explore.verdict import FINDING_TITLES, Assessment
from offbook.shard import RunIdentity, Shard
from offbook.text import pluralize

Reproduce = Callable[[FaultCase], str]
"""Returns the command that runs a case again."""


class ReportOrigin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The origin of an exploration: the version of offbook, the command, the recording and its date.

    Every run of the command has the same origin, so equal explorations give equal reports. The time of a report is its
    file's.
    """

    version: str = ""
    command: str = ""
    recording: str = ""
    recorded_at: str = ""


NO_ORIGIN = ReportOrigin()


class ReportInput(Struct, frozen=True, kw_only=True):
    """An exploration, the commands that run its cases again, and its changes since an earlier one, if any.

    An exploration that ended early is not complete. `shard` describes a shard's run.
    """

    exploration: Exploration
    reproduce: Reproduce
    comparison: ExplorationComparison | None = None
    is_complete: bool = True
    shard: ExploredShard | None = None
    origin: ReportOrigin = NO_ORIGIN


class ExploredShard(Struct, frozen=True, kw_only=True):
    """The shard and the run of an exploration, the verdicts that fail the run, and whether cases may be left out."""

    shard: Shard
    run: RunIdentity
    fail_on: frozenset[str] = FINDING_TITLES
    allow_partial: bool = False


class ReportOptions(Struct, frozen=True):
    """The commands that run cases again, an earlier exploration to compare with, the shard, and the origin of the
    exploration.
    """

    reproduce: Reproduce
    before: Exploration | None = None
    shard: ExploredShard | None = None
    origin: ReportOrigin = NO_ORIGIN

    def report_input(self, exploration: Exploration, *, is_complete: bool = True) -> ReportInput:
        """Return the input for a report of an exploration."""
        return ReportInput(
            exploration=exploration,
            reproduce=self.reproduce,
            comparison=None if self.before is None else compare_explorations(self.before, exploration),
            is_complete=is_complete,
            shard=self.shard,
            origin=self.origin,
        )


class EndedCases:
    """The exploration so far, with its ended cases in case order, for one that is running or was interrupted."""

    def __init__(self) -> None:
        self._start = Exploration("", Run())
        self._results: list[CaseResult] = []
        self.has_begun = False

    def begin(self, exploration: Exploration, cases: int) -> None:
        self._start, self._results, self.has_begun = exploration, [], True

    def on_case(self, result: CaseResult) -> None:
        self._results.append(result)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def exploration(self) -> Exploration:
        return replace(self._start, results=tuple(in_case_order(self._results, lambda each: each.case)))


class FindingGroup(Struct, frozen=True):
    """A defect with all its cases: equal verdict, reason and first line of evidence, apart from numbers.

    Errors that merely ended the run form one group.
    """

    results: tuple[CaseResult, ...]

    @property
    def first(self) -> FaultCase:
        """The first case that shows it."""
        return self.results[0].case

    @property
    def assessment(self) -> Assessment:
        """The assessment of the first case."""
        return self.results[0].assessment

    @property
    def headline(self) -> str:
        """The event of the finding, on one line."""
        causes = self._causes()
        if len(causes) == 1 or self.assessment.verdict != "crashed":
            return first_line(self.results[0])
        errors = Counter(line.partition(":")[0] for line, _ in causes)
        return f"it ended with an error that is not declared: {', '.join(errors)}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The evidence below the headline: the rest of the first case's evidence, or the errors of all cases."""
        causes = self._causes()
        if len(causes) == 1 or self.assessment.verdict != "crashed":
            first, *rest = self.results[0].evidence or ("",)
            return (*filter(None, [first.partition("\n")[2]]), *rest)
        return tuple(f"{line} ({pluralize(count, 'case')})" for line, count in causes)

    def _causes(self) -> list[tuple[str, int]]:
        """Return the first line of each cause with its number of cases."""
        lines: dict[str, str] = {}
        for each in self.results:
            lines.setdefault(evidence_cause(each), first_line(each))
        counts = Counter(map(evidence_cause, self.results))
        return [(line, counts[cause]) for cause, line in lines.items()]


def group_findings(exploration: Exploration) -> list[FindingGroup]:
    """Return the findings, worst first; within a verdict, in the order of cases."""
    return _grouped(exploration, lambda each: cause_of(each)[1])


def causes_of_findings(exploration: Exploration) -> list[FindingGroup]:
    """Return the findings by their causes: each error that ended a run is one."""
    return _grouped(exploration, evidence_cause)


def _grouped(exploration: Exploration, cause: Callable[[CaseResult], str]) -> list[FindingGroup]:
    causes: dict[tuple[str, str], list[CaseResult]] = {}
    for each in exploration.findings:
        causes.setdefault((each.title, cause(each)), []).append(each)
    return [FindingGroup(tuple(explored)) for explored in causes.values()]


_CLASS = re.compile(r"(?:\w+\.)*([A-Z]\w*)(?=:|$)")


def undeclared_errors(exploration: Exploration) -> list[str]:
    """Return names that declare the undeclared errors that ended runs, most frequent first.

    For a program, that is the class in its output, else its exit code.
    """
    crashed = (each.run.error for each in exploration.results if each.verdict == "crashed")
    names = Counter(_declarable_name(error) for error in crashed if error is not None)
    return [name for name, _ in names.most_common() if name]


def _declarable_name(error: RunFailure) -> str:
    kind, _, number = error.type.partition(" ")
    if kind not in ("exit", "signal"):
        return error.type
    found = _CLASS.match(error.message) if kind == "exit" else None
    return found[1] if found else number if kind == "exit" else ""


def exploration_totals(exploration: Exploration) -> str:
    """`44 cases, 13 findings: 1 repeated effect, 12 crashed, 31 recovered`, or `partial: 44 of 90 cases, …`"""
    counts = verdict_counts(exploration)
    found = pluralize(len(exploration.findings), "finding")
    is_partial = exploration.left > 0 and not exploration.discovery.stopped_after
    left = f"; the budget left out {pluralize(exploration.left, 'case')}" if is_partial else ""
    left += f"; {pluralize(exploration.left_orders, 'order')} of calls left out" if exploration.left_orders else ""
    ran = len(exploration.results)
    of = f"{ran:,} of {pluralize(ran + exploration.left, 'case')}"
    cases = f"partial: {of}" if is_partial else of if exploration.left else ""
    return f"{cases or pluralize(ran, 'case')}, {found}{counts and f': {counts}'}{left}"


MAX_ADVICE = 3


def _advice(exploration: Exploration) -> Iterator[str]:
    """Yield the next declarations, each with the number of cases that it decides: tools first, then results."""
    wanted = _undecided_tools(exploration)
    if wanted:
        tool, cases = max(wanted.items(), key=lambda each: each[1])
        tools = f"{pluralize(len(wanted), 'tool')} changed something or may have ({', '.join(wanted)})"
        would = f"{pluralize(cases, 'case')} would be decided"
        yield f"{tools}: declare [tools.{tool}] effect = true, or read_only = true → {would}"
    for pattern, count in _unjudged_results(exploration)[:MAX_ADVICE]:
        end = f"{pluralize(count, 'case')} {'ends' if count == 1 else 'end'} with other changes and a result like this"
        yield f"{end}; if it says that the run gave up, declare it: --gave-up {shlex.quote(pattern)}"


def _undecided_tools(exploration: Exploration) -> dict[str, int]:
    """Return the undeclared tools that matter to the evidence, with their numbers of cases."""
    clean = exploration.clean
    known = {tool for tool, each in clean.declarations.items() if each.has_effect or each.read_only}
    found: dict[str, int] = {}
    for tool in dict.fromkeys([*(each.tool for each in clean.effects), *(each.tool for each in clean.tools)]):
        name = re.escape(tool)
        said = re.compile(rf"declared about {name}\b|^{name} ran .*declared about it|-o read_only={name}\b")
        cases = sum(any(map(said.search, each.evidence)) for each in exploration.results)
        if cases and tool not in known:
            found[tool] = cases
    return found


def _unjudged_results(exploration: Exploration) -> list[tuple[str, int]]:
    """Return patterns of unjudged results with their numbers of cases, most frequent first."""
    unjudged = (each for each in exploration.results if each.verdict == "different outcome")
    patterns = Counter(pattern_like(each.run.result, exploration.clean.result) for each in unjudged)
    return [(pattern, count) for pattern, count in patterns.most_common() if pattern]


MEASURED_CASES = 20
"""The minimum number of cases for meaningful measures."""


def exploration_measures(exploration: Exploration) -> Iterator[str]:
    """Yield how the causes were found, what recovery took, and how far faults spread."""
    if len(exploration.results) >= MEASURED_CASES or exploration.discovery.stopped_after:
        yield from exploration.discovery.describe(left=exploration.left)
        yield from describe_recovery(exploration)
        yield from describe_spread(exploration)


MAX_LEFT_OUT = 12


LEFT_OUT_HINT = "for the rest: a larger --budget, or a --shard for each of several machines, like 1/4"


def exploration_notes(exploration: Exploration) -> Iterator[str]:
    """Yield notes on the totals: missing declarations, excluded comparisons, cases left out by the budget, and shared
    runs.

    Left-out cases are counted by group and by fault. Faults and families without a single case are named.
    """
    yield from _advice(exploration)
    yield from exploration.clean.noise.describe() if exploration.clean.noise else ()
    left = exploration.left_out
    if exploration.left_groups:
        yield f"left out: {left_out_by_group(exploration)}"
    if left:
        yield f"by fault: {_listed([f'{each.cases:,} of {each.fault}' for each in left])}"
    untried = [each.fault for each in left if not each.tried]
    if untried:
        yield f"not tried at all, because the budget is too small: {_listed(untried)}"
    families = {each.case.family for each in exploration.results}
    for family in dict.fromkeys(each.family for each in left if each.family not in families):
        yield f"no fault of the family {family!r} was tried"
    if left and not exploration.discovery.stopped_after:
        yield LEFT_OUT_HINT
    for noun, lines in (("case", 1), ("pair", 2)):
        results = tuple(each for each in exploration.results if len(each.case.lines) == lines)
        cases, runs = replace(exploration, results=results).shared
        if cases:
            yield f"{pluralize(cases, noun)} share {pluralize(runs, 'run')}: a lasting fault that was met only once"


def left_out_by_group(exploration: Exploration) -> str:
    """Return `640 of 1,109 single faults, 20,113 of 20,200 pairs and all pairs behind those single faults`, or ""."""
    groups = exploration.left_groups
    text = ", ".join(f"{each.cases:,} of {each.of:,} {each.group}" for each in groups)
    has_both = {"single faults", "pairs"} <= {each.group for each in groups}
    return f"{text} and all pairs behind those single faults" if has_both else text


def _listed(items: Sequence[str]) -> str:
    more = len(items) - MAX_LEFT_OUT
    return "; ".join([*items[:MAX_LEFT_OUT], *([f"and {pluralize(more, 'further fault')}"] if more > 0 else [])])


def verdict_counts(exploration: Exploration) -> str:
    """`2 repeated effects, 12 crashed, 31 recovered`"""
    return ", ".join(f"{count:,} {verdict_noun(label, count)}" for label, count in exploration.counts.items())


_NOUNS = ("effect", "result", "outcome")


def verdict_noun(label: str, count: int) -> str:
    """Return the plural of a label unless `count` is 1: `bad retries`. Labels like `recovered` have none."""
    if count == 1:
        return label
    return f"{label}s" if label.endswith(_NOUNS) else label.replace("retry", "retries")


def comparison_totals(comparison: ExplorationComparison) -> str:
    """`compared with before: 2 worse, 1 other change, 41 the same`"""
    worse = len(comparison.worse)
    others = pluralize(len(comparison.changes) - worse - len(comparison.left_out), "other change")
    left = comparison.not_tried
    not_tried = f"; {pluralize(left, 'case')} {'was' if left == 1 else 'were'} not tried this time" if left else ""
    unknown = len(comparison.left_out)
    were = "was" if unknown == 1 else "were"
    findings = f"; {pluralize(unknown, 'earlier finding')} {were} not tried" if unknown else ""
    dearer = pluralize(comparison.dearer, "case")
    recovery = f"; {dearer} needed more calls to recover" if comparison.dearer else ""
    return (
        f"compared with before: {worse:,} worse, {others}, {comparison.same:,} the same{not_tried}{findings}{recovery}"
    )


def describe_change(change: VerdictChange) -> str:
    """Return `recovered → crashed`. A missing side is `not tried` or `no such case`."""
    before = change.before or ("not tried" if change.was_left_out else "no such case")
    return f"{before} → {change.after or ('not tried' if change.is_left_out else 'no such case')}"
