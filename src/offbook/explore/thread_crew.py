"""A crew of threads, for subjects whose runs happen elsewhere: in programs that are waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from offbook.explore.case import Case
from offbook.explore.run import Run
from offbook.explore.subject import Subject


class StoppableSubject(Subject, Protocol):
    """A subject whose runs can be ended from outside."""

    def stop(self) -> None:
        """End what is running, and what is started from now on."""
        ...


class ThreadCrew:
    """Runs several cases at once. What is running is stopped when nobody wants the results any more."""

    def __init__(self, subject: StoppableSubject, workers: int) -> None:
        self._subject, self._workers = subject, workers

    def run(self, cases: Sequence[Case]) -> Iterator[Run]:
        with ThreadPoolExecutor(self._workers) as pool:
            runs = [pool.submit(self._subject.run, case.plan) for case in cases]
            try:
                for run in runs:
                    yield run.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._subject.stop()
                raise
