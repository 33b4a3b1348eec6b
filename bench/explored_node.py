"""How many cases of a Node program an exploration runs in a second: with its waits skipped, and in real time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from bench.explored_programs import CALLS, SPARE_TURNS, WORKERS, Pace, pace_of, processors_s, recording_with
from bench.findings import Row, Table, Target, at_least
from bench.plan import Plan
from offbook.explore.settings import ExploreSettings
from offbook.subjects.program.program import ProgramSubject

FOLDER = Path(__file__).parent / "programs"
SDKS = Path(__file__).parents[1] / ".scratch" / "node_sdks" / "node_modules"
SKIPPED, FRESH = "Node, its waits skipped", "Node, in real time (fresh)"
SAMPLE, FASTER = (1000, 24), 3.0


EMPTY, LOADED = "Node alone, an empty script", "Node alone, loads the SDK and ends"
FLOOR_RUNS = (10, 5)


class NodeAgent(Struct, frozen=True):
    """A program, the package that it needs, and the statement that loads it."""

    name: str
    file: str
    package: str
    loads: str


AGENTS = (
    NodeAgent("OpenAI SDK", "openai_sdk.mjs", "openai", 'import "openai";'),
    NodeAgent("Vercel AI SDK", "ai_sdk.mjs", "@ai-sdk/openai", 'import "@ai-sdk/openai"; import "ai";'),
)


def measure_node(plan: Plan) -> tuple[list[Table], list[Target]]:
    """The cases of each program, both ways: the same sample of all faults. Nothing if Node or the SDKs are missing."""
    agents = [agent for agent in AGENTS if shutil.which("node") and (SDKS / agent.package).exists()]
    if not agents:
        plan.tell("explore: no Node programs: run `make node-sdks`")
        return [], []
    paces: dict[str, list[Pace]] = {SKIPPED: [], FRESH: []}
    for agent in agents:
        for name, found in paces.items():
            plan.tell(f"explore: {agent.name} for {name}")
            with _subject(plan, agent, is_fresh=name == FRESH) as subject:
                found.append(pace_of(subject, plan.repeats(*SAMPLE)))
    title, columns = f"cases of Node programs with {CALLS} calls, {WORKERS} at once", [agent.name for agent in agents]
    rates = [Row(name, [each.cases_per_s for each in found]) for name, found in paces.items()]
    processors = [Row(name, [each.processor_ms for each in found]) for name, found in paces.items()]
    processors.append(Row(LOADED, [_floor_ms(plan, agent.loads) for agent in agents]))
    processors.append(Row(EMPTY, [_floor_ms(plan, "") for _ in agents]))
    rate = Table(title, "cases/s", columns, rates, base=SKIPPED)
    targets = [
        target
        for agent, ratio in zip(agents, rate.ratios(SKIPPED, FRESH), strict=True)
        for target in at_least(
            f"cases of a Node program with the {agent.name} run {FASTER:g} times as fast", [ratio], FASTER
        )
    ]
    return [rate, Table(f"time of processors: {title}", "ms/case", columns, processors, base=SKIPPED)], targets


def _floor_ms(plan: Plan, script: str) -> float:
    """Return how much time of processors Node itself takes for a script, in ms: no run of a program takes less."""
    file, runs = _folder(plan) / "floor.mjs", plan.repeats(*FLOOR_RUNS)
    file.write_text(script)
    before_s = processors_s()
    for _ in range(runs):
        subprocess.run(["node", str(file)], check=True)
    return (processors_s() - before_s) / runs * 1000.0


def _folder(plan: Plan) -> Path:
    """A folder that has the packages, as that of a project does."""
    folder = plan.library.folder / "node_agents"
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(SDKS)
    return folder


def _subject(plan: Plan, agent: NodeAgent, *, is_fresh: bool) -> ProgramSubject:
    folder = _folder(plan)
    shutil.copy(FOLDER / agent.file, folder)
    command = ["node", str(folder / agent.file), str(CALLS + SPARE_TURNS)]
    settings = ExploreSettings(runs_tools=True, fresh=is_fresh)
    return ProgramSubject(command, replay=recording_with(plan, CALLS), settings=settings)
