"""The lives of a run that is killed at a call and restarted, joined to one run; a workflow's are forked here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from msgspec.structs import replace

from offbook.explore.isolation import fork_quietly
from offbook.explore.monitor import PROCESS_ENDED, CaseReport, Life, exit_text
from offbook.explore.run import FirstLife, ModelCall, Run, RunFailure, ToolRun
from offbook.faults import Crash, PlannedFault, parse_fault

_exit_now = os._exit  # explored runs replace it
_KILLED = 137
_CRASHED = "crashed"


def first_life(run: Run, before: FirstLife | None = None) -> FirstLife:
    """Return the run until its crash, the last fired fault. It may have been killed `before`."""
    crashes = [line for line in map(parse_fault, run.fired) if isinstance(line.fault, Crash)]
    killed = _describe_crash(crashes[-1])
    return FirstLife(killed if before is None else f"{before.killed}, and again {killed}", run.effects)


def _describe_crash(line: PlannedFault) -> str:
    """Return where a run was killed, like `before call 2` or `after refund 1 had run`."""
    assert isinstance(line.fault, Crash)
    at, when = line.at, line.fault.when
    if at.tool is not None:
        return f"{when} {at.tool} {at.call} {'ran' if when == 'before' else 'had run'}"
    step = "" if at.step_id is None else f" of {at.step_id}"
    return f"before call {at.call}{step}" if when == "before" else f"after the answer to call {at.call}{step}"


def run_until_crash(work: Callable[[Life], Run]) -> tuple[Run, bool]:
    """Run `work` in a forked process, and return its run, and whether it crashed.

    It is given its life: a crash there ends the process, with everything in it.
    """
    reading, writing = os.pipe()
    pid = fork_quietly()
    if pid == 0:
        _run_first_life(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    report = CaseReport.from_bytes(data) if data else CaseReport()
    if report.run is None:
        return Run(error=RunFailure("undeclared", PROCESS_ENDED, exit_text(code))), False
    return report.run, _CRASHED in report.notes


def _run_first_life(work: Callable[[Life], Run], pipe: int) -> NoReturn:
    try:
        _send(pipe, CaseReport(run=work(_CrashingLife(pipe))))
        _exit_now(0)
    finally:
        _exit_now(1)


class _CrashingLife(Life):
    """Ends its process at a planned crash, and sends the run so far through a pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def crash(self, run: Run) -> NoReturn:
        _send(self._pipe, CaseReport(run=run, notes={_CRASHED: ""}))
        _exit_now(_KILLED)


class SecondLife(Life):
    """The life of a run after its crash. Both lives are reported as one run."""

    def __init__(self, first: Run) -> None:
        self._first = first

    def finish(self, run: Run) -> Run:
        return join_lives(self._first, run)


def _send(pipe: int, report: CaseReport) -> None:
    left = memoryview(report.to_bytes())
    while left:
        left = left[os.write(pipe, left) :]


def join_lives(first: Run, second: Run) -> Run:
    """Return both lives as one run: the calls of both, numbered through, and the end of the second."""
    return replace(
        second,
        calls=(*first.calls, *_numbered_after(first.calls, second.calls)),
        tools=(*first.tools, *_counted_after(first.tools, second.tools)),
        fired=(*first.fired, *second.fired),
        diverged=first.diverged or second.diverged,
        continuation=second.continuation or first.continuation,
        effects=(*first.effects, *second.effects),
        declarations=first.declarations | second.declarations,
        marks=(*first.marks, *second.marks),
        took_s=round(first.took_s + second.took_s, 6),
        paths=dict(sorted((Counter(first.paths) + Counter(second.paths)).items())),
        first_life=first_life(first),
        reached=(*first.reached, *second.reached),
    )


def _numbered_after(first: Sequence[ModelCall], second: Sequence[ModelCall]) -> Iterator[ModelCall]:
    last = max((call.number for call in first), default=0)
    for call in second:
        yield replace(call, number=last + call.number)


def _counted_after(first: Sequence[ToolRun], second: Sequence[ToolRun]) -> Iterator[ToolRun]:
    counts = Counter(each.tool for each in first)
    for each in second:
        yield replace(each, call=counts[each.tool] + each.call)
