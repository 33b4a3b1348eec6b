"""Explorations: thousands of cases leave no process behind, and the process that explores does not grow by them."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.explored_programs import descendants
from bench.programs.openai_function import refund_agent
from bench.soak.front import LONG_S, Outcome
from bench.soak.memory import Sample, growth, sample
from offbook.explore.explorer import Explorer
from offbook.explore.options import VARIANTS, ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.subjects.executors import executor_of
from offbook.subjects.function import FunctionSubject
from offbook.subjects.program.program import ProgramSubject

PROGRAM = Path(__file__).parents[1] / "programs" / "plain_http.py"
WORKERS, MAX_TURNS = 2, 8
MANY_CASES = 5_000
ANSWERS = {
    "_version": 2,
    "any": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Order 42 is refunded."},
    ],
}


def attack(*, seconds: float, seed: int) -> Outcome:
    """Run the cases of a function and of a program again and again; 5,000 of each at least, if there is a minute."""
    del seed  # all cases are run, in their order
    outcome, fewest = Outcome(unit="cases"), MANY_CASES if seconds >= LONG_S else 0
    with TemporaryDirectory(prefix="offbook-soak-") as folder:
        recording = Path(folder) / "recording.json"
        recording.write_text(json.dumps(ANSWERS))
        command = [sys.executable, str(PROGRAM), str(MAX_TURNS)]
        for subject in (
            FunctionSubject(refund_agent, recording),
            ProgramSubject(command, replay=recording, settings=ExploreSettings(runs_tools=True)),
        ):
            with closing(subject):
                outcome.add(explore_often(subject, seconds=seconds / 2, fewest=fewest))
            if left := list(descendants(os.getpid())):
                outcome.lose(f"{len(left)} processes are left of {subject.name}")
    return outcome


def explore_often(subject: FunctionSubject | ProgramSubject, *, seconds: float, fewest: int) -> Outcome:
    """Run all cases for so long, and so many at least: memory, descriptors and processes stay the same."""
    outcome, until_s = Outcome(unit="cases"), time.monotonic() + seconds
    variants = select_variants("all", getattr(subject, "variants", VARIANTS))
    executor = executor_of(subject, WORKERS)
    cases = Explorer(subject, ExploreOptions(variants=variants), executor=executor).cases
    samples: list[Sample] = []
    processes: list[int] = []
    files: list[int] = []
    while time.monotonic() < until_s or outcome.trials < fewest or len(samples) < 2:
        outcome.trials += sum(1 for _ in executor.run(cases))
        samples.append(sample(outcome.trials))
        processes.append(len(list(descendants(os.getpid()))))
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    grown = growth(samples)
    if not grown.is_flat:
        memory = f"{grown.blocks:+,} blocks and {grown.resident_mb:+.1f} MB in {grown.calls:,} cases"
        outcome.lose(f"{subject.name}: memory does not stay flat: {memory}")
    if files[-1] > files[0]:
        outcome.lose(f"{subject.name}: {files[0]} descriptors were open, and {files[-1]} are")
    if processes[-1] > processes[0]:
        outcome.lose(f"{subject.name}: there were {processes[0]} processes, and are {processes[-1]}")
    return outcome
