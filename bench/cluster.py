"""Subject: how many cases of an exploration run in a second on Ray, beside worker processes, on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import orjson
from msgspec import Struct

from bench.findings import Findings, Row, Table, at_least
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import CaseExecutor, Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import DEFAULT_SETTINGS
from offbook.subjects.executors import RayAddress, executor_of
from offbook.subjects.specs import WorkflowSpec, open_subject
from offbook.workers.ray_cluster import RayExecutor, open_ray_executor

STEPS, REPEATS, ASKED = 8, (7, 3), 200
PROCESSES, RAY, OF_PROCESSES = "worker processes", "Ray", 0.8
START, TASK = "until the first case", "a call to an actor, there and back"
FAULTS = "http_error,timeout,connection_reset,empty_response,partial_response,malformed_response"


class Figures(Struct):
    """Cases a second and the seconds until the first case, by who runs them, and what a call to an actor takes."""

    cases: int
    workers: int
    rates: dict[str, float]
    start_s: dict[str, float]
    task_us: float


def measure(plan: Plan) -> Findings:
    """The cases of one workflow, on as many workers as there are cores, from a process that has loaded no more than the
    command does: its forks are the worker processes."""
    if importlib.util.find_spec("ray") is None:
        return Findings("cluster", notes=["Ray is not installed: nothing was measured"])
    plan.tell("cluster: worker processes, and Ray")
    repeats = plan.repeats(*REPEATS)
    command = [sys.executable, "-m", "bench.cluster", str(plan.library.folder / "cluster"), str(repeats)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found = msgspec.json.decode(printed.splitlines()[-1], type=Figures)
    title = f"{found.cases} cases of a workflow with {STEPS} calls, on {found.workers} cores"
    rows = [Row(name, [rate]) for name, rate in found.rates.items()]
    table = Table(title, "cases/s", ["cases"], rows, base=PROCESSES)
    starts = Table("starting", "s", [START], [Row(name, [found.start_s[name]]) for name in found.rates], base=PROCESSES)
    task = Table("what Ray takes", "µs", ["best"], [Row(TASK, [found.task_us])], base=TASK)
    claim = f"Ray runs {OF_PROCESSES:g} times as many cases a second as worker processes, or more, once it runs"
    targets = at_least(claim, table.ratios(RAY, PROCESSES), OF_PROCESSES)
    notes = [f"best of {repeats} repeats, after the start, which is told apart"]
    return Findings("cluster", [table, starts, task], targets, notes)


def compare(folder: Path, repeats: int) -> Figures:
    """Run the cases with worker processes, and then with Ray."""
    with _in_project(folder) as spec, open_subject(spec, DEFAULT_SETTINGS) as subject, ExitStack() as stack:
        cases = Explorer(subject, ExploreOptions(variants=select_variants(FAULTS))).cases
        processes = executor_of(subject, "auto")
        with settled():  # before Ray is loaded, whose threads and memory make forking slower
            start_s = {PROCESSES: 1.0 / _rate(processes, cases[:1])}
            rates = {PROCESSES: max(_rate(processes, cases) for _ in range(repeats))}
        started = Stopwatch()
        with started.lap():
            executor = stack.enter_context(open_ray_executor(RayAddress(), spec, DEFAULT_SETTINGS))
            list(executor.run(cases[: executor.workers]))
        start_s[RAY] = started.total_us / 1e6
        stack.enter_context(settled())
        rates[RAY] = max(_rate(executor, cases) for _ in range(repeats))
        task_us = _call_us(executor)
        return Figures(len(cases), executor.workers, rates, start_s, task_us)


def _rate(executor: CaseExecutor, cases: Sequence[FaultCase]) -> float:
    watch = Stopwatch()
    with quiet(), watch.lap():
        assert len(list(executor.run(cases))) == len(cases)
    return len(cases) / watch.total_us * 1e6


def _call_us(executor: RayExecutor) -> float:
    best = float("inf")
    for _ in range(ASKED):
        watch = Stopwatch()
        with watch.lap():
            executor.worker_pid(0)
        best = min(best, watch.total_us)
    return best


@contextmanager
def _in_project(folder: Path) -> Iterator[WorkflowSpec]:
    """Work in a folder with a workflow of several model calls and its recording."""
    folder.mkdir()
    before = Path.cwd()
    names = [f"step{number}" for number in range(STEPS)]
    lines = ["name: chain", "config: {provider: openai, model: demo}", "steps:"]
    for earlier, name in zip([None, *names], names, strict=False):
        needs = f"depends_on: [{earlier}], " if earlier else ""
        lines.append(f"  - {{id: {name}, type: llm_call, {needs}prompt: 'Say {name}', output: {name}}}")
    (folder / "flow.yaml").write_text("\n".join(lines) + "\n")
    (folder / "run.json").write_bytes(orjson.dumps({"_version": 2, **{name: {"content": name} for name in names}}))
    os.chdir(folder)
    try:
        yield WorkflowSpec(recording="run.json", file="flow.yaml")
    finally:
        os.chdir(before)


if __name__ == "__main__":
    print(msgspec.json.encode(compare(Path(sys.argv[1]), int(sys.argv[2]))).decode(), flush=True)
