"""Executors of the cases of a subject: serial, in threads, or in worker processes."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Literal, Protocol, Self, TypeAlias

import msgspec

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.run import Run, RunFailure
from offbook.explore.runner import CaseExecutor, SerialExecutor, Subject
from offbook.faults import FaultPlan, PlannedFault
from offbook.subjects.program import ProgramSubject
from offbook.subjects.specs import WorkerMessage, WorkerReady, WorkerRejection, WorkerSpec


class StoppableSubject(Subject, Protocol):
    """A subject whose runs can be ended from outside."""

    def stop(self) -> None:
        """End what is running, and what is started from now on."""
        ...


class ThreadExecutor:
    """Runs several cases at once. What is running is stopped when nobody wants the results any more."""

    def __init__(self, subject: StoppableSubject, workers: int) -> None:
        self._subject, self._workers = subject, workers

    def run(self, cases: Sequence[FaultCase]) -> Iterator[Run]:
        with ThreadPoolExecutor(self._workers) as pool:
            runs = [pool.submit(self._subject.run, case.plan) for case in cases]
            try:
                for run in runs:
                    yield run.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._subject.stop()
                raise


START_LIMIT_S = 120.0
"""How long a worker may take to make its clean run."""


class WorkerProcess:
    """A process of its own that runs the cases of a subject, one after the other.

    A case during which the process ends has crashed, and one that takes longer than `limit_s` has hung; whoever asks
    again starts another process.

    Raises:
        InputError: from `run`: the worker cannot run its subject.
    """

    def __init__(self, spec: WorkerSpec, *, limit_s: float) -> None:
        self._spec, self._limit_s = spec, limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, lines: tuple[PlannedFault, ...]) -> Run:
        """What a run with these faults did."""
        process = self._process or self._start()
        said = self._asked(process, lines)
        if said is not None:
            return said
        code, is_late = process.poll(), process.poll() is None
        self.end()
        fired = tuple(str(line) for line in lines)
        if is_late:
            return Run(hung=f"its process had to be ended after {self._limit_s:g} s", fired=fired)
        return Run(error=RunFailure("undeclared", "ProcessEnded", _exit_text(code)), fired=fired)

    def end(self) -> None:
        """End the process, if there is one. Safe to call from any thread."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                _close_pipe(pipe)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "offbook.subjects.worker"]
        process = self._process = subprocess.Popen(  # noqa: S603 - it is this very Python
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        said = self._said(process, self._spec, START_LIMIT_S)
        if isinstance(said, WorkerReady):
            return process
        self.end()
        if isinstance(said, WorkerRejection):
            raise InputError(said.reason, source=said.source, place=said.place, hint=said.hint)
        raise InputError("a worker ended before its first case", hint="explore with --workers 1 to see why")

    def _asked(self, process: subprocess.Popen[bytes], lines: tuple[PlannedFault, ...]) -> Run | None:
        """What became of a case, or None if the process has ended, or does not answer."""
        match self._said(process, lines, self._limit_s):
            case WorkerRejection(reason, source, place, hint):
                self.end()
                raise InputError(reason, source=source, place=place, hint=hint)
            case WorkerReady() | None:
                return None
            case done:
                return done.run

    def _said(self, process: subprocess.Popen[bytes], told: object, limit_s: float) -> WorkerMessage | None:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(told) + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limit_s)[0]:
            return None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            process.wait()
            return None
        said: WorkerMessage = msgspec.json.decode(line, type=WorkerMessage)
        return said


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code} ended the process"
    return f"the process ended with exit status {code}"


def _close_pipe(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


GRACE_S = 10.0
"""How much longer than its deadline a run may take before its worker is ended: it should have ended itself."""


class ProcessExecutor:
    """Runs `count` cases at once, each in a process of its own, and tells of them in the order of the cases.

    Processes are started when they are needed, and ended with the block.
    """

    def __init__(self, spec: WorkerSpec, count: int) -> None:
        limit_s = spec.settings.deadlines.real_s + GRACE_S
        self._workers = [WorkerProcess(spec, limit_s=limit_s) for _ in range(count)]
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def run(self, cases: Sequence[FaultCase]) -> Iterator[Run]:
        with ThreadPoolExecutor(len(self._workers)) as pool:
            runs = [pool.submit(self._run, case) for case in cases]
            try:
                for run in runs:
                    yield run.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, case: FaultCase) -> Run:
        worker = self._idle.get()
        try:
            return worker.run(case.lines)
        finally:
            self._idle.put(worker)


class SilentSubject:
    """The subject itself, without what it prints to standard output."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject

    def run(self, plan: FaultPlan) -> Run:
        with redirect_stdout(io.StringIO()):
            return self._subject.run(plan)


Workers: TypeAlias = int | Literal["auto"]
PARALLEL_THRESHOLD_S = 2.0
"""What all cases together must take, for further workers to pay off."""


class TimedSubject:
    """A subject of which it is known how long its last run took, in real time."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject
        self.took_s = 0.0

    def run(self, plan: FaultPlan) -> Run:
        started_s = SYSTEM_CLOCK.monotonic_s()
        try:
            return self._subject.run(plan)
        finally:
            self.took_s = SYSTEM_CLOCK.monotonic_s() - started_s


class AutoExecutor:
    """Chooses its `executor` when the first cases are there, by how long the clean run took. Ends them with the block.

    With `auto` there is one for each core, but a single one, right here, if all cases take little time. Programs are
    processes anyway: threads wait for them. What runs print is not heard.
    """

    def __init__(self, subject: Subject, spec: WorkerSpec, workers: Workers) -> None:
        self._silent = SilentSubject(subject)
        self.subject = TimedSubject(self._silent)
        self._own, self._spec, self._workers = subject, spec, workers
        self.executor: CaseExecutor | None = None
        self._opened = ExitStack()

    def run(self, cases: Sequence[FaultCase]) -> Iterator[Run]:
        if self.executor is None:
            self.executor = self._of(min(self._count(cases), max(len(cases), 1)))
        return self.executor.run(cases)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _count(self, cases: Sequence[FaultCase]) -> int:
        if self._workers != "auto":
            return self._workers
        return 1 if len(cases) * self.subject.took_s < PARALLEL_THRESHOLD_S else os.cpu_count() or 1

    def _of(self, count: int) -> CaseExecutor:
        if count == 1:
            return SerialExecutor(self._silent)
        if isinstance(self._own, ProgramSubject):
            return ThreadExecutor(self._own, count)
        return self._opened.enter_context(ProcessExecutor(self._spec, count))
