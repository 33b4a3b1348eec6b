"""A crew of worker processes, for subjects that run in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from offbook.explore.case import Case
from offbook.explore.run import Run
from offbook.subjects.worker_lines import Part
from offbook.subjects.worker_process import WorkerProcess

GRACE_S = 10.0
"""How much longer than its deadline a run may take before its worker is ended: it should have ended itself."""


class WorkerCrew:
    """Runs `count` cases at once, each in a process of its own, and tells of them in the order of the cases.

    Processes are started when they are needed, and ended with the block.
    """

    def __init__(self, part: Part, count: int) -> None:
        limit_s = part.terms.deadlines.real_s + GRACE_S
        self._workers = [WorkerProcess(part, limit_s=limit_s) for _ in range(count)]
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def run(self, cases: Sequence[Case]) -> Iterator[Run]:
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

    def _run(self, case: Case) -> Run:
        worker = self._idle.get()
        try:
            return worker.run(case.lines)
        finally:
            self._idle.put(worker)
