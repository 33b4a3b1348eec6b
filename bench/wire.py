"""Subject: how fast a server stands in for a vendor's API, beside another one and beside bare uvicorn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from msgspec import Struct

from bench.contestants.wire_aimock import AimockServer
from bench.contestants.wire_floor import FloorServer
from bench.contestants.wire_offbook import OffbookServer
from bench.contestants.wire_server import FRAMES, Case, RunningServer, WireContestant
from bench.findings import Findings, Row, Table, Target, at_least, at_most
from bench.http_load import Order, Pace, drive_apart
from bench.plan import Plan

OURS, FLOOR = OffbookServer.name, FloorServer.name
FEW, MANY = 1, 32
SIZES = (1, 1_000, 10_000)
ROUNDS, WARM_UP_S, TIMED_S = (24, 8), 0.05, 0.3
STARTS = 3
FIRST_LAP_S = 2.0
"""A lap that does not count: what compiles itself while it runs is done with that by then."""
SHARED, MORE = 2, 1.25
NEAR_FLOOR, FASTER, FASTER_IN_MANY, FASTER_STREAMS = 0.8, 2.5, 8.0, 5.0


class Lap(Struct, frozen=True):
    """How fast a server was, and how long it had a processor for that; None where the system does not tell."""

    pace: Pace
    server_s: float | None


class Score(Struct, frozen=True):
    """The best of several laps, and what a request cost the server on the average of all."""

    rate: float
    p50_us: float
    p99_us: float
    busy: float
    server_us: float | None


class Start(Struct, frozen=True):
    """What it takes until a server has answered once."""

    started_ms: float
    cpu_ms: float
    resident_mb: float


Scores: TypeAlias = dict[tuple[Case, int, str], Score]


def measure(plan: Plan) -> Findings:
    """Whole answers with few entries and with many, on one connection and on many; streams; and starting."""
    cases = [Case(size) for size in plan.sizes(*SIZES)]
    mixed = [] if plan.is_quick else [Case(cases[-1].size, is_mixed=True)]
    stream = Case(1, is_stream=True)
    aimock = AimockServer(plan.library.folder)
    scores: Scores = {}
    for case in [*cases, *mixed, stream]:
        with _servers(plan, case, aimock) as servers:
            scores |= _compete(plan, case, servers, [FEW, MANY] if case in cases else [MANY])
    names = list(servers)
    starts = {case: _best_starts(plan, case, aimock) for case in cases[1:]}
    tables = [
        _rates("answers to whole requests", scores, [*cases, *mixed], names, MANY),
        _rates("answers to whole requests", scores, cases, names, FEW),
        _waits(scores, cases, names, MANY),
        _waits(scores, cases, names, FEW),
        _rates(f"streams of {FRAMES} frames, all of them due at once", scores, [stream], names, MANY),
        _costs(scores, [*cases, *mixed, stream], names),
        _starts(starts, names),
    ]
    processes = _processes(plan, cases[0])
    targets = _targets(tables[0], tables[4], aimock.name, cases)
    for case, ratio in zip(starts, tables[-1].ratios(OURS, aimock.name)[::3], strict=False):
        targets += at_most(f"the server has answered once no later than aimock, with {_title(case)}", [ratio], 1.0)
    claim = f"a request costs {SHARED} processes on one port at most {MORE:g}x the processor time of one"
    targets += at_most(claim, processes.ratios(f"{OURS}, {SHARED} processes", OURS), MORE)
    return Findings("wire", [*tables, processes], targets, [*_left_out(aimock), *_notes(plan, scores)])


@contextmanager
def _servers(plan: Plan, case: Case, aimock: AimockServer) -> Iterator[dict[str, RunningServer]]:
    """All contestants, ready for a case."""
    plan.tell(f"wire: starting servers with {case.size:,} entries")
    with ExitStack() as stack:

        def started(contestant: WireContestant) -> RunningServer:
            return stack.enter_context(RunningServer(contestant, case))

        ours = started(OffbookServer(plan.library))
        servers = {OURS: ours, FLOOR: started(FloorServer(plan.library.folder, ours))}
        if not aimock.absent:
            servers[aimock.name] = started(aimock)
        yield servers


def _processes(plan: Plan, case: Case) -> Table:
    """What a request costs one process, and several on one port."""
    names = {OURS: 1, f"{OURS}, {SHARED} processes": SHARED}
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(RunningServer(OffbookServer(plan.library, processes=count), case))
            for name, count in names.items()
        }
        scores = _compete(plan, case, servers, [MANY])
    return _costs(scores, [case], list(names))


def _best_starts(plan: Plan, case: Case, aimock: AimockServer) -> dict[str, Start]:
    """The quickest of several starts of each server, and the least memory."""
    found: dict[str, list[RunningServer]] = {}
    for _ in range(STARTS):
        with _servers(plan, case, aimock) as servers:
            for name, server in servers.items():
                found.setdefault(name, []).append(server)
    return {
        name: Start(
            min(server.started_ms for server in starts),
            min(server.first_cpu_s for server in starts) * 1000.0,
            min(server.first_mb for server in starts),
        )
        for name, starts in found.items()
    }


def _compete(plan: Plan, case: Case, servers: dict[str, RunningServer], connections: list[int]) -> Scores:
    """Laps of all servers, which take turns."""
    requests, rounds = case.requests(), plan.repeats(*ROUNDS)
    for server in servers.values():
        drive_apart(Order(server.port, requests, MANY, WARM_UP_S, FIRST_LAP_S))
    laps: dict[tuple[Case, int, str], list[Lap]] = {}
    for number in range(rounds):
        for count in connections:
            for name, server in servers.items():
                plan.tell(f"wire: {_title(case)}, {count} connections, round {number + 1} of {rounds}, {name}")
                order = Order(server.port, requests, count, WARM_UP_S, TIMED_S)
                laps.setdefault((case, count, name), []).append(_lap(server, order))
    return {key: _best(paces) for key, paces in laps.items()}


def _lap(server: RunningServer, order: Order) -> Lap:
    before_s = server.cpu_s
    pace = drive_apart(order)
    after_s = server.cpu_s
    return Lap(pace, None if before_s is None or after_s is None else after_s - before_s)


def _best(laps: list[Lap]) -> Score:
    paces = [lap.pace for lap in laps]
    server_s = [lap.server_s for lap in laps if lap.server_s is not None]
    fastest = max(paces, key=lambda pace: pace.rate)
    return Score(
        fastest.rate,
        min(pace.p50_us for pace in paces),
        min(pace.p99_us for pace in paces),
        fastest.busy,
        sum(server_s) * 1e6 / sum(pace.total for pace in paces) if server_s else None,
    )


def _title(case: Case) -> str:
    if case.is_stream:
        return f"{FRAMES} frames"
    entries = "1 entry" if case.size == 1 else f"{case.size:,} entries"
    return f"{entries}, asked in turn" if case.is_mixed else entries


def _rates(title: str, scores: Scores, cases: list[Case], names: list[str], connections: int) -> Table:
    rows = [Row(name, [scores[case, connections, name].rate for case in cases]) for name in names]
    return Table(f"{title}, {_connected(connections)}", "a second", [_title(case) for case in cases], rows, base=OURS)


def _waits(scores: Scores, cases: list[Case], names: list[str], connections: int) -> Table:
    columns = [f"{share}, {_title(case)}" for case in cases for share in ("p50", "p99")]
    rows = []
    for name in names:
        found = [scores[case, connections, name] for case in cases]
        rows.append(Row(name, [figure for score in found for figure in (score.p50_us, score.p99_us)]))
    return Table(f"time of an answer, {_connected(connections)}", "µs", columns, rows, base=OURS)


def _costs(scores: Scores, cases: list[Case], names: list[str]) -> Table:
    rows = [Row(name, [scores[case, MANY, name].server_us for case in cases]) for name in names]
    title = f"processor time of the server, {_connected(MANY)}"
    return Table(title, "µs a request", [_title(case) for case in cases], rows, base=OURS)


def _starts(starts: dict[Case, dict[str, Start]], names: list[str]) -> Table:
    columns = [f"{what}, {_title(case)}" for case in starts for what in ("ms", "processor ms", "MB")]
    rows = []
    for name in names:
        found = [start[name] for start in starts.values()]
        figures = [(each.started_ms, each.cpu_ms, each.resident_mb) for each in found]
        rows.append(Row(name, [figure for each in figures for figure in each]))
    return Table("from nothing to the first answer, and memory then", "ms and MB", columns, rows, base=OURS)


def _connected(connections: int) -> str:
    return "1 connection" if connections == 1 else f"{connections} connections"


def _targets(rates: Table, streams: Table, aimock: str, cases: list[Case]) -> list[Target]:
    """What whole answers are to be on many connections. What is asked in turn is told, and no target."""
    to_floor = rates.ratios(OURS, FLOOR)[: len(cases)]
    found = at_least(
        f"the server answers at {NEAR_FLOOR:.0%} of bare uvicorn's rate at every size", to_floor, NEAR_FLOOR
    )
    to_peer = dict(zip([case.size for case in cases], rates.ratios(OURS, aimock), strict=False))
    for size, least in ((SIZES[0], FASTER), (SIZES[-1], FASTER_IN_MANY)):
        claim = f"the server answers at {least:g}x aimock's rate or more, with {_title(Case(size))}"
        found += at_least(claim, [to_peer[size]] if size in to_peer else [], least)
    claim = f"the server sends streams of {FRAMES} frames at {FASTER_STREAMS:g}x aimock's rate or more"
    return found + at_least(claim, streams.ratios(OURS, aimock), FASTER_STREAMS)


def _left_out(aimock: AimockServer) -> list[str]:
    return [f"aimock is left out: {aimock.absent}"] if aimock.absent else []


def _notes(plan: Plan, scores: Scores) -> list[str]:
    case = Case(1)
    at_floor = scores[case, MANY, FLOOR]
    return [
        f"best of {plan.repeats(*ROUNDS)} rounds of {TIMED_S:g} s, in which the servers take turns",
        f"starting: best of {STARTS}; processor time: the average of all rounds",
        "every server is a process of its own on one core, who asks is another on the other; all on loopback",
        f"request: {len(case.requests()[0]):,} bytes, and the entry that answers it is the last",
        "asked in turn: every other entry, so that hardly any request was read by the server before",
        "ours is strict: every request is read and fingerprinted unless the same was read before, and every call noted",
        "aimock is strict, too; it compares the user's last message alone, and keeps the last 1,000 requests",
        "the floor reads the body and answers the same bytes to all: uvicorn with httptools on asyncio's loop as ours,",
        "without a log and without headers of its own, and no write waits for another to be confirmed",
        "frames of ours that are due together leave together, as the floor's one chunk does; aimock writes each",
        f"the asking process was busy {at_floor.busy:.0%} of the time at the floor's {at_floor.rate:,.0f} a second",
    ]
