"""Subject: what a case costs that is merged from the reports of shards, beside decoding the same reports."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from bench.findings import Findings, Row, Table, at_most
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet
from offbook.explore.cases import FaultCase, HeatmapCell
from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.run import ModelCall, Run, ToolRun
from offbook.explore.verdict import Assessment
from offbook.faults import parse_fault
from offbook.report.exploration.json_report import exploration_json, load_shard
from offbook.report.exploration.report_input import ExploredShard, ReportInput
from offbook.report.shards import merge_explorations
from offbook.shard import Shard

SHARDS, CALLS, REPEATS = 16, 10, (7, 3)
MERGE, WRITE, FLOOR = "reading and merging", "writing the JSON report of all", "floor: decoding the parts"
NEAR_FLOOR = 4.0


def measure(plan: Plan) -> Findings:
    """Explorations of two sizes in sixteen shards, of a run with ten calls."""
    sizes = [500, 2_000] if plan.is_quick else [1_000, 10_000]
    columns = [_per_case_us(plan, size) for size in sizes]
    rows = [Row(name, [column[name] for column in columns]) for name in columns[0]]
    table = Table(
        f"a case of an exploration in {SHARDS} shards", "µs", [f"{size:,} cases" for size in sizes], rows, base=MERGE
    )
    claim = f"reading and merging takes at most {NEAR_FLOOR:g}x as long as decoding the same JSON into dicts"
    targets = at_most(claim, table.ratios(MERGE, FLOOR), NEAR_FLOOR)
    notes = [f"best of {plan.repeats(*REPEATS)} repeats; {len(_parts(sizes[0])[0]) // 1024:,} kB a part at first"]
    return Findings("shards", [table], targets, notes)


def _per_case_us(plan: Plan, size: int) -> dict[str, float]:
    plan.tell(f"shards: {size:,} cases")
    parts = _parts(size)
    merged = merge_explorations([load_shard(part, source="part.json") for part in parts])
    whole = ReportInput(exploration=merged.exploration, reproduce=merged.reproduce)
    works: dict[str, Callable[[], object]] = {
        MERGE: lambda: merge_explorations([load_shard(part, source="part.json") for part in parts]),
        WRITE: lambda: exploration_json(whole),
        FLOOR: lambda: [msgspec.json.decode(part) for part in parts],
    }
    return {name: min(_took_us(work) for _ in range(plan.repeats(*REPEATS))) / size for name, work in works.items()}


def _took_us(work: Callable[[], object]) -> float:
    watch = Stopwatch()
    with quiet(), watch.lap():
        work()
    return watch.total_us


def _parts(size: int) -> list[bytes]:
    """The reports of the shards of an exploration with so many cases."""
    run = Run(
        result="Order 42 is refunded.",
        calls=tuple(ModelCall(number=n, step_id="answer", step_call=n, attempt=1, model="m") for n in range(1, CALLS)),
        tools=(ToolRun(tool="refund", call=1, arguments={"order": 42}, result="paid"),),
    )
    results = [_result(number, run) for number in range(1, size + 1)]
    return [_part(Shard(number, SHARDS), run, results) for number in range(1, SHARDS + 1)]


def _result(number: int, run: Run) -> CaseResult:
    line = parse_fault(f"call={number}: http_error 500")
    case = FaultCase(f"{number:04}", (line,), (HeatmapCell(f"{number} answer", "http_error 500"),))
    return CaseResult(case, run, Assessment("recovered", ("it was called again, and ended as without a fault",)))


def _part(shard: Shard, clean: Run, results: list[CaseResult]) -> bytes:
    own = [each for each in results if shard.has(each.case.id)]
    others = tuple(each.case for each in results if not shard.has(each.case.id))
    exploration = replace(Exploration("bench", clean, tuple(own)), elsewhere=others)
    explored = ExploredShard(shard=shard, run={"version": "bench"})
    return exploration_json(
        ReportInput(exploration=exploration, reproduce=lambda case: f"offbook explore --only {case.id}", shard=explored)
    )
