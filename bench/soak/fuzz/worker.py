"""One target in a process of its own: `python -m bench.soak.fuzz.worker TARGET --seed 1 --seconds 60 [--case N]`.

The same seed and number give the same case. It prints the number of each case before it runs, and a line of JSON for
each defect. A case that waits for too long ends the process, with the stack that it was in; one that computes for too
long is a defect as well, by the time of the processor, so that a busy machine changes nothing.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from bench.soak.front import rounds
from bench.soak.fuzz.mutate import mutate
from bench.soak.fuzz.target import Target
from bench.soak.fuzz.targets import TARGETS
from bench.soak.memory import sample
from offbook import OffbookError

MOST_WAIT_S = 60.0
MOST_WORK_S = 5.0
MEMORY_LIMIT_BYTES = 3 * 1024**3
WARM_UP_CASES = 200
MOST_GROWTH_MB = 64.0
"""Caches are filled by so many different inputs; a leak is larger after some thousand."""


class Defect(Struct, frozen=True):
    """What went wrong in a case. `place` is the last line of ours in the stack, by which defects are told apart."""

    case: int
    place: str
    message: str


def main() -> None:
    """Feed a target for so long, or one case of it."""
    arguments = _arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory(prefix="offbook-fuzz-") as folder:
        os.environ["TMPDIR"] = folder
        target = TARGETS[arguments.target](Path(folder))
        if arguments.case is not None:
            _show(target, arguments.seed, arguments.case)
        else:
            _feed(target, arguments.seed, arguments.seconds, arguments.first)
        target.close()


def case_of(target: Target, seed: int, number: int) -> bytes:
    """Return the input of a case."""
    return mutate(target.corpus, Random(f"{type(target).__name__}:{seed}:{number}"))


def check_case(target: Target, data: bytes, number: int) -> Defect | None:
    """Feed a target, and return what went wrong."""
    started_s = time.process_time()
    try:
        target.feed(data)
    except OffbookError:
        pass
    except Exception as error:
        return Defect(number, _place(error), f"{type(error).__name__}: {error}"[:500])
    took_s = time.process_time() - started_s
    return Defect(number, "takes too long", f"{took_s:.1f} s") if took_s > MOST_WORK_S else None


def _feed(target: Target, seed: int, seconds: float, first: int) -> None:
    warm_mb = 0.0
    for number in rounds(seconds):
        case = first + number
        _tell(str(case))
        data = case_of(target, seed, case)
        faulthandler.dump_traceback_later(MOST_WAIT_S, exit=True)
        defect = check_case(target, data, case)
        faulthandler.cancel_dump_traceback_later()
        if defect is not None:
            _tell(msgspec.json.encode(defect).decode())
        if number == WARM_UP_CASES:
            warm_mb = sample(number).resident_mb
    if warm_mb and (grown_mb := sample(number).resident_mb - warm_mb) > MOST_GROWTH_MB:
        message = f"{grown_mb:+.1f} MB in {number - WARM_UP_CASES:,} cases"
        _tell(msgspec.json.encode(Defect(-1, "memory grows", message)).decode())


def _show(target: Target, seed: int, number: int) -> None:
    """Run one case, and show its input and its traceback."""
    data = case_of(target, seed, number)
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.flush()
    faulthandler.dump_traceback_later(MOST_WAIT_S, exit=True)
    try:
        target.feed(data)
    except OffbookError as error:
        print(f"refused: {error}")


def _place(error: BaseException) -> str:
    """Return file, line and function of the innermost frame in offbook."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/offbook/" in frame.filename] or frames
    return f"{ours[-1].filename.rpartition('/offbook/')[2]}:{ours[-1].lineno} {ours[-1].name}"


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak.fuzz.worker")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", type=int, help="run this case alone, and show it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
