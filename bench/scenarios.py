"""Subject: how many conversations a replayed suite of scenarios holds in a second, beside the bare calls in it."""

from __future__ import annotations

from bench.findings import Findings, Row, Table
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from bench.talks import CONVERSATIONS, TURNS, Talks, scenario_at
from offbook import run

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
    return Findings("scenarios", [table], [], _notes(plan, suites))


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
        "a suite runs in one process; on more cores, run parts of it side by side",
    ]
