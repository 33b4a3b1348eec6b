"""Subject: what opening a recording takes, in time and in memory, each time in a fresh process."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.findings import Findings, Row, Table, Target, at_most
from bench.library import Library, Spec
from bench.opening import Opening
from bench.peers import load_peer
from bench.plan import Plan

ANSWERS, HASHES = "offbook, JSON, answers alone", "offbook, JSON, with request_hash"
REQUESTS, SQLITE = (
    "offbook, JSON, with request_hash and request",
    "offbook, SQLite, with request_hash and request",
)
AGENTLOOM = "AgentLoom, answers alone"
SMALL_MB, CONSTANT = 10.0, 1.5
COMMANDS = ("show", "check", "diff")


class Opener(Struct, frozen=True):
    """A contestant: its name, who opens, and the file it opens at a size."""

    name: str
    who: str
    locate: Callable[[int], str]


def measure(plan: Plan) -> Findings:
    """Opening recordings of each size."""
    sizes = plan.sizes(1_000, 10_000, 100_000)
    openers = _openers(plan.library)
    columns = [_best(plan, openers, size) for size in sizes]
    tables = [_table(title, unit, name, sizes, columns) for name, title, unit in _FIGURES]
    tables.append(_files(openers, sizes))
    commands = _commands(plan)
    return Findings("load", [*tables, commands], [*_targets(tables), *_linear(commands)], _notes(plan))


def _commands(plan: Plan) -> Table:
    """What commands take for each key of a recording: the time of the processor, start included."""
    sizes = [2_000, 20_000 if plan.is_quick else 200_000]
    rows = []
    for name in COMMANDS:
        plan.tell(f"load: recording {name}")
        rows.append(Row(f"recording {name}", [_per_key_us(name, plan.library, size) for size in sizes]))
    columns = [f"{size:,} keys" for size in sizes]
    return Table("a command, for each key", "µs", columns, rows, base=f"recording {COMMANDS[0]}")


def _per_key_us(name: str, library: Library, size: int) -> float:
    location = library.json(Spec(size, detail="hashes"))
    files = [location, location] if name == "diff" else [location]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("offbook")), "recording", name, *files]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / size * 1e6


def _linear(table: Table) -> list[Target]:
    """The targets that no command takes longer for a key of a large recording than for one of a small."""
    few, many = table.columns
    return [
        target
        for row in table.rows
        for target in at_most(f"{row.name}: a key of {many} takes no longer than one of {few}", [_growth(row)], 1.0)
    ]


def _growth(row: Row) -> float:
    few, many = (figure or 0.0 for figure in row.figures)
    return many / few


_FIGURES = (
    ("open_ms", "opening a recording", "ms"),
    ("answer_ms", "opening a recording, and the first answer", "ms"),
    ("resident_mb", "memory grown, recording open", "MB"),
    ("peak_mb", "memory grown, at the peak", "MB"),
)


def _openers(library: Library) -> list[Opener]:
    found = [
        Opener(ANSWERS, "offbook", lambda size: library.json(Spec(size, detail="answers"))),
        Opener(HASHES, "offbook", lambda size: library.json(Spec(size, detail="hashes"))),
        Opener(REQUESTS, "offbook", lambda size: library.json(Spec(size))),
        Opener(SQLITE, "offbook", lambda size: library.sqlite(Spec(size))),
    ]
    if load_peer("agentloom.providers.mock"):
        found.append(Opener(AGENTLOOM, "agentloom", lambda size: library.agentloom(Spec(size))))
    return found


def _best(plan: Plan, openers: list[Opener], size: int) -> dict[str, Opening]:
    """The best of several openings by each contestant. They take turns."""
    found: dict[str, list[Opening]] = {}
    repeats = _repeats(plan, size)
    for repeat in range(repeats):
        for opener in openers:
            plan.tell(f"load: {size:,} entries, repeat {repeat + 1} of {repeats}, {opener.name}")
            found.setdefault(opener.name, []).append(_open(opener.who, opener.locate(size)))
    return {name: _least(openings) for name, openings in found.items()}


def _repeats(plan: Plan, size: int) -> int:
    return plan.repeats(3, 2) if size >= 100_000 else plan.repeats(7, 3)


def _open(who: str, location: str) -> Opening:
    command = [sys.executable, "-m", "bench.opening", who, location]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Opening)


def _least(openings: list[Opening]) -> Opening:
    return Opening(*(min(getattr(opening, name) for opening in openings) for name, *_ in _FIGURES))


def _table(title: str, unit: str, name: str, sizes: list[int], columns: list[dict[str, Opening]]) -> Table:
    rows = [Row(who, [getattr(column[who], name) for column in columns]) for who in columns[0]]
    return Table(title, unit, [f"{size:,} entries" for size in sizes], rows, base=HASHES)


def _files(openers: list[Opener], sizes: list[int]) -> Table:
    rows = [Row(opener.name, [_size_mb(opener.locate(size)) for size in sizes]) for opener in openers]
    return Table("size of the file", "MB", [f"{size:,} entries" for size in sizes], rows, base=HASHES)


def _size_mb(location: str) -> float:
    return Path(location.removeprefix("sqlite:///")).stat().st_size / 1024.0 / 1024.0


def _targets(tables: list[Table]) -> list[Target]:
    opened, answered, _, peak = tables[:4]
    found: list[Target] = []
    for table in (opened, answered):
        figures = _figures(table, SQLITE)
        claim = f"SQLite: {table.title} takes with {table.columns[-1]} at most {CONSTANT:g}x as long as with 1,000"
        found += at_most(claim, [figures[-1] / figures[0]], CONSTANT)
    most_mb = max(_figures(peak, SQLITE))
    found.append(
        Target(
            f"SQLite: opening takes at most {SMALL_MB:g} MB at every size",
            f"{most_mb:.1f} MB, {most_mb / SMALL_MB:.2f}x",
            most_mb <= SMALL_MB,
        )
    )
    for name in (ANSWERS, HASHES):
        found += at_most(f"{name}: opened no slower than AgentLoom's file", opened.ratios(name, AGENTLOOM), 1.0)
    return found


def _figures(table: Table, name: str) -> list[float]:
    row = table.row(name)
    return [] if row is None else [figure for figure in row.figures if figure is not None]


def _notes(plan: Plan) -> list[str]:
    return [
        f"best of {_repeats(plan, 1_000)} fresh processes ({_repeats(plan, 100_000)} of 100,000 entries), taking turns",
        "files are in the system's cache; imports come before the clock starts and before memory is first read",
        "all files hold the same answers: content, model, usage, cost, latency, finish reason",
        "ours is opened strict, which needs request_hash (answers alone: lenient); the request is what a miss shows",
    ]
