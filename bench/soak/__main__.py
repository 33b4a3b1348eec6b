"""The command: `python -m bench.soak [--quick] [--only PART] …`. Exits with 1 if something does not hold."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import offbook
from bench.console import new_console
from bench.soak import (
    explore,
    intruders,
    killed_explorations,
    killed_tests,
    kills,
    leaks,
    maintenance,
    mcp,
    proxied,
    requests,
    written,
)
from bench.soak.front import Front, Outcome
from bench.soak.fuzz import front as fuzz
from bench.soak.memory import Growth, Sample, growth, sample
from bench.soak.tally import Tally
from bench.soak.traffic import Traffic
from bench.soak.wire import hold_streams
from offbook import MemorySink
from offbook.errors import BreakerOpenError
from offbook.events import Event
from offbook.gateway.breaker import Breaker

FULL = {"calls": 100_000, "runs": 1_000, "streams": 500, "seconds": 60.0, "front_seconds": 60.0, "fuzz_seconds": 180.0}
QUICK = {"calls": 5_000, "runs": 50, "streams": 100, "seconds": 12.0, "front_seconds": 6.0, "fuzz_seconds": 36.0}
ROUND = 1_000
CALLS_A_RUN = 50


def main() -> None:
    """Soak, repeat, attack, and tell."""
    arguments = _arguments()
    console = new_console()
    started_s = time.perf_counter()
    with _progress(console) as progress:
        parts = [name for name in _chosen(arguments) if name in PARTS]
        complaints = [message for name in parts for message in PARTS[name](arguments, console, progress)]
        outcomes = {name: _attack(name, arguments, progress) for name in _chosen(arguments) if name in FRONTS}
    complaints += _show_fronts(console, outcomes)
    console.print(f"took {time.perf_counter() - started_s:.0f} s")
    for complaint in complaints:
        console.print(f"[red]not met[/] {escape(complaint)}")
    if complaints:
        sys.exit(1)
    console.print("[green]all held[/]")


def _soak(arguments: argparse.Namespace, console: Console, progress: Progress) -> list[str]:
    """One gateway through all calls: nothing is left behind, and memory stays flat."""
    tally = Tally()
    traffic = Traffic(seed=arguments.seed, sink=tally)
    samples: list[Sample] = []
    complaints: list[str] = []
    bar = progress.add_task("calls", total=arguments.calls)
    for first in range(0, arguments.calls, ROUND):
        numbers = range(first, min(first + ROUND, arguments.calls))
        complaints += offbook.run(_round(traffic, numbers), virtual_time=True)
        samples.append(sample(numbers.stop))
        progress.update(bar, completed=numbers.stop)
    grown = growth(samples)
    _show(console, tally, samples, grown)
    message = f"{grown.blocks:+,} blocks and {grown.resident_mb:+.1f} MB in {grown.calls:,} calls"
    return complaints + tally.unended() + ([] if grown.is_flat else [f"memory stays flat: {message}"])


async def _round(traffic: Traffic, numbers: range) -> list[str]:
    await traffic.flow(numbers)
    left = len(asyncio.all_tasks()) - 1
    shut = [name for name, breaker in traffic.gateway.breakers.items() if not _lets_through(breaker)]
    tasks = [f"no task is left after call {numbers.stop:,}: {left} are"] if left else []
    return tasks + [f"no breaker is shut an hour after call {numbers.stop:,}: that of {name} is" for name in shut]


def _lets_through(breaker: Breaker) -> bool:
    try:
        period = breaker.enter()
    except BreakerOpenError:
        return False
    breaker.leave("neither", period=period)
    return True


def _show(console: Console, tally: Tally, samples: list[Sample], grown: Growth) -> None:
    first, last = samples[0], samples[-1]
    kinds = ", ".join(f"{kind.__name__} {count:,}" for kind, count in sorted(tally.kinds.items(), key=_count)[::-1])
    ends = ", ".join(f"{end} {count:,}" for end, count in tally.ends.most_common())
    console.print(f"calls    {last.calls:,}: {ends}")
    console.print(f"events   {kinds}", soft_wrap=True)
    console.print(
        f"memory   {first.resident_mb:.1f} MB after {first.calls:,} calls, {last.resident_mb:.1f} MB at the end"
    )
    console.print(
        f"growth   {grown.resident_mb:+.1f} MB and {grown.blocks:+,} blocks over the last {grown.calls:,} calls"
    )


def _count(item: tuple[type, int]) -> int:
    return item[1]


def _repeat(arguments: argparse.Namespace, console: Console, progress: Progress) -> list[str]:
    """Many runs of the same calls: all events are the same every time."""
    bar = progress.add_task("runs", total=arguments.runs)
    first, different = _lived(arguments.seed), 0
    for number in range(1, arguments.runs):
        different += _lived(arguments.seed) != first
        progress.update(bar, completed=number + 1)
    console.print(f"repeats  {arguments.runs:,} runs of {CALLS_A_RUN} calls at once, {len(first):,} events each")
    return [f"every run is the same: {different} of {arguments.runs:,} are not"] if different else []


def _lived(seed: int) -> list[Event]:
    sink = MemorySink()
    offbook.run(Traffic(seed=seed, sink=sink).flow(range(CALLS_A_RUN)), virtual_time=True)
    return sink.events


def _hold(arguments: argparse.Namespace, console: Console, progress: Progress) -> list[str]:
    """One server with many streams at once: nothing is left behind, and every stream is its session's own."""
    bar = progress.add_task("seconds", total=arguments.seconds)
    return hold_streams(
        console,
        streams=arguments.streams,
        seconds=arguments.seconds,
        seed=arguments.seed,
        on_progress=lambda seconds: progress.update(bar, completed=seconds),
    )


PARTS = {"gateway": _soak, "repeats": _repeat, "wire": _hold}
FRONTS: dict[str, Front] = {
    "maintenance": maintenance.attack,
    "kills": kills.attack,
    "killed_tests": killed_tests.attack,
    "killed_explorations": killed_explorations.attack,
    "mcp": mcp.attack,
    "requests": requests.attack,
    "proxied": proxied.attack,
    "explore": explore.attack,
    "leaks": leaks.attack,
    "written": written.attack,
    "intruders": intruders.attack,
    "fuzz": fuzz.attack,
}


def _chosen(arguments: argparse.Namespace) -> list[str]:
    return arguments.only or [*PARTS, *FRONTS]


def _attack(name: str, arguments: argparse.Namespace, progress: Progress) -> Outcome:
    bar = progress.add_task(name, total=1)
    seconds = arguments.fuzz_seconds if name == "fuzz" else arguments.front_seconds
    outcome = FRONTS[name](seconds=seconds, seed=arguments.seed)
    progress.update(bar, completed=1)
    return outcome


def _show_fronts(console: Console, outcomes: dict[str, Outcome]) -> list[str]:
    """Show trials and losses of each front, and return the losses as complaints."""
    if not outcomes:
        return []
    table = Table("front", "trials", "losses", box=None, pad_edge=False)
    for name, outcome in outcomes.items():
        table.add_row(name, f"{outcome.trials:,} {outcome.unit}", f"{outcome.losses:,}")
    console.print(table)
    lost = {name: outcome for name, outcome in outcomes.items() if outcome.losses or not outcome.trials}
    return [
        f"{name}: {outcome.losses:,} losses in {outcome.trials:,} {outcome.unit}: {'; '.join(outcome.examples)}"
        for name, outcome in lost.items()
    ]


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description="Run the gateway and the server for long, and attack all fronts."
    )
    parser.add_argument("--quick", action="store_true", help="much less of all")
    parser.add_argument("--only", action="append", choices=[*PARTS, *FRONTS], help="soak one part; repeatable")
    parser.add_argument("--calls", type=int, help="calls through one gateway")
    parser.add_argument("--runs", type=int, help="repeats of one run")
    parser.add_argument("--streams", type=int, help="streams at once from one server")
    parser.add_argument("--seconds", type=float, help="how long streams are held")
    parser.add_argument("--front-seconds", type=float, help="how long each front is attacked")
    parser.add_argument("--fuzz-seconds", type=float, help="how long all targets together are fuzzed")
    parser.add_argument("--seed", type=int, default=1, help="decides what fails and who leaves")
    options = parser.parse_args()
    parser.set_defaults(**(QUICK if options.quick else FULL))
    return parser.parse_args()


if __name__ == "__main__":
    main()
