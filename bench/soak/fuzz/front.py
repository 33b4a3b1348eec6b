"""All targets of the fuzzers, each in processes of its own: `python -m bench.soak.fuzz.front --seconds 60 TARGET …`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct, field

from bench.soak.front import Outcome
from bench.soak.fuzz.targets import TARGETS
from bench.soak.fuzz.worker import MOST_WAIT_S, Defect

ROOT = Path(__file__).parents[3]
STACK_CHARS = 2_000


class _Report(Struct):
    """What a worker printed: how many cases it began, the last of them, its defects, and the stack that it died in."""

    cases: int = 0
    last: int = -1
    defects: list[Defect] = field(default_factory=list)
    stack: str = ""


def attack(*, seconds: float, seed: int, targets: Sequence[str] = tuple(TARGETS)) -> Outcome:
    """Feed every target for its share of the time, as many at once as there are processors.

    Prints each defect once, with the command that runs its case again. The seed decides the cases; how many of them
    there are depends on the time.
    """
    at_once = min(len(targets), os.cpu_count() or 1)
    share_s = seconds * at_once / len(targets)
    outcome = Outcome(unit="inputs")
    with ThreadPoolExecutor(at_once) as pool:
        for found in pool.map(lambda name: _attack(name, seconds=share_s, seed=seed), targets):
            outcome.add(found)
    return outcome


def _attack(name: str, *, seconds: float, seed: int) -> Outcome:
    """Feed one target. A worker that dies costs a case; the next one goes on behind it."""
    outcome, places = Outcome(unit="inputs"), set[str]()
    first, end_s = 0, time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0.0:
        report = _work(name, seconds=left_s, seed=seed, first=first)
        outcome.trials += report.cases
        for defect in report.defects:
            example = _describe(name, seed, defect)
            outcome.lose(example)
            if defect.place not in places:
                print(example, flush=True)
            places.add(defect.place)
        if not report.stack:
            break
        first = report.last + 1
    return outcome


def _work(name: str, *, seconds: float, seed: int, first: int) -> _Report:
    options = ("--seed", str(seed), "--seconds", str(seconds), "--first", str(first))
    command = [sys.executable, "-m", "bench.soak.fuzz.worker", name, *options]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=seconds + 3.0 * MOST_WAIT_S)
        printed, stack = ended.stdout, ended.stderr if ended.returncode else b""
    except subprocess.TimeoutExpired as late:
        printed, stack = late.stdout or b"", b"does not end"
    return _read(printed, stack.decode("utf-8", "replace")[-STACK_CHARS:])


def _read(printed: bytes, stack: str) -> _Report:
    report = _Report(stack=stack)
    for line in printed.splitlines():
        if line.isdigit():
            report.cases, report.last = report.cases + 1, int(line)
        elif line.startswith(b"{"):
            report.defects.append(msgspec.json.decode(line, type=Defect))
    if stack:
        report.defects.append(Defect(report.last, "the process died", stack))
    return report


def _describe(name: str, seed: int, defect: Defect) -> str:
    """Return what went wrong, and how to see it again; growing memory has no single case."""
    case = f" --case {defect.case}" if defect.case >= 0 else ""
    command = f"python -m bench.soak.fuzz.worker {name} --seed {seed}{case}"
    return f"{name}: {defect.place}: {defect.message}\n  {command}"


def main() -> None:
    """Attack the targets that are named, or all of them. Exits with 1 if there are defects."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak.fuzz.front")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all if none is named")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all of them together")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    targets = tuple(arguments.targets) or tuple(TARGETS)
    outcome = attack(seconds=arguments.seconds, seed=arguments.seed, targets=targets)
    print(f"{outcome.trials:,} {outcome.unit}, {outcome.losses:,} defects")
    sys.exit(1 if outcome.losses else 0)


if __name__ == "__main__":
    main()
