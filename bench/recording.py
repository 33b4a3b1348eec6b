"""Subject: what recording a call costs, in short recordings and in long ones."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec import Struct

from bench.contestants.agentloom import AgentLoomRecorder
from bench.contestants.contestant import Recorder
from bench.contestants.floor import AppendFloor
from bench.contestants.understudy import UnderstudyRecorder
from bench.contestants.vcrpy import LoopbackFloor, VcrpyRecorder
from bench.findings import Findings, Row, Table, Target, at_most
from bench.library import Library, Spec
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet
from bench.workload import Call, call_at, fields_of

JSON, SQLITE = "understudy, JSON", "understudy, SQLite"
QUICK_US, LINEAR = 60.0, 12.0
SHORT, LONG = 1_000, 10_000
SAMPLED_SIZES, SAMPLED_CALLS, SAMPLED_ABOVE = 5, 3, 100


class Cost(Struct, frozen=True):
    """What a call costs in µs: while recording, and with its share of bringing the recording into its final form."""

    call_us: float
    closed_us: float


def measure(plan: Plan) -> Findings:
    """Recordings of each length, with and without closing them."""
    sizes = [100, SHORT, LONG] if plan.is_quick else [100, SHORT, 5_000, LONG]
    recorders = _recorders(plan.library)
    costs = [_best(plan, recorders, size) for size in sizes]
    columns = [f"{size:,} calls" for size in sizes]
    rows, closed_rows = [], []
    for name in (recorder.name for recorder in recorders):
        found = [cost.get(name) for cost in costs]
        rows.append(Row(name, [cost and cost.call_us for cost in found]))
        closed_rows.append(Row(name, [cost and cost.closed_us for cost in found]))
    calls = Table("recording", "µs a call", columns, rows, base=JSON)
    closed = Table("recording, closing included", "µs a call", columns, closed_rows, base=JSON)
    return Findings("recording", [calls, closed], _targets(calls, closed, sizes), _notes(plan))


def _recorders(library: Library) -> list[Recorder]:
    found: list[Recorder] = [
        UnderstudyRecorder(JSON, "{folder}/recording.json"),
        UnderstudyRecorder(SQLITE, "sqlite:///{folder}/recording.db"),
        AppendFloor(),
    ]
    module, base = load_peer("agentloom.providers.recorder"), load_peer("agentloom.providers.base")
    if module and base:
        found.append(AgentLoomRecorder(module, base, lambda size: library.agentloom(Spec(size))))
    if load_peer("vcr"):
        found += [VcrpyRecorder(), LoopbackFloor()]
    return found


def _best(plan: Plan, recorders: list[Recorder], size: int) -> dict[str, Cost]:
    """The best costs of each recorder that is quick enough for the size. They take turns."""
    calls = Spec(size).calls()
    found: dict[str, list[Cost]] = {}
    repeats = _repeats(plan, size)
    for repeat in range(repeats):
        for recorder in (recorder for recorder in recorders if size <= recorder.largest):
            plan.tell(f"recording: {size:,} calls, repeat {repeat + 1} of {repeats}, {recorder.name}")
            is_sampled = recorder.sampled and size > SAMPLED_ABOVE
            found.setdefault(recorder.name, []).append((_sample if is_sampled else _time)(recorder, calls))
    return {
        name: Cost(min(cost.call_us for cost in costs), min(cost.closed_us for cost in costs))
        for name, costs in found.items()
    }


def _repeats(plan: Plan, size: int) -> int:
    return plan.repeats(10, 3) if size < SHORT else plan.repeats(5, 2) if size < LONG else plan.repeats(3, 1)


def _time(recorder: Recorder, calls: Sequence[Call], *, existing: int = 0) -> Cost:
    recording, closing = Stopwatch(), Stopwatch()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        recorder.open(Path(folder), calls, existing=existing)
        with quiet():
            with recording.lap():
                runner.run(recorder.record(calls))
            with closing.lap():
                runner.run(recorder.close())
        recorder.end()
    call_us = recording.total_us / len(calls)
    return Cost(call_us, call_us + closing.total_us / (existing + len(calls)))


def _sample(recorder: Recorder, calls: Sequence[Call]) -> Cost:
    """The mean cost over a recording, from a few calls at sizes spread evenly over it."""
    step = len(calls) // SAMPLED_SIZES
    sizes = range(step // 2, len(calls), step)
    costs = [_time(recorder, calls[size : size + SAMPLED_CALLS], existing=size) for size in sizes]
    call_us = sum(cost.call_us for cost in costs) / len(costs)
    return Cost(call_us, call_us + costs[-1].closed_us - costs[-1].call_us)


def _targets(calls: Table, closed: Table, sizes: list[int]) -> list[Target]:
    found: list[Target] = []
    for store, table in ((JSON, calls), (JSON, closed), (SQLITE, calls)):
        figures = _figures(table, store)
        claim = f"{store}: {table.title} costs at most {QUICK_US:g} µs a call at every size"
        worst = max(figures)
        found.append(Target(claim, f"{worst:.1f} µs, {worst / QUICK_US:.2f}×", worst <= QUICK_US))
    for store in (JSON, SQLITE):
        figures = _figures(closed, store)
        short, long = (figures[sizes.index(size)] * size for size in (SHORT, LONG))
        claim = f"{store}: {LONG:,} calls, closing included, take at most {LINEAR:g}× as long as {SHORT:,}"
        found += at_most(claim, [long / short], LINEAR)
    return found


def _figures(table: Table, name: str) -> list[float]:
    row = table.row(name)
    return [] if row is None else [figure for figure in row.figures if figure is not None]


def _notes(plan: Plan) -> list[str]:
    call = call_at(0)
    return [
        f"each call keeps a request of {len(orjson.dumps(fields_of(call))):,} bytes and an answer of {len(call.answer)}; "
        "AgentLoom keeps the answer alone",
        f"best of {plan.repeats(10, 3)}, {plan.repeats(5, 2)} and {plan.repeats(3, 1)} repeats (up to 999, up to 9,999 and "
        f"{LONG:,} calls), each into a new recording; the wrapped provider answers at once",
        f"AgentLoom writes its whole file at every call: above {SAMPLED_ABOVE} calls its mean is taken from "
        f"{SAMPLED_CALLS} calls at each of {SAMPLED_SIZES} sizes spread over the recording",
        "vcrpy records real HTTP calls over loopback and writes its file on closing; it matches on method and URI",
    ]
