"""Subject: how many conversations a replayed suite of scenarios holds in a second, beside the bare calls in it."""

from __future__ import annotations

import subprocess
import sys

from bench.findings import Findings, Row, Table, at_least
from bench.plan import Plan
from bench.programs.computing_suite import write_suite
from bench.stopwatch import Stopwatch, quiet, settled
from bench.talks import CONVERSATIONS, TURNS, Talks, scenario_at
from offbook import run

SCENARIOS, REPEATS = 200, (5, 3)
PROGRAM = "bench.programs.computing_suite"
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
    processes, starts = measure_processes(plan)
    gained, possible = processes.ratios(TWO, ONE)[0], processes.ratios(BARE_TWO, BARE_ONE)[0]
    targets = at_least(f"a suite whose agent computes runs {AT_TWO:g} times as fast in two processes", [gained], AT_TWO)
    claim = f"it gains {OF_POSSIBLE:.0%} of what two bare processes gain or more"
    targets += at_least(claim, [gained / possible], OF_POSSIBLE)
    return Findings("scenarios", [table, processes, starts], targets, _notes(plan, suites))


ONE, TWO, AT_TWO = "in one process", "in two processes", 1.7
BARE_ONE, BARE_TWO, OF_POSSIBLE = "the computing alone, in one", "the computing alone, in two", 0.85
COMPUTING, SHORTEST, COMPUTED = 300, 2, (5, 3)


def measure_processes(plan: Plan) -> tuple[Table, Table]:
    """Conversations a second of `offbook test --workers`, with its discovery and report, and for its processor time;
    and how long the shortest suite takes, which is what starting and ending processes takes."""
    long = write_suite(plan.library.folder / "computing", COMPUTING)
    short = write_suite(plan.library.folder / "starting", SHORTEST)
    work = {name: ("suite", str(long), processes) for name, processes in ((ONE, 1), (TWO, 2))}
    work |= {name: ("bare", str(COMPUTING), processes) for name, processes in ((BARE_ONE, 1), (BARE_TWO, 2))}
    starts = {name: ("suite", str(short), processes) for name, processes in ((ONE, 1), (TWO, 2))}
    took, started = (_best_times(plan, each) for each in (work, starts))
    rows = [Row(name, [COMPUTING / taken for taken in times]) for name, times in took.items()]
    title, columns = f"{COMPUTING} conversations with an agent that computes", ["elapsed", "of processor time"]
    table = Table(title, "conversations/s", columns, rows, base=ONE)
    start_rows = [Row(name, [times[0] * 1000.0]) for name, times in started.items()]
    return table, Table(f"{SHORTEST} of these conversations: the start", "ms", ["elapsed"], start_rows, base=ONE)


def _best_times(plan: Plan, work: dict[str, tuple[str, str, int]]) -> dict[str, tuple[float, float]]:
    """The least that each took, in seconds and in seconds of processors. They take turns."""
    best = dict.fromkeys(work, (float("inf"), float("inf")))
    repeats = plan.repeats(*COMPUTED)
    for repeat in range(repeats):
        plan.tell(f"scenarios: processes, repeat {repeat + 1} of {repeats}")
        for name, (what, place, processes) in work.items():
            command = [sys.executable, "-m", PROGRAM, what, place, str(processes)]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            elapsed_s, of_processors_s = map(float, printed.split())
            best[name] = min(best[name][0], elapsed_s), min(best[name][1], of_processors_s)
    return best


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
        "processes: the whole command in a process of its own, with discovery and report, without imports",
        "what else runs on the machine counts against two processes; the computing alone shows what two could gain now",
    ]
