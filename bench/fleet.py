"""Simulates a fleet on the virtual clock, with measured costs: `python -m bench.fleet [--costs FILE] [NAME=VALUE …]`.

Shards, a shared store and a server in processes, each for more and more machines, and what a million entries need.
Nothing here is random but the lengths of cases, which are drawn from a seed: the same costs give the same figures.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from bench.findings import Findings, Row, Table
from offbook.clock import SYSTEM_CLOCK, run
from offbook.shard import shard_of

SEED = 18
SPREAD = 0.5
"""How much the lengths of cases differ: the sigma of their logarithms."""
CASES = 100_000
RUNNERS = (1, 10, 100, 1_000)
SHARDS = (1, 4, 16, 64, 256)
PROCESSES = (1, 2, 4, 8)
ENTRIES = (1_000, 100_000, 1_000_000)


class Costs(Struct, frozen=True, kw_only=True):
    """What each part costs. The defaults were measured by `make bench`; `--costs` takes the figures of another run.

    `case_us` is a case of an exploration on one core; `merged_case_us`, `written_case_us` and `part_case_bytes` are a
    case that is read from the report of a shard, written to that of the whole, and in the file. `start_s` is what a
    runner takes until its first case: its interpreter, and the run without a fault. `think_us` is what an agent does
    between two calls. A shared store answers a read in `store_us` of its own time, over a network with `network_us` for
    the way there and back. `ray_task_us` is what Ray takes for a case beside the case itself. What is None was not
    measured, and is not simulated.
    """

    case_us: float = 70_000.0
    start_s: float = 2.0
    merged_case_us: float = 190.0
    written_case_us: float = 320.0
    part_case_bytes: float = 3_600.0
    replayed_call_us: float = 6.0
    recorded_call_us: float = 60.0
    served_request_us: float = 34.0
    json_entry_us: float = 8.5
    json_entry_bytes: float = 2_900.0
    json_memory_bytes: float = 4_400.0
    sqlite_entry_bytes: float = 4_300.0
    think_us: float = 5_000.0
    network_us: float = 200.0
    store_us: float | None = 24.0
    ray_task_us: float | None = 740.0


MEASURED = {
    "case_us": ("explore", "an exploration with all faults", 1e6),
    "merged_case_us": ("shards", "reading and merging", None),
    "written_case_us": ("shards", "writing the JSON report of all", None),
    "replayed_call_us": ("replay", "offbook, JSON", None),
    "recorded_call_us": ("recording", "offbook, JSON", None),
    "served_request_us": ("wire", "offbook, 2 processes", None),
    "store_us": ("redis", "the server, to find a call in any order", None),
    "ray_task_us": ("cluster", "a call to an actor, there and back", None),
}
"""Where a cost is in the figures of `python -m bench --json`: the subject, the row in the first of its tables that has
such a row, and what is divided by a rate."""


def measured_costs(found: list[Findings], costs: Costs) -> Costs:
    """Return the costs with those that a run of the benchmark has measured: the last figure of their rows."""
    subjects = {each.subject: each for each in found}
    changed = {}
    for name, (subject, row, rate) in MEASURED.items():
        tables = subjects[subject].tables if subject in subjects else []
        figures = next((at.figures for table in tables if (at := table.row(row)) is not None), [])
        figure = next((each for each in reversed(figures) if each), None)
        if figure is not None:
            changed[name] = figure if rate is None else rate / figure
    return replace(costs, **changed)


def shard_times_s(costs: Costs, shards: int, *, cases: int) -> tuple[float, float]:
    """Return how long an exploration takes in so many shards and how long its merging does, in seconds.

    Each machine has one core. The cases are those that `--shard` gives it, and differ in length.
    """
    random = Random(SEED)
    loads_s = [0.0] * shards
    for number in range(1, cases + 1):
        length = random.lognormvariate(-(SPREAD**2) / 2, SPREAD)  # 1 on average
        loads_s[shard_of(f"{number:04}", shards) - 1] += costs.case_us / 1e6 * length
    explored_s = run(_slowest(costs.start_s, loads_s), virtual_time=True)
    return explored_s, 0.0 if shards == 1 else cases * (costs.merged_case_us + costs.written_case_us) / 1e6


async def _slowest(start_s: float, loads_s: list[float]) -> float:
    began_s = SYSTEM_CLOCK.monotonic_s()
    await asyncio.gather(*(SYSTEM_CLOCK.sleep_s(start_s + load_s) for load_s in loads_s))
    return SYSTEM_CLOCK.monotonic_s() - began_s


class StoreLoad(Struct, frozen=True):
    """How a shared store does: calls a second of all runners, how long a call waits for it, and how busy it is."""

    rate: float
    wait_us: float
    busy: float


def store_load(costs: Costs, runners: int, *, store_us: float, calls: int = 20) -> StoreLoad:
    """Return how a store that answers one read at a time does, if so many runners make so many calls each."""
    return run(_ask_store(costs, runners, store_us, calls), virtual_time=True)


async def _ask_store(costs: Costs, runners: int, store_us: float, calls: int) -> StoreLoad:
    turn, waits_us = asyncio.Lock(), list[float]()
    random = Random(SEED)

    async def runner(start_us: float) -> None:
        await SYSTEM_CLOCK.sleep_s(start_us / 1e6)
        for _ in range(calls):
            asked_s = SYSTEM_CLOCK.monotonic_s()
            await SYSTEM_CLOCK.sleep_s(costs.network_us / 2e6)
            async with turn:
                await SYSTEM_CLOCK.sleep_s(store_us / 1e6)
            await SYSTEM_CLOCK.sleep_s(costs.network_us / 2e6)
            waits_us.append((SYSTEM_CLOCK.monotonic_s() - asked_s) * 1e6)
            await SYSTEM_CLOCK.sleep_s(costs.think_us / 1e6)

    began_s = SYSTEM_CLOCK.monotonic_s()
    await asyncio.gather(*(runner(random.random() * costs.think_us) for _ in range(runners)))
    took_s = SYSTEM_CLOCK.monotonic_s() - began_s
    total = runners * calls
    return StoreLoad(total / took_s, sum(waits_us) / total, total * store_us / 1e6 / took_s)


def simulate(costs: Costs, *, cases: int = CASES, runners: tuple[int, ...] = RUNNERS) -> Findings:
    """Return the curves of a fleet with these costs: an exploration of so many cases, a store of so many runners."""
    tables = [_shards(costs, cases), _server(costs), _entries(costs)]
    notes = [f"{each.name} = {getattr(costs, each.name):g}" for each in fields(costs) if getattr(costs, each.name)]
    missing = [each.name for each in fields(costs) if getattr(costs, each.name) is None]
    if costs.store_us is not None:
        tables.insert(1, _store(costs, costs.store_us, runners))
    if costs.ray_task_us is not None:
        rate = 1e6 / (costs.case_us + costs.ray_task_us)
        figures: list[float | None] = [count * rate for count in runners]
        tables.append(
            Table("cases with Ray", "a second", _counted(runners, "worker"), [Row("Ray", figures)], base="Ray")
        )
    left_out = [f"not measured, and left out: {', '.join(missing)}"] if missing else []
    return Findings("fleet", tables, notes=[*notes, *left_out])


def _counted(numbers: tuple[int, ...], noun: str) -> list[str]:
    return [f"1 {noun}" if number == 1 else f"{number:,} {noun}s" for number in numbers]


def _shards(costs: Costs, cases: int) -> Table:
    times = [shard_times_s(costs, shards, cases=cases) for shards in SHARDS]
    rows = [
        Row("exploring", [explored_s for explored_s, _ in times]),
        Row("merging", [merged_s for _, merged_s in times]),
        Row("both", [sum(both) for both in times]),
    ]
    return Table(f"{cases:,} cases, a core a shard", "s", _counted(SHARDS, "shard"), rows, base="both")


def _store(costs: Costs, store_us: float, runners: tuple[int, ...]) -> Table:
    loads = [store_load(costs, count, store_us=store_us) for count in runners]
    rows = [
        Row("calls a second", [load.rate for load in loads]),
        Row("a call waits, µs", [load.wait_us for load in loads]),
        Row("the store is busy, %", [100.0 * load.busy for load in loads]),
    ]
    return Table("one shared store", "", _counted(runners, "runner"), rows, base="calls a second")


def _server(costs: Costs) -> Table:
    rates: list[float | None] = [count * 1e6 / costs.served_request_us for count in PROCESSES]
    rows = [Row("serve --processes", rates)]
    return Table("requests, a core a process", "a second", [f"{n}" for n in PROCESSES], rows, base="serve --processes")


def _entries(costs: Costs) -> Table:
    def scaled(cost: float, unit: float) -> list[float | None]:
        return [size * cost / unit for size in ENTRIES]

    rows = [
        Row("JSON: opening, s", scaled(costs.json_entry_us, 1e6)),
        Row("JSON: memory of a runner, MB", scaled(costs.json_memory_bytes, 1e6)),
        Row("JSON: the file, MB", scaled(costs.json_entry_bytes, 1e6)),
        Row("SQLite: the file, MB", scaled(costs.sqlite_entry_bytes, 1e6)),
        Row("recording on one core, s", scaled(costs.recorded_call_us, 1e6)),
        Row("replaying on one core, s", scaled(costs.replayed_call_us, 1e6)),
        Row("parts of shards, a case each, MB", scaled(costs.part_case_bytes, 1e6)),
    ]
    return Table("recordings", "", [f"{size:,} entries" for size in ENTRIES], rows, base=rows[0].name)


def render(found: Findings) -> str:
    """Return the curves as text."""
    lines: list[str] = []
    for table in found.tables:
        rows = [("", *table.columns), *((row.name, *map(_figure, row.figures)) for row in table.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append(f"{table.title}, {table.unit}".rstrip(", "))
        for name, *cells in rows:
            aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *aligned]))
        lines.append("")
    return "\n".join([*lines, *found.notes])


def _figure(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def parse_cost(text: str) -> tuple[str, float]:
    """Return the name and the value of a cost like `store_us=25`."""
    name, _, value = text.partition("=")
    known = [each.name for each in fields(Costs)]
    if name not in known:
        raise argparse.ArgumentTypeError(f"there is no cost {name!r}; costs: {', '.join(known)}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected {name}=NUMBER above 0, got {text!r}")
    return name, number


def main() -> None:
    """Simulate, and print the curves."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description="Simulate a fleet with measured costs.")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="the figures of python -m bench --json FILE")
    parser.add_argument("cost", nargs="*", type=parse_cost, metavar="NAME=VALUE", help="a cost: store_us=25")
    arguments = parser.parse_args()
    costs = Costs()
    if arguments.costs is not None:
        costs = measured_costs(msgspec.json.decode(arguments.costs.read_bytes(), type=list[Findings]), costs)
    print(render(simulate(replace(costs, **dict(arguments.cost)))))


if __name__ == "__main__":
    main()
