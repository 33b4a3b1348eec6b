"""Subject: how many cases of an exploration run in a second on Ray, beside worker processes, on this machine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson

from bench.findings import Findings, Row, Table, at_least
from bench.plan import Plan
from bench.stopwatch import Stopwatch, quiet, settled
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import CaseExecutor, Explorer, Subject
from offbook.explore.options import ExploreOptions, select_variants
from offbook.subjects.executors import RayAddress, executor_of
from offbook.subjects.specs import DEFAULT_SETTINGS, WorkflowSpec, open_subject
from offbook.workers.ray_cluster import RayExecutor, open_ray_executor

STEPS, REPEATS, ASKED = 8, (7, 3), 200
PROCESSES, RAY, OF_PROCESSES = "worker processes", "Ray", 0.8
START, TASK = "until the first case", "a call to an actor, there and back"
FAULTS = "http_error,timeout,connection_reset,empty_response,partial_response,malformed_response"


def measure(plan: Plan) -> Findings:
    """The cases of one workflow, on as many workers as there are cores."""
    if importlib.util.find_spec("ray") is None:
        return Findings("cluster", notes=["Ray is not installed: nothing was measured"])
    with _in_project(plan.library.folder / "cluster") as spec, open_subject(spec, DEFAULT_SETTINGS) as subject:
        cases = Explorer(subject, ExploreOptions(variants=select_variants(FAULTS))).cases
        return _compare(plan, spec, subject, cases)


def _compare(plan: Plan, spec: WorkflowSpec, subject: Subject, cases: Sequence[FaultCase]) -> Findings:
    plan.tell("cluster: worker processes")
    processes = executor_of(subject, "auto")
    with settled():  # before Ray is loaded, whose threads and memory make forking slower
        start_s = {PROCESSES: 1.0 / _rate(processes, cases[:1])}
        rates = {PROCESSES: max(_rate(processes, cases) for _ in range(plan.repeats(*REPEATS)))}
    plan.tell("cluster: Ray")
    started = Stopwatch()
    with ExitStack() as stack:
        with started.lap():
            executor = stack.enter_context(open_ray_executor(RayAddress(), spec, DEFAULT_SETTINGS))
            list(executor.run(cases[: executor.workers]))
        start_s[RAY] = started.total_us / 1e6
        stack.enter_context(settled())
        rates[RAY] = max(_rate(executor, cases) for _ in range(plan.repeats(*REPEATS)))
        task_us = _call_us(executor)
    title = f"{len(cases)} cases of a workflow with {STEPS} calls, on {executor.workers} cores"
    table = Table(title, "cases/s", ["cases"], [Row(name, [rate]) for name, rate in rates.items()], base=PROCESSES)
    starts = Table("starting", "s", [START], [Row(name, [start_s[name]]) for name in rates], base=PROCESSES)
    task = Table("what Ray takes", "µs", ["best"], [Row(TASK, [task_us])], base=TASK)
    claim = f"Ray runs {OF_PROCESSES:g} times as many cases a second as worker processes, or more, once it runs"
    targets = at_least(claim, table.ratios(RAY, PROCESSES), OF_PROCESSES)
    notes = [f"best of {plan.repeats(*REPEATS)} repeats, after the start, which is told apart"]
    return Findings("cluster", [table, starts, task], targets, notes)


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
