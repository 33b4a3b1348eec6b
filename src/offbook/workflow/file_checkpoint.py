"""The checkpoint of a run that is kept in files."""

from __future__ import annotations

from offbook.workflow.result import StepResult
from offbook.workflow.run_calls import RunCalls
from offbook.workflow.run_log import Progress, RunLog

_HOLDS_STEPS = frozenset(("loop", "subworkflow"))


class FileCheckpoint:
    """Knows how far a run had come, and notes in its log what becomes of further steps.

    Steps that failed or were skipped are tried again. So are those that hold steps of their own: what
    is done of these is found in turn, and writes to the state what it wrote then.
    """

    def __init__(self, log: RunLog, calls: RunCalls, progress: Progress) -> None:
        self._log, self._calls, self._results = log, calls, progress.results

    def find(self, path: str) -> StepResult | None:
        """The result of a step that is done. A step that is not found begins now, in this task."""
        result = self._results.get(path)
        if result is not None and result.status == "done" and result.type not in _HOLDS_STEPS:
            return result
        has_failed = result is not None and result.status == "failed"
        self._calls.begin(path, has_failed=has_failed)
        if has_failed:
            self._log.add_again(path)
        return None

    def save(self, path: str, result: StepResult) -> None:
        known = self._results.get(path)
        if known is None or known.status != result.status or result.status == "failed":
            self._log.add(path, result)
            self._results[path] = result
        self._calls.end(path)
