"""Subject: what the workflow engine costs a step, over the calls that the steps make."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from bench.contestants.agentloom_workflow import AgentLoomEngine
from bench.contestants.offbook_workflow import OffbookEngine
from bench.contestants.workflow_engine import EngineContestant, Shape
from bench.findings import Findings, Row, Table, Target, at_most
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled

OURS = OffbookEngine.name
FAN_OUTS, CHAINS = (100, 1_000, 10_000), (100, 2_000)
STEPS_A_LAP, REPEATS = 1_000, (20, 5)
RUN, CALLS, OVERHEAD, MAKING = "a run", "its calls alone", "run − calls", "making the engine"
CHEAP_US, FLAT = 60.0, 1.5

Best: TypeAlias = dict[tuple[str, Shape], dict[str, float]]
"""The best time of a step in each row, by engine and workflow, in µs."""


class Bout:
    """One engine on one workflow: makes engines, runs them, and makes their calls alone, lap after lap."""

    def __init__(self, contestant: EngineContestant, shape: Shape) -> None:
        self.contestant, self.shape = contestant, shape
        self._answers = shape.answers
        self._times: dict[str, list[float]] = {MAKING: [], RUN: [], CALLS: []}

    @property
    def best(self) -> dict[str, float]:
        """The best time of a step in each row, in µs."""
        best = {name: min(times) for name, times in self._times.items()}
        return best | {OVERHEAD: best[RUN] - best[CALLS]}

    async def lap(self) -> None:
        """Time each row once, and see that every run gave what it should."""
        runs, contestant = range(max(1, STEPS_A_LAP // self.shape.steps)), self.contestant
        contestant.open()
        making, running, calling = Stopwatch(), Stopwatch(), Stopwatch()
        with quiet(), making.lap():
            engines = [contestant.make() for _ in runs]
        with quiet(), running.lap():
            results = [await contestant.run(engine) for engine in engines]
        assert all(contestant.outputs(result) == self._answers for result in results), contestant.name
        contestant.open()
        with quiet(), calling.lap():
            for _ in runs:
                await contestant.call()
        for name, watch in ((MAKING, making), (RUN, running), (CALLS, calling)):
            self._times[name].append(watch.total_us / (len(runs) * self.shape.steps))


def measure(plan: Plan) -> Findings:
    """Steps that depend on nothing, and steps that follow one another; few of them and many."""
    fan_outs = [Shape("fan-out", steps) for steps in plan.sizes(*FAN_OUTS)]
    chains = [Shape("chain", steps) for steps in CHAINS]
    bouts, left_out = _bouts(plan, [*fan_outs, *chains])
    asyncio.run(_compete(plan, bouts))
    best = {(bout.contestant.name, bout.shape): bout.best for bout in bouts}
    tables = [
        _table("steps that depend on nothing", fan_outs, best),
        _table("steps that follow one another", chains, best),
    ]
    targets = _cheap(fan_outs + chains, best) + _flat(fan_outs, best) + _flat(chains, best)
    return Findings("workflow", tables, targets, [*left_out, *_notes(plan)])


def _table(title: str, shapes: list[Shape], best: Best) -> Table:
    rows = [
        Row(f"{name}: {row}", [best[name, shape][row] if (name, shape) in best else None for shape in shapes])
        for name in dict.fromkeys(name for name, _ in best)
        for row in (RUN, CALLS, OVERHEAD, MAKING)
    ]
    columns = [f"{shape.steps:,} steps" for shape in shapes]
    return Table(f"workflow engine, {title}", "µs a step", columns, rows, base=f"{OURS}: {RUN}")


def _bouts(plan: Plan, shapes: list[Shape]) -> tuple[list[Bout], list[str]]:
    """Every engine on each workflow that it is not too slow for, and a note if the peer is not there."""
    found = [Bout(OffbookEngine(shape), shape) for shape in shapes]
    small = [shape for shape in shapes if shape.steps <= AgentLoomEngine.most_steps]
    try:
        found += [Bout(AgentLoomEngine(shape, plan.library.folder), shape) for shape in small]
    except ImportError:
        return found, [f"{AgentLoomEngine.name} is left out: it cannot be imported"]
    return found, []


async def _compete(plan: Plan, bouts: list[Bout]) -> None:
    """Laps of all bouts, which take turns."""
    repeats = plan.repeats(*REPEATS)
    with settled():
        for repeat in range(repeats):
            for bout in bouts:
                plan.tell(f"workflow: {bout.contestant.name}, {bout.shape}, repeat {repeat + 1} of {repeats}")
                await bout.lap()


def _cheap(shapes: list[Shape], best: Best) -> list[Target]:
    found = []
    for shape in shapes:
        figure = best[OURS, shape][OVERHEAD]
        claim = f"the workflow engine costs at most {CHEAP_US:g} µs a step over its calls ({shape})"
        found.append(Target(claim, f"{figure:.1f} µs, {figure / CHEAP_US:.2f}x", figure <= CHEAP_US))
    return found


def _flat(shapes: list[Shape], best: Best) -> list[Target]:
    """That a step costs the same in a large workflow, with its call and without."""
    few, *_, many = shapes
    claim = f"the workflow engine, {few.kind}: a step of {many.steps:,} costs at most {FLAT:g}x one of {few.steps:,}"
    return at_most(claim, [best[OURS, many][row] / best[OURS, few][row] for row in (RUN, OVERHEAD)], FLAT)


def _notes(plan: Plan) -> list[str]:
    return [
        f"best of {plan.repeats(*REPEATS)} laps of {STEPS_A_LAP:,} steps, or of one run if it is longer, taking turns",
        "every step asks a model by a prompt with one placeholder, and its answer goes into the state",
        "ours: the default gateway on MockProvider, strict; every call is fingerprinted and its drift checked",
        "its calls alone: the same requests, made before the clock starts, one after the other through such a gateway",
        "answers are there at once, so that steps which could run side by side do not: the first worker gets them all",
        "making the engine: a definition from plain dicts, its checks, and the engine, which is then run once",
        "AgentLoom's checks are fewer: what steps depend on, and where routers lead; it orders the steps in each run",
        f"AgentLoom copies the whole state for every step; it is measured up to {AgentLoomEngine.most_steps} steps",
    ]
