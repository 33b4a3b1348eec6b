"""Very long runs of our own agent loop: what a round trip costs at their beginning and at their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from bench.contestants.agent_loop import ASKED, Shelf
from bench.contestants.offbook_agent import NO_LIMIT, POLICY, Scripted, calls_of, workflow_of
from bench.findings import Findings, Row, Table, Target, at_most
from bench.plan import Plan
from bench.stopwatch import quiet
from offbook.agent import ContextManager, NoCompact, TieredCompact, ToolCall, WorkflowRunner, tool_of

STEPS, WINDOW, BLOCK = 10_000, 1_000, 50
REPEATS = (8, 3)
BUDGET_TOKENS, KEEP_RECENT = 8192, 2
FLAT = 1.5

CONTEXTS: dict[str, Callable[[], ContextManager]] = {
    "nothing compacted": lambda: ContextManager(NoCompact(), budget_tokens=NO_LIMIT),
    f"TieredCompact, {BUDGET_TOKENS:,} tokens": lambda: ContextManager(
        TieredCompact(keep_recent=KEEP_RECENT), budget_tokens=BUDGET_TOKENS
    ),
}


def measure_long_runs(plan: Plan) -> Findings:
    """One run of many iterations with each way to keep the context."""
    runs: dict[str, list[list[float]]] = {name: [] for name in CONTEXTS}
    repeats = plan.repeats(*REPEATS)
    for repeat in range(repeats):
        for name, make in CONTEXTS.items():
            plan.tell(f"agent: {STEPS:,} iterations, {name}, repeat {repeat + 1} of {repeats}")
            with quiet():
                runs[name].append(asyncio.run(_blocks(make())))
    rows = [Row(name, _ends(of_one)) for name, of_one in runs.items()]
    columns = [f"first {WINDOW:,}", f"second {WINDOW:,}", f"last {WINDOW:,}"]
    title = f"offbook's agent loop, one run of {STEPS:,} iterations"
    table = Table(title, "µs a round trip", columns, rows, base=rows[0].name)
    return Findings("long run", [table], _targets(table), _notes(repeats))


def _ends(runs: list[list[float]]) -> list[float | None]:
    """What a round trip costs in the first, the second and the last window, from the best time of each block."""
    best = [min(times) for times in zip(*runs, strict=True)]
    count = WINDOW // BLOCK
    return [sum(best[start : start + count]) / count for start in (0, count, len(best) - count)]


async def _blocks(context: ContextManager) -> list[float]:
    """What a round trip costs in each block of a run, in µs."""
    asked_ns: list[int] = []
    runner = WorkflowRunner(Scripted(_answers(asked_ns)), context, max_iterations=STEPS + 1, policy=POLICY)
    await runner.run(workflow_of(tool_of(Shelf().fetch)), ASKED)
    marks_ns = asked_ns[::BLOCK]
    return [(later - earlier) / BLOCK / 1000.0 for earlier, later in pairwise(marks_ns)]


def _answers(asked_ns: list[int]) -> Iterator[list[ToolCall]]:
    """The model's answers; when each was asked for is noted."""
    for call in list(calls_of(STEPS + 1)):
        asked_ns.append(time.perf_counter_ns())
        yield [call]


def _targets(table: Table) -> list[Target]:
    """That the end costs what the beginning does; with compaction, what the second window does, which has some."""
    plain, compacted = table.rows
    first, _, last = (figure or 0.0 for figure in plain.figures)
    _, second, end = (figure or 0.0 for figure in compacted.figures)
    claim = f"the agent loop: the last {WINDOW:,} of {STEPS:,} iterations cost at most {FLAT:g}x the"
    return [
        *at_most(f"{claim} first, {plain.name}", [last / first], FLAT),
        *at_most(f"{claim} second, {compacted.name}", [end / second], FLAT),
    ]


def _notes(repeats: int) -> list[str]:
    return [
        f"long runs: the mean of the best times of each {BLOCK} iterations in {repeats} runs, taken inside the client",
        "nothing is compacted until the budget comes near, which in the first iterations it does not",
    ]
