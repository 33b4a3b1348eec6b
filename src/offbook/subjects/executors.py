"""Executors of the cases of a subject: serial, in threads, or in worker processes."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Literal, NoReturn, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.run import Continuation, Run, RunFailure
from offbook.explore.runner import CaseExecutor, SerialExecutor, Subject, runs_of
from offbook.faults import FaultPlan, PlannedFault
from offbook.subjects.specs import WorkerMessage, WorkerReady, WorkerRejection, WorkerResult, WorkerSpec


def _run_in_threads(
    count: int, run: Callable[[FaultCase], tuple[Run, ...]], cases: Sequence[FaultCase], *, stop: Callable[[], object]
) -> Iterator[tuple[Run, ...]]:
    """Run cases in `count` threads. `stop` ends what is running when the results are no longer wanted."""
    with ThreadPoolExecutor(count) as pool:
        runs = [pool.submit(run, case) for case in cases]
        try:
            for each in runs:
                yield each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


@runtime_checkable
class StoppableSubject(Subject, Protocol):
    """A subject whose runs can be ended from outside: a program."""

    def stop(self) -> None:
        """End the current runs, and those that are started from now on."""
        ...


class ThreadExecutor:
    """Runs several cases at once in threads."""

    def __init__(self, subject: StoppableSubject, workers: int) -> None:
        self._subject, self._workers = subject, workers

    def run(self, cases: Sequence[FaultCase]) -> Iterator[tuple[Run, ...]]:
        subject = self._subject
        return _run_in_threads(self._workers, lambda case: runs_of(subject, case.plan), cases, stop=subject.stop)


START_LIMIT_S = 120.0
"""How long a worker may take to start and make its clean run."""


class WorkerProcess:
    """A process that runs the cases of a subject, one after the other.

    A case during which the process ends has crashed, and one that takes longer than `limit_s` has hung. The next case
    starts another process.

    Raises:
        InputError: from `run`: the worker cannot run its subject.
    """

    def __init__(self, spec: WorkerSpec, *, limit_s: float) -> None:
        self._spec, self._limit_s = spec, limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, lines: tuple[PlannedFault, ...]) -> Run:
        """Run the subject with these faults."""
        process = self._process or self._start()
        message = self._request(process, lines, self._limit_s)
        if isinstance(message, WorkerResult):
            return message.run
        if isinstance(message, WorkerRejection):
            self._reject(message)
        code, fired = process.poll(), tuple(str(line) for line in lines)
        self.end()
        if code is None:
            return Run(hung=f"its process had to be ended after {self._limit_s:g} s", fired=fired)
        return Run(error=RunFailure("undeclared", "ProcessEnded", _exit_text(code)), fired=fired)

    def end(self) -> None:
        """Kill the process, if there is one. Safe to call from any thread."""
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
        message = self._request(process, self._spec, START_LIMIT_S)
        if isinstance(message, WorkerReady):
            return process
        if isinstance(message, WorkerRejection):
            self._reject(message)
        self.end()
        raise InputError("a worker ended before its first case", hint="explore with --workers 1 to see why")

    def _reject(self, rejection: WorkerRejection) -> NoReturn:
        self.end()
        raise InputError(rejection.reason, source=rejection.source, place=rejection.place, hint=rejection.hint)

    def _request(self, process: subprocess.Popen[bytes], line: object, limit_s: float) -> WorkerMessage | None:
        """Send a line and return the answer; None if the process has ended or does not answer in time."""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(line) + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limit_s)[0]:
            return None
        answer = process.stdout.readline()
        if not answer.endswith(b"\n"):
            process.wait()
            return None
        message: WorkerMessage = msgspec.json.decode(answer, type=WorkerMessage)
        return message


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code} ended the process"
    return f"the process ended with exit status {code}"


def _close_pipe(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


GRACE_S = 10.0
"""How much longer than its deadline a run may take before its worker is killed: it should have ended by itself."""


class ProcessExecutor:
    """Runs `count` cases at once, each in its own process.

    Processes start when they are needed and end with the block.
    """

    def __init__(self, spec: WorkerSpec, count: int) -> None:
        limit_s = spec.settings.deadlines.real_s + GRACE_S
        self._workers = [WorkerProcess(spec, limit_s=limit_s) for _ in range(count)]
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def run(self, cases: Sequence[FaultCase]) -> Iterator[tuple[Run, ...]]:
        return _run_in_threads(len(self._workers), self._run, cases, stop=self.close)

    def close(self) -> None:
        """Kill all processes."""
        for worker in self._workers:
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, case: FaultCase) -> tuple[Run, ...]:
        worker = self._idle.get()
        try:
            return (worker.run(case.lines),)
        finally:
            self._idle.put(worker)


class SilentSubject:
    """A subject whose standard output is discarded."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        with redirect_stdout(io.StringIO()):
            return self._subject.run(plan, continuation)


Workers: TypeAlias = int | Literal["auto"]
PARALLEL_THRESHOLD_S = 2.0
"""How long all cases together must take for several workers to pay off."""


class TimedSubject:
    """A subject that measures how long its last run took, in real time."""

    def __init__(self, subject: Subject) -> None:
        self.name, self._subject = subject.name, subject
        self.took_s = 0.0

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        started_s = SYSTEM_CLOCK.monotonic_s()
        try:
            return self._subject.run(plan, continuation)
        finally:
            self.took_s = SYSTEM_CLOCK.monotonic_s() - started_s


class AutoExecutor:
    """Chooses an `executor` for the first cases, by how long the clean run took. It is closed with the block.

    With `auto` there is a worker for each core, or none beside this process if all cases take little time. Programs
    are processes anyway, so that threads are enough. Standard output of the runs is discarded.
    """

    def __init__(self, subject: Subject, spec: WorkerSpec, workers: Workers) -> None:
        self._silent = SilentSubject(subject)
        self.subject = TimedSubject(self._silent)
        self._subject, self._spec, self._workers = subject, spec, workers
        self.executor: CaseExecutor | None = None
        self._stack = ExitStack()

    def run(self, cases: Sequence[FaultCase]) -> Iterator[tuple[Run, ...]]:
        if self.executor is None:
            self.executor = self._choose(min(self._count(cases), max(len(cases), 1)))
        return self.executor.run(cases)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _count(self, cases: Sequence[FaultCase]) -> int:
        if self._workers != "auto":
            return self._workers
        return 1 if len(cases) * self.subject.took_s < PARALLEL_THRESHOLD_S else os.cpu_count() or 1

    def _choose(self, count: int) -> CaseExecutor:
        if count == 1:
            return SerialExecutor(self._silent)
        if isinstance(self._subject, StoppableSubject):
            return ThreadExecutor(self._subject, count)
        return self._stack.enter_context(ProcessExecutor(self._spec, count))
