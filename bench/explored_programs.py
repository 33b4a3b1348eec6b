"""How many cases of a program an exploration runs in a second: forked, and started anew for each case."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import orjson
from msgspec import Struct

from bench.findings import Row, Table, Target
from bench.plan import Plan
from bench.stopwatch import Stopwatch
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.subjects.executors import executor_of
from offbook.subjects.program.program import ProgramSubject

FOLDER = Path(__file__).parent / "programs"
CALLS, WORKERS, SAMPLE = 2, 2, (32, 12)
CORES = os.cpu_count() or 1
SPARE_TURNS = 6
"""How many turns more than it needs an agent may take."""
LONG_CALLS, LONG_S = 30, 60.0
FORKED, FRESH = "forked, in virtual time", "started anew for each case (fresh)"
_TICKS = os.sysconf("SC_CLK_TCK")


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
LONG_AGENT = Agent("no SDK", "plain_http.py", (), 1.0)
LONG_SDK_FILE = "openai_sdk.py"


class Pace(Struct, frozen=True):
    """How many cases ran in a second, and how much time of processors each of them took, in ms."""

    cases_per_s: float
    processor_ms: float


def installed_agents() -> list[Agent]:
    return [agent for agent in AGENTS if all(find_spec(package) is not None for package in agent.packages)]


def measure_programs(plan: Plan) -> tuple[list[Table], list[Agent]]:
    """The cases of each program, both ways: the same sample of all faults."""
    agents, recording = installed_agents(), recording_with(plan, CALLS)
    paces: dict[str, list[Pace]] = {FORKED: [], FRESH: []}
    for agent in agents:
        for name, found in paces.items():
            plan.tell(f"explore: {agent.name}, {name}")
            with _subject(agent, recording, is_fresh=name == FRESH) as subject:
                found.append(pace_of(subject, plan.repeats(*SAMPLE)))
    title = f"cases of programs with {CALLS} calls, {WORKERS} at once"
    columns = [agent.name for agent in agents]
    rates = [Row(name, [each.cases_per_s for each in found]) for name, found in paces.items()]
    processors = [Row(name, [each.processor_ms for each in found]) for name, found in paces.items()]
    tables = [
        Table(title, "cases/s", columns, rates, base=FORKED),
        Table(f"time of processors: {title}", "ms/case", columns, processors, base=FORKED),
    ]
    return tables, agents


def measure_long_programs(plan: Plan) -> tuple[list[Table], list[Target]]:
    """All single faults of programs with many calls, without an SDK and with one."""
    agents = [LONG_AGENT, *(agent for agent in installed_agents() if agent.file == LONG_SDK_FILE)]
    found = [_measure_long_program(plan, agent) for agent in agents]
    return [table for table, _ in found], [target for _, target in found]


def _measure_long_program(plan: Plan, agent: Agent) -> tuple[Table, Target]:
    plan.tell(f"explore: a program with {LONG_CALLS} calls, all single faults, {agent.name}")
    watch, before_s = Stopwatch(), processors_s()
    with _subject(agent, recording_with(plan, LONG_CALLS), is_fresh=False, calls=LONG_CALLS) as subject:
        options = ExploreOptions(variants=select_variants("all", subject.variants))
        with watch.lap():
            results = Explorer(subject, options, executor=executor_of(subject, "auto")).explore().results
        by_processors_s = (processors_s() - before_s) / CORES
    took_s = watch.total_us / 1e6
    title = f"all {len(results)} single faults of a program with {LONG_CALLS} calls ({agent.name}), on {CORES} cores"
    claim = f"{len(results)} cases of a program with {LONG_CALLS} calls ({agent.name}) take less than {LONG_S:g} s"
    rows = [Row(FORKED, [took_s]), Row(f"time of processors, by {CORES}", [by_processors_s])]
    return Table(title, "s", [agent.name], rows, base=FORKED), Target(claim, f"{took_s:.0f} s", took_s < LONG_S)


def recording_with(plan: Plan, calls: int) -> Path:
    """Return a recording of an agent that calls a tool until its last call."""
    path = plan.library.folder / f"explored_program_{calls}.json"
    path.write_bytes(orjson.dumps({"_version": 2, "any": [*map(_asks, range(calls - 1)), {"content": "Lost."}]}))
    return path


def _asks(number: int) -> object:
    return {"tool_calls": [{"id": f"call_{number}", "name": "find", "arguments": {"order": number}}]}


def _subject(agent: Agent, recording: Path, *, is_fresh: bool, calls: int = CALLS) -> ProgramSubject:
    settings = ExploreSettings(runs_tools=True, fresh=is_fresh)
    command = [sys.executable, str(FOLDER / agent.file), str(calls + SPARE_TURNS)]
    return ProgramSubject(command, replay=recording, settings=settings)


def pace_of(subject: ProgramSubject, sample: int) -> Pace:
    """Run a sample of the cases of a program with all faults."""
    watch = Stopwatch()
    options = ExploreOptions(variants=select_variants("all", subject.variants))
    explorer = Explorer(subject, options, executor=executor_of(subject, WORKERS))
    cases = _sample(explorer.cases, sample)
    for _ in executor_of(subject, WORKERS).run(cases[:WORKERS]):  # libraries are loaded then
        pass
    before_s = processors_s()
    with watch.lap():
        for _ in executor_of(subject, WORKERS).run(cases):
            pass
    took_s = processors_s() - before_s
    return Pace(len(cases) / watch.total_us * 1e6, took_s / len(cases) * 1000.0)


def _sample(cases: list[FaultCase], count: int) -> list[FaultCase]:
    """Return so many cases at equal distances: they are in the order of faults, so that each fault has its share."""
    return cases if count >= len(cases) else [cases[len(cases) * place // count] for place in range(count)]


def processors_s() -> float:
    """Return the time that processors have spent on this process, and on all that it has started, now or before."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(_ticks(pid) for pid in descendants(os.getpid()))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + running / _TICKS


def _ticks(pid: int) -> int:
    """Return the time of a process, and of what it has started and waited for."""
    return sum(map(int, _status(pid)[11:15]))


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def _status(pid: int) -> Sequence[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return ["0"] * 15
