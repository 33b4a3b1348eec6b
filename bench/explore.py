"""Subject: how many cases an exploration runs in a second, beside the clean run alone, forked and replayed as often."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from bench.explored_node import measure_node
from bench.explored_programs import FORKED, FRESH, measure_long_programs, measure_programs
from bench.findings import Findings, Row, Table, Target, at_least
from bench.plan import Plan
from bench.programs.openai_function import refund_agent
from bench.stopwatch import Stopwatch, quiet, settled
from offbook import RecordingProvider, run
from offbook.explore.explorer import Explorer
from offbook.explore.harness import Harness
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.run import Run
from offbook.faults import FaultPlan
from offbook.messages import JsonObject, Reply, Request, Response, WholeReply
from offbook.providers.provider import Provider
from offbook.subjects.function import FunctionSubject

CALLS, REPEATS = 30, (7, 3)
OURS, FLOOR = "an exploration with all faults", "the clean run, forked as often"
UNFORKED = "the clean run, as often, without a fork"
NEAR_FLOOR = 0.6
SDK_CASES_PER_S = 150.0


class Score(Struct, frozen=True):
    """How many runs there were in a second, and how many tries of calls in those."""

    runs: float
    calls: float


class _Model(Provider):
    """Answers whatever it is asked, and says how long the conversation is."""

    name = "model"

    async def send(self, request: Request) -> Reply:
        return WholeReply(Response(f"That is answer {len(request.messages)}.", request.model))


async def _converse(provider: Provider) -> str:
    messages: list[JsonObject] = [{"role": "system", "content": "Answer in one sentence."}]
    for number in range(CALLS):
        messages.append({"role": "user", "content": f"Question {number}: what is to be done about it?"})
        response = await provider.complete(messages, "gpt-4o", step_id="answer")
        messages.append({"role": "assistant", "content": response.content})
    return response.content


async def _agent(harness: Harness) -> str:
    return await _converse(harness.gateway)


def measure(plan: Plan) -> Findings:
    """A conversation of many calls, with each fault at each call."""
    recording = plan.library.folder / "explored.json"
    run(_record(recording))
    best: dict[str, Score] = {}
    cases = 0
    with settled():
        for repeat in range(plan.repeats(*REPEATS)):
            plan.tell(f"explore: repeat {repeat + 1} of {plan.repeats(*REPEATS)}")
            explored = _explored(recording)
            cases = len(explored[0])
            others = ((FLOOR, _replayed(recording, cases)), (UNFORKED, _replayed(recording, cases, forks=False)))
            for name, runs in ((OURS, explored), *others):
                score = _score(*runs)
                best[name] = max(best.get(name, score), score, key=lambda each: each.runs)
    title = f"{cases} cases of a run with {CALLS} calls, one after the other"
    tables = [
        Table(title, "runs/s", ["runs"], [Row(name, [score.runs]) for name, score in best.items()], base=OURS),
        Table(title, "calls/s", ["calls"], [Row(name, [score.calls]) for name, score in best.items()], base=OURS),
    ]
    sdk, in_time = measure_sdk(plan)
    tables.append(sdk)
    programs, agents = measure_programs(plan)
    claim = f"an exploration runs its cases at {NEAR_FLOOR:.0%} of the rate of forked clean runs or more"
    targets = at_least(claim, tables[0].ratios(OURS, FLOOR), NEAR_FLOOR)
    for agent, ratio in zip(agents, programs[0].ratios(FORKED, FRESH), strict=True):
        times = f"forked cases of a program with {agent.name} run {agent.target:g} times as fast as fresh ones"
        targets += at_least(times, [ratio], agent.target)
    node, node_targets = measure_node(plan)
    long, in_a_minute = measure_long_programs(plan)
    all_targets = [*targets, in_time, *node_targets, *in_a_minute]
    return Findings("explore", [*tables, *programs, *node, *long], all_targets, _notes(plan))


SDK_TITLE = "cases of an agent on the openai SDK: two calls and a tool, one after the other"
SDK_ANSWERS: JsonObject = {
    "_version": 2,
    "agent": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Order 42 is refunded."},
    ],
}


def measure_sdk(plan: Plan) -> tuple[Table, Target]:
    """How many cases a second an in-process agent on a real SDK has: SDKs take longer than all of the rest."""
    recording, best, cases = plan.library.folder / "explored_sdk.json", dict[str, float](), 0
    recording.write_bytes(orjson.dumps(SDK_ANSWERS))
    for _ in range(plan.repeats(*REPEATS)):
        explored = _explored(recording, agent=refund_agent)
        cases = len(explored[0])
        others = [_replayed(recording, cases, forks=forks, agent=refund_agent) for forks in (True, False)]
        for name, (runs, took_us) in zip((OURS, FLOOR, UNFORKED), (explored, *others), strict=True):
            best[name] = max(best.get(name, 0.0), len(runs) / took_us * 1e6)
    rows = [Row(name, [rate]) for name, rate in best.items()]
    claim = f"an exploration of an agent on a real SDK runs {SDK_CASES_PER_S:g} cases a second"
    reached = Target(claim, f"{best[OURS]:.0f}", best[OURS] >= SDK_CASES_PER_S)
    return Table(f"{cases} {SDK_TITLE}", "runs/s", ["runs"], rows, base=OURS), reached


async def _record(path: Path) -> None:
    async with RecordingProvider(_Model(), path) as provider:
        await _converse(provider)


def _explored(recording: Path, *, agent: Callable[[Harness], Any] = _agent) -> tuple[list[Run], float]:
    """The runs of an exploration, and how long they took, in µs; the clean run is made before."""
    watch = Stopwatch()
    with closing(FunctionSubject(agent, recording)) as subject:
        explorer = Explorer(subject, ExploreOptions(variants=select_variants("all")))
        cases = explorer.cases
        with quiet(), watch.lap():
            exploration = explorer.explore(cases)
    return [each.run for each in exploration.results], watch.total_us


def _replayed(
    recording: Path, times: int, *, forks: bool = True, agent: Callable[[Harness], Any] = _agent
) -> tuple[list[Run], float]:
    """As many clean runs, and how long they took; each in a process of its own if `forks`, else all in this one."""
    watch = Stopwatch()
    with closing(FunctionSubject(agent, recording)) as subject:
        replay = subject.run if forks else subject.run_here
        replay(FaultPlan(), "stubborn")
        with quiet(), watch.lap():
            runs = [replay(FaultPlan(), "stubborn") for _ in range(times)]
    return runs, watch.total_us


def _score(runs: list[Run], took_us: float) -> Score:
    return Score(len(runs) / took_us * 1e6, sum(len(each.calls) for each in runs) / took_us * 1e6)


def _notes(plan: Plan) -> list[str]:
    return [
        f"best of {plan.repeats(*REPEATS)} repeats; the more, the better; the recording is read before",
        "the clean run goes the same way: virtual time, a gateway, observers, no fault in its plan",
        "a case that makes a request which was never recorded runs three times, and counts once",
        "a case whose run fails ends early, and one that recovers asks more: hence the calls, too",
        "programs: the same sample of all faults both ways, after the clean run and loading the libraries",
        "fresh cases wait in real time, forked ones and those of Node do not: processors are compared, too",
    ]
