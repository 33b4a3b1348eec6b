"""Makes one run of the reports of its shards: of scenarios, or of an exploration."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace

from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.causes import discovery_of
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.schedule import in_case_order
from offbook.explore.verdict import stored_titles
from offbook.recording.match.cursor import UnusedEntry
from offbook.report.exploration.json_report import SHARD_HINT, LoadedShard
from offbook.report.exploration.report_input import NO_ORIGIN, ReportOrigin
from offbook.scenarios.result import PlanPlaces, ScenarioResult, SuiteResult, SuiteShard
from offbook.shard import ShardPart, check_ids, check_parts, parse_shard


class LoadedSuite(Struct, frozen=True):
    """The report of a shard, and where it was read from."""

    source: str
    result: SuiteResult

    @property
    def shard(self) -> SuiteShard:
        """The shard of the report.

        Raises:
            InputError: the report is of a whole run.
        """
        if self.result.shard is None:
            raise InputError("it is the report of a whole run", source=self.source, hint=SHARD_HINT)
        return self.result.shard

    @property
    def part(self) -> ShardPart:
        shard = self.shard
        return ShardPart(self.source, parse_shard(shard.shard, source=self.source), shard.run, self.result.is_complete)


class MergedSuite(Struct, frozen=True):
    """The merged run of all shards, without groups of errors, and the unused exchanges of its replay."""

    result: SuiteResult
    unused: list[UnusedEntry]
    is_grouped: bool
    record_again: str


def merge_suites(shards: Sequence[LoadedSuite]) -> MergedSuite:
    """Return the run of all scenarios of the shards, in the order of the plan, as if one machine had run them.

    Raises:
        InputError: a shard is missing, doubled or partial, or is one of another run.
    """
    check_parts([shard.part for shard in shards])
    lowest = min(shards, key=lambda shard: shard.part.shard.number)
    first = lowest.shard
    placed = {place: result for shard in shards for place, result in _places(shard)}
    check_ids(
        [(each.part, [str(place) for place, _ in _places(each)]) for each in shards], len(first.plan), noun="scenario"
    )
    scenarios = tuple(placed[place] for place in sorted(placed))
    result = SuiteResult(scenarios, _latency_s(scenarios, first.concurrency), origin=lowest.result.origin)
    return MergedSuite(result, _unused([shard.shard for shard in shards]), first.is_grouped, first.record_again)


def _places(shard: LoadedSuite) -> list[tuple[int, ScenarioResult]]:
    """Return the scenarios of a shard with their places in the plan."""
    places = PlanPlaces(shard.shard.plan)
    found = []
    for result in shard.result.scenarios:
        place = places.take(result)
        if place is None:
            reason = f"the scenario {result.name!r} with {result.agent!r} is not in its plan"
            raise InputError(reason, source=shard.source, hint="run the shard again")
        found.append((place, result))
    return found


def _latency_s(scenarios: Sequence[ScenarioResult], concurrency: int) -> float:
    """Return the duration of all conversations, each starting in order in a free slot."""
    free_s = [0.0] * concurrency
    for conversation in (each for scenario in scenarios for each in scenario.conversations):
        heapreplace(free_s, free_s[0] + conversation.latency_s)
    return round(max(free_s), 6)


def _unused(shards: Sequence[SuiteShard]) -> list[UnusedEntry]:
    """Return the exchanges unused by every shard that opened their recording: models first, by recording."""
    unused = [(set(shard.opened), set(shard.unused)) for shard in shards]
    entries = dict.fromkeys(entry for shard in shards for entry in shard.unused)
    left = [e for e in entries if all(e in entries_left for opened, entries_left in unused if e.recording in opened)]
    return sorted(left, key=lambda entry: (entry.recording.startswith("mcp:"), entry.recording))


class MergedExploration(Struct, frozen=True):
    """The merged exploration of all shards, the commands that run its cases again, the failing verdicts, its origin,
    and whether a budget may leave cases out.
    """

    exploration: Exploration
    commands: dict[str, str]
    fail_on: frozenset[str]
    origin: ReportOrigin = NO_ORIGIN
    allow_partial: bool = False

    def reproduce(self, case: FaultCase) -> str:
        """Return the command that runs a case again."""
        return self.commands[case.id]


def merge_explorations(shards: Sequence[LoadedShard]) -> MergedExploration:
    """Return the exploration of all cases of the shards, as if one machine had run them.

    Raises:
        InputError: a shard is missing, doubled or partial, or is one of another run.
    """
    check_parts([shard.part for shard in shards])
    by_part = [(shard.part, [each.case.id for each in shard.exploration.results]) for shard in shards]
    check_ids(by_part, shards[0].report.cases, noun="case")
    first = min(shards, key=lambda shard: shard.part.shard.number)
    results: list[CaseResult] = [each for shard in shards for each in shard.exploration.results]
    exploration = Exploration(
        first.exploration.subject,
        first.exploration.clean,
        tuple(in_case_order(results, lambda each: each.case)),
        left_out=first.exploration.left_out,
        left_groups=first.exploration.left_groups,
        not_tried=frozenset(first.report.not_tried),
        left_orders=first.exploration.left_orders,
        discovery=discovery_of(results, first.report.dealt),
    )
    commands = {key: command for shard in shards for key, command in shard.commands.items()}
    fail_on = stored_titles(first.report.fail_on, source=first.part.source)
    return MergedExploration(exploration, commands, fail_on, first.origin, first.report.allow_partial)
