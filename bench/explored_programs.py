"""How many cases of a program an exploration runs in a second: forked, and started anew for each case."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import orjson
from msgspec import Struct

from bench.findings import Row, Table
from bench.plan import Plan
from bench.stopwatch import Stopwatch
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.subjects.executors import executor_of
from offbook.subjects.program import ProgramSubject
from offbook.subjects.specs import ExploreSettings

FOLDER = Path(__file__).parent / "programs"
CALLS, WORKERS, SAMPLE = 11, 2, (24, 8)
FORKED, FRESH = "forked, in virtual time", "started anew for each case (--fresh)"


class Agent(Struct, frozen=True):
    """A program, the packages that it needs, and how many times as fast it is to be explored if it is forked."""

    name: str
    file: str
    packages: tuple[str, ...]
    target: float


AGENTS = (
    Agent("OpenAI SDK", "openai_sdk.py", ("openai",), 25.0),
    Agent("Anthropic SDK, streamed", "anthropic_sdk.py", ("anthropic",), 25.0),
    Agent("LangGraph", "langgraph_agent.py", ("langgraph", "langchain_openai"), 40.0),
    Agent("pydantic-ai", "pydantic_ai_agent.py", ("pydantic_ai", "openai"), 40.0),
)


def installed_agents() -> list[Agent]:
    return [agent for agent in AGENTS if all(find_spec(package) is not None for package in agent.packages)]


def measure_programs(plan: Plan) -> tuple[Table, list[Agent]]:
    """The cases a second of each program, both ways, by the same cases: every so many-th, so that all faults are in."""
    agents = installed_agents()
    recording = plan.library.folder / "explored_program.json"
    recording.write_bytes(orjson.dumps({"_version": 2, "any": [*map(_asks, range(CALLS - 1)), {"content": "Lost."}]}))
    figures: dict[str, list[float | None]] = {FORKED: [], FRESH: []}
    for agent in agents:
        for name, rates in figures.items():
            plan.tell(f"explore: {agent.name}, {name}")
            rates.append(_rate(agent, recording, plan.repeats(*SAMPLE), is_fresh=name == FRESH))
    title = f"cases of programs with {CALLS} calls, {WORKERS} at once"
    rows = [Row(name, rates) for name, rates in figures.items()]
    return Table(title, "cases/s", [agent.name for agent in agents], rows, base=FORKED), agents


def _asks(number: int) -> object:
    return {"tool_calls": [{"id": f"call_{number}", "name": "find", "arguments": {"order": number}}]}


def _rate(agent: Agent, recording: Path, sample: int, *, is_fresh: bool) -> float:
    settings = ExploreSettings(runs_tools=True, fresh=is_fresh)
    command = [sys.executable, str(FOLDER / agent.file)]
    watch = Stopwatch()
    with ProgramSubject(command, replay=recording, settings=settings) as subject:
        options = ExploreOptions(variants=select_variants("all", subject.variants))
        explorer = Explorer(subject, options, executor=executor_of(subject, WORKERS))
        cases = _spread(explorer.cases, sample)
        explorer.explore(cases[:WORKERS])  # libraries are loaded then
        with watch.lap():
            for _ in executor_of(subject, WORKERS).run(cases):
                pass
    return len(cases) / watch.total_us * 1e6


def _spread(cases: list[FaultCase], count: int) -> list[FaultCase]:
    return cases[:: max(1, len(cases) // count)][:count]
