"""Makes one exploration of the reports of its shards."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offbook.explore.cases import FaultCase
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.schedule import in_case_order
from offbook.explore.verdict import Verdict
from offbook.report.exploration.json_report import LoadedShard
from offbook.report.exploration.report_input import NO_ORIGIN, ReportOrigin
from offbook.shard import check_ids, check_parts


class MergedExploration(Struct, frozen=True):
    """The exploration that all shards are parts of, the commands that run its cases again, what fails it, and what it
    came from."""

    exploration: Exploration
    commands: dict[str, str]
    fail_on: frozenset[Verdict]
    origin: ReportOrigin = NO_ORIGIN

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
        not_tried=frozenset(first.report.not_tried),
        left_orders=first.exploration.left_orders,
    )
    commands = {key: command for shard in shards for key, command in shard.commands.items()}
    return MergedExploration(exploration, commands, frozenset(first.report.fail_on), first.origin)
