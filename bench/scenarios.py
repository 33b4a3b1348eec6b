"""Subject: how many conversations a replayed suite of scenarios holds in a second, beside the bare calls in it."""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import redirect_stdout
from pathlib import Path

import orjson

from bench.findings import Findings, Row, Table, at_least
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from bench.talks import CONVERSATIONS, TURNS, Talks, scenario_at
from offbook import run
from offbook.cli.runners.scenarios import ScenarioOptions, run_scenarios
from offbook.pipeline import Replay

SCENARIOS, REPEATS = 200, (5, 3)
RUN, CALLS = "a run of the suite", "its calls of models alone"


def measure(plan: Plan) -> Findings:
    """Suites of scripted users, of simulated ones, and of both."""
    suites = _suites(plan)
    for suite in suites.values():
        run(suite.record())
    with settled():
        figures = {name: run(_rates(plan, name, suite), virtual_time=True) for name, suite in suites.items()}
    rows = [Row(row, [figures[name][row] for name in suites]) for row in (RUN, CALLS)]
    title = f"{SCENARIOS} scenarios with {CONVERSATIONS} conversations each, replayed in one process"
    table = Table(title, "conversations/s", list(suites), rows, base=RUN)
    processes = measure_processes(plan)
    gained, possible = processes.ratios(TWO, ONE)[0], processes.ratios(BARE_TWO, BARE_ONE)[0]
    targets = at_least(f"a suite whose agent computes runs {AT_TWO:g} times as fast in two processes", [gained], AT_TWO)
    claim = f"it gains {OF_POSSIBLE:.0%} of what two bare processes gain or more"
    targets += at_least(claim, [gained / possible], OF_POSSIBLE)
    return Findings("scenarios", [table, processes], targets, _notes(plan, suites))


ONE, TWO, AT_TWO = "in one process", "in two processes", 1.7
BARE_ONE, BARE_TWO, OF_POSSIBLE = "the computing alone, in one", "the computing alone, in two", 0.85
COMPUTING, COMPUTED, ROUNDS = 60, (7, 3), 20_000
AGENT = """\
import hashlib


async def handle(messages, ctx):
    digest = messages[-1]["content"].encode()
    for _ in range(ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return (await ctx.provider.complete(messages, "m", step_id="answer")).content
"""


def measure_processes(plan: Plan) -> Table:
    """Conversations a second of `offbook test --workers`, with its discovery and report, and for its processor time."""
    folder = _computing_suite(plan.library.folder / "computing")
    best: dict[str, tuple[float, float]] = {}

    def note(name: str, elapsed: float, of_processor: float) -> None:
        before = best.get(name, (0.0, 0.0))
        best[name] = max(elapsed, before[0]), max(of_processor, before[1])

    for repeat in range(plan.repeats(*COMPUTED)):
        plan.tell(f"scenarios: processes, repeat {repeat + 1} of {plan.repeats(*COMPUTED)}")
        for name, workers in ((ONE, 1), (TWO, 2)):
            note(name, *_rates_of_command(folder, workers))
        for name, workers in ((BARE_ONE, 1), (BARE_TWO, 2)):
            note(name, *_rates_of_computing(workers))
    rows = [Row(name, list(rates)) for name, rates in best.items()]
    title = f"{COMPUTING} conversations with an agent that computes"
    return Table(title, "conversations/s", ["elapsed", "of processor time"], rows, base=ONE)


def _computing_suite(folder: Path) -> Path:
    folder.mkdir()
    (folder / "computing_agent.py").write_text(AGENT.replace("ROUNDS", str(ROUNDS)))
    (folder / "offbook.toml").write_text('[agent]\nhandler = "computing_agent:handle"\nprovider = "openai"\n')
    declared = f"for index in range({COMPUTING}):\n    scenario(f'computes {{index}}', turns=['a'])\n"
    (folder / "sim_computing.py").write_text(f"from offbook import scenario\n{declared}")
    entry = {"content": "done", "model": "m"}
    entries = {f"computes {index}/agent/1/agent.answer": entry for index in range(COMPUTING)}
    (folder / "recording.json").write_bytes(orjson.dumps({"_version": 2, **entries}))
    return folder


def _rates_of_computing(processes: int) -> tuple[float, float]:
    """The same work without conversations: what the machine has to give now."""
    watch, before = Stopwatch(), sum(os.times()[:4])
    with quiet(), watch.lap():
        for pid in [_compute_in_fork(COMPUTING // processes) for _ in range(processes)]:
            os.waitpid(pid, 0)
    return COMPUTING / watch.total_us * 1e6, COMPUTING / (sum(os.times()[:4]) - before)


def _compute_in_fork(conversations: int) -> int:
    pid = os.fork()
    if pid == 0:
        for _ in range(conversations * ROUNDS):
            hashlib.sha256(b"a").digest()
        os._exit(0)
    return pid


def _rates_of_command(folder: Path, workers: int) -> tuple[float, float]:
    config, recording = str(folder / "offbook.toml"), str(folder / "recording.json")
    options = ScenarioOptions(mode=Replay(recording), config=config, workers=workers)
    watch, before = Stopwatch(), sum(os.times()[:4])
    with redirect_stdout(io.StringIO()), quiet(), watch.lap():
        assert run_scenarios(options) == 0
    return COMPUTING / watch.total_us * 1e6, COMPUTING / (sum(os.times()[:4]) - before)


def _suites(plan: Plan) -> dict[str, Talks]:
    scripted = [scenario_at(index, "scripted") for index in range(SCENARIOS)]
    simulated = [scenario_at(index, "simulated") for index in range(SCENARIOS)]
    half = SCENARIOS // 2
    scenarios = {"scripted": scripted, "simulated": simulated, "half and half": scripted[:half] + simulated[:half]}
    return {name: Talks(each, plan.library.folder / f"talks {name}.json") for name, each in scenarios.items()}


async def _rates(plan: Plan, name: str, suite: Talks) -> dict[str, float]:
    """Conversations in a second, by the best of several runs, and by the best of as many rounds of their calls."""
    best_us = {RUN: float("inf"), CALLS: float("inf")}
    repeats = plan.repeats(*REPEATS)
    for repeat in range(repeats):
        plan.tell(f"scenarios: {name}, repeat {repeat + 1} of {repeats}")
        running, calling = Stopwatch(), Stopwatch()
        provider = suite.replay()
        with quiet(), running.lap():
            result = await suite.run(provider)
        assert result.passed, name
        provider = suite.replay()
        with quiet(), calling.lap():
            await suite.call(provider)
        best_us = {RUN: min(best_us[RUN], running.total_us), CALLS: min(best_us[CALLS], calling.total_us)}
    return {row: suite.conversations / taken_us * 1e6 for row, taken_us in best_us.items()}


def _notes(plan: Plan, suites: dict[str, Talks]) -> list[str]:
    made = ", ".join(f"{len(suite.requests) / suite.conversations:g} {name}" for name, suite in suites.items())
    return [
        f"best of {plan.repeats(*REPEATS)} repeats; the more, the better; recordings are read before the clock starts",
        f"a conversation has {TURNS} turns with a mocked tool call each, a trajectory to match, and a judge",
        f"calls of models in a conversation: {made}; every call is fingerprinted and its drift checked",
        "its calls alone: the same requests, made before the clock starts, one after the other, on the same recording",
        "processes: the whole command, with discovery and report; what else runs on the machine counts against two",
    ]
