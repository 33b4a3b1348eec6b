"""Subject: what recording a call costs, in short recordings and in long ones."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

import orjson
from msgspec import Struct

from bench.contestants.agentloom import AgentLoomRecorder
from bench.contestants.contestant import Recorder
from bench.contestants.floor import AppendFloor
from bench.contestants.offbook import OffbookRecorder
from bench.contestants.vcrpy import LoopbackFloor, VcrpyRecorder
from bench.findings import Findings, Row, Table, Target, at_most
from bench.library import Library, Spec
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from bench.workload import Call, call_at, fields_of
from offbook import Redactor

JSON, SQLITE = "offbook, JSON", "offbook, SQLite"
QUICK_US, LINEAR = 60.0, 12.0
SHORT, LONG = 1_000, 10_000
BLOCK = 100
REDACTED_CHARS, WORST_MS = 200_000, 3_000
HOSTILE_WORDS = (
    "sk-",
    "sk-a-",
    "-eyJ",
    "-----BEGIN PRIVATE KEY-----",
    "glft-",
    "sk_",
    "twitter=",
    '"password":',
    "?key=",
)
SAMPLED_SIZES, SAMPLED_CALLS, SAMPLED_ABOVE = 5, 3, 100


class Run(Struct, frozen=True):
    """One recording made: what a call cost in each block of calls, and what closing cost, in µs."""

    blocks_us: list[float]
    closing_us: float


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
        rows.append(Row(name, [None if cost is None else cost.call_us for cost in found]))
        closed_rows.append(Row(name, [None if cost is None else cost.closed_us for cost in found]))
    calls = Table("recording", "µs a call", columns, rows, base=JSON)
    closed = Table("recording, closing included", "µs a call", columns, closed_rows, base=JSON)
    redaction = _redaction()
    targets = [*_targets(calls, closed, sizes), *_redaction_targets(redaction)]
    return Findings("recording", [calls, closed, redaction], targets, _notes(plan))


def _redaction() -> Table:
    """What redaction costs for ordinary text, and for texts that are made to take long."""
    text = " ".join(json.dumps(fields_of(call_at(number))) for number in range(200))
    worst = [word * (REDACTED_CHARS // len(word)) for word in HOSTILE_WORDS]
    ordinary_ms = _redaction_ms(text * (REDACTED_CHARS // len(text) + 1))
    figures = [ordinary_ms, max(_redaction_ms(each) for each in worst)]
    return Table(
        "redaction", "ms a megabyte", ["ordinary text", "the worst text"], [Row("offbook", [*figures])], base="offbook"
    )


def _redaction_ms(text: str) -> float:
    redactor = Redactor()
    redactor.text(text[:1000])
    started_s = time.process_time()
    redactor.text(text)
    return (time.process_time() - started_s) * 1000 / (len(text) / 1e6)


def _redaction_targets(table: Table) -> list[Target]:
    ordinary, worst = (figure or 0.0 for figure in table.rows[0].figures)
    claim = f"redaction takes at most {WORST_MS:,} ms for a megabyte of any text"
    return [
        Target(claim, f"{worst:,.0f} ms, {worst / ordinary:,.0f}x of ordinary text", worst <= WORST_MS),
    ]


def _recorders(library: Library) -> list[Recorder]:
    found: list[Recorder] = [
        OffbookRecorder(JSON, "{folder}/recording.json"),
        OffbookRecorder(SQLITE, "sqlite:///{folder}/recording.db"),
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
    runs: dict[str, list[Run]] = {}
    repeats = _repeats(plan, size)
    with settled():
        for repeat in range(repeats):
            plan.tell(f"recording: {size:,} calls, repeat {repeat + 1} of {repeats}")
            for recorder in recorders:
                if size <= recorder.largest and repeat < recorder.repeats:
                    runs.setdefault(recorder.name, []).append(_run(recorder, calls))
    return {name: _cost(of_one, size) for name, of_one in runs.items()}


def _repeats(plan: Plan, size: int) -> int:
    return plan.repeats(20, 5) if size < SHORT else plan.repeats(10, 3) if size < LONG else plan.repeats(5, 2)


def _cost(runs: list[Run], size: int) -> Cost:
    """What a call costs, from the best time of each block and of closing."""
    blocks = [min(times) for times in zip(*(run.blocks_us for run in runs), strict=True)]
    call_us = sum(blocks) / len(blocks)
    return Cost(call_us, call_us + min(run.closing_us for run in runs) / size)


def _run(recorder: Recorder, calls: list[Call]) -> Run:
    if recorder.sampled and len(calls) > SAMPLED_ABOVE:
        return _sample(recorder, calls)
    blocks = [calls[start : start + BLOCK] for start in range(0, len(calls), BLOCK)]
    return _time(recorder, blocks)


def _sample(recorder: Recorder, calls: list[Call]) -> Run:
    """A recording of which only a few blocks are made, at sizes spread evenly over it."""
    step = len(calls) // SAMPLED_SIZES
    runs = [
        _time(recorder, [calls[size : size + SAMPLED_CALLS]], existing=size)
        for size in range(step // 2, len(calls), step)
    ]
    return Run([run.blocks_us[0] for run in runs], runs[-1].closing_us)


def _time(recorder: Recorder, blocks: list[list[Call]], *, existing: int = 0) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        recorder.open(Path(folder), [call for block in blocks for call in block], existing=existing)
        with quiet():
            run = asyncio.run(_timed(recorder, blocks))
        recorder.end()
    return run


async def _timed(recorder: Recorder, blocks: list[list[Call]]) -> Run:
    blocks_us = []
    for block in blocks:
        watch = Stopwatch()
        with watch.lap():
            await recorder.record(block)
        blocks_us.append(watch.total_us / len(block))
    watch = Stopwatch()
    with watch.lap():
        await recorder.close()
    return Run(blocks_us, watch.total_us)


def _targets(calls: Table, closed: Table, sizes: list[int]) -> list[Target]:
    found: list[Target] = []
    for store, table in ((JSON, calls), (JSON, closed), (SQLITE, calls)):
        figures = _figures(table, store)
        claim = f"{store}: {table.title} costs at most {QUICK_US:g} µs a call at every size"
        worst = max(figures)
        found.append(Target(claim, f"{worst:.1f} µs, {worst / QUICK_US:.2f}x", worst <= QUICK_US))
    for store in (JSON, SQLITE):
        figures = _figures(closed, store)
        short, long = (figures[sizes.index(size)] * size for size in (SHORT, LONG))
        claim = f"{store}: {LONG:,} calls, closing included, take at most {LINEAR:g}x as long as {SHORT:,}"
        found += at_most(claim, [long / short], LINEAR)
    return found


def _figures(table: Table, name: str) -> list[float]:
    row = table.row(name)
    return [] if row is None else [figure for figure in row.figures if figure is not None]


def _notes(plan: Plan) -> list[str]:
    call = call_at(0)
    repeats = ", ".join(f"{_repeats(plan, size)} of {size:,} calls" for size in (100, SHORT, LONG))
    return [
        f"each call has a request of {len(orjson.dumps(fields_of(call))):,} bytes and an answer of {len(call.answer)}",
        f"several repeats ({repeats}; slow peers 3), each into a new recording; the wrapped provider answers at once",
        f"the figure is the mean over the recording of the best time of each {BLOCK} calls; contestants take turns",
        "ours and the floor keep request and answer, AgentLoom the answer alone",
        "the prompt speaks of a password, as prompts do, which redaction may have to look at more closely",
        "AgentLoom writes its whole file at each call, and a long run of it is not waited for:",
        f"above {SAMPLED_ABOVE} calls its mean is that of {SAMPLED_CALLS} calls at each of {SAMPLED_SIZES} sizes",
        "vcrpy records real HTTP calls over loopback, matched on method and URI, and writes its file when it is closed",
    ]
