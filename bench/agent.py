"""Subject: what the agent loop costs a model round trip, beside the loops of others."""

from __future__ import annotations

import asyncio

from bench.contestants.agent_floor import FloorLoop
from bench.contestants.agent_loop import RESULT, AgentLoop
from bench.contestants.forge import ForgeLoop
from bench.contestants.langgraph import LangGraphLoop
from bench.contestants.offbook_agent import ModelToolLoop, OffbookLoop, ReplayLoop, SchemaToolLoop
from bench.contestants.openai_agents import OpenAIAgentsLoop
from bench.contestants.pydantic_ai_agent import PydanticAILoop
from bench.findings import Findings, Row, Table, Target, at_most
from bench.long_run import measure_long_runs
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled

OURS = OffbookLoop.name
PEERS: tuple[type[AgentLoop], ...] = (ForgeLoop, PydanticAILoop, LangGraphLoop, OpenAIAgentsLoop)
SHORT, LONG = 2, 20
TRIPS, REPEATS = 40, (200, 50)
CHEAP_US, EVEN = 30.0, 1.5


def measure(plan: Plan) -> Findings:
    """Short and longer runs of every loop, and very long ones of ours."""
    peers, left_out = _peers()
    loops = [OffbookLoop(), ModelToolLoop(), SchemaToolLoop(), ReplayLoop(plan.library.folder), FloorLoop(), *peers]
    columns = [asyncio.run(_best(plan, loops, steps)) for steps in (SHORT, LONG)]
    rows = [Row(loop.name, [column[loop.name] for column in columns]) for loop in loops]
    title = "agent loop, on a model that answers at once"
    table = Table(title, "µs a round trip", [f"{SHORT} steps", f"{LONG} steps"], rows, base=OURS)
    grown = measure_long_runs(plan)
    notes = [*left_out, *_notes(plan), *grown.notes]
    return Findings("agent", [table, *grown.tables], _targets(table) + grown.targets, notes)


def _peers() -> tuple[list[AgentLoop], list[str]]:
    """The peers that are there, and a note on each that is not."""
    found: list[AgentLoop] = []
    left_out = []
    for peer in PEERS:
        try:
            found.append(peer())
        except ImportError:
            left_out.append(f"{peer.name} is left out: it cannot be imported")
    return found, left_out


async def _best(plan: Plan, loops: list[AgentLoop], steps: int) -> dict[str, float]:
    """The best time of a round trip in each loop, in µs. They take turns."""
    for loop in loops:
        await _check(loop, steps)
    times: dict[str, list[float]] = {loop.name: [] for loop in loops}
    repeats = plan.repeats(*REPEATS)
    with settled():
        for repeat in range(repeats):
            plan.tell(f"agent: {steps} steps, repeat {repeat + 1} of {repeats}")
            for loop in loops:
                if repeat % max(1, repeats // loop.repeats) == 0:
                    times[loop.name].append(await _time(loop, steps))
    return {name: min(figures) for name, figures in times.items()}


async def _check(loop: AgentLoop, steps: int) -> None:
    """See by one run, which also warms the loop up, that it does what it should."""
    script, fetched = await loop.script(steps), loop.shelf.fetched
    result = await loop.run(script)
    if result != RESULT or loop.shelf.fetched - fetched != steps - 1:
        raise AssertionError(f"{loop.name} ended with {result!r} after {loop.shelf.fetched - fetched} calls")


async def _time(loop: AgentLoop, steps: int) -> float:
    scripts = [await loop.script(steps) for _ in range(TRIPS // steps)]
    watch = Stopwatch()
    with quiet(), watch.lap():
        for script in scripts:
            await loop.run(script)
    return watch.total_us / TRIPS


def _targets(table: Table) -> list[Target]:
    row = table.row(OURS)
    figures = [] if row is None else [figure for figure in row.figures if figure is not None]
    found = []
    for column, figure in zip(table.columns, figures, strict=True):
        claim = f"the agent loop costs at most {CHEAP_US:g} µs a round trip ({column})"
        found.append(Target(claim, f"{figure:.1f} µs, {figure / CHEAP_US:.2f}x", figure <= CHEAP_US))
    claim = f"the agent loop: a round trip of {LONG} steps and one of {SHORT} cost within {EVEN:g}x of each other"
    return found + at_most(claim, [max(figures) / min(figures)], EVEN)


def _notes(plan: Plan) -> list[str]:
    return [
        f"best of {plan.repeats(*REPEATS)} repeats of {TRIPS} round trips each (slow peers: about 20), taking turns",
        "the model calls one tool with another argument at each step but the last, which ends the run",
        "the tool is the same async function for all; what the model answers is made before the clock starts",
        "ours and forge's: a runner made anew for each run, a required step, a prerequisite, and a tool that ends it",
        "the others: the agent is made once and text ends the run; ours has all guards on, and so has forge's",
        "on strict replay every call is fingerprinted with all that was said before it",
    ]
