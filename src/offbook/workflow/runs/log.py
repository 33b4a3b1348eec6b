"""The log of a run: one line for each step result, each start and the end."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct, field

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RunError
from offbook.recording.record_mode import timestamp
from offbook.recording.stores.journal import Journal
from offbook.workflow.engine.result import RunStatus, StepResult


class _LogLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: the result of a step, a failed step that runs again, or the start or end of the run."""

    step: str | None = None
    result: StepResult | None = None
    again: str | None = None
    began: str | None = None
    ended: str | None = None
    status: RunStatus | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_LogLine)


class StoredProgress(Struct):
    """The progress of a run: the last result of each step, by place, and how the run ended, if it did."""

    results: dict[str, StepResult] = field(default_factory=dict)
    ending: RunStatus | None = None

    def apply(self, line: _LogLine) -> None:
        if line.step is not None and line.result is not None:
            self.results[line.step] = line.result
        if line.again is not None:
            self.results.pop(line.again, None)
        if line.began is not None or line.ended is not None:
            self.ending = line.status

    @property
    def settled(self) -> int:
        """How many outermost steps are done, or skipped for another reason than a failed step."""
        own = [result.status for place, result in self.results.items() if place == result.id]
        return own.count("done") + (0 if "failed" in own else own.count("skipped"))

    @property
    def cost_usd(self) -> float:
        return sum(result.cost_usd for result in self.results.values())


class RunLog:
    """The log at `path`, to which lines are appended. It gets the permissions of the file `beside`."""

    def __init__(self, path: Path, *, beside: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path, self._journal, self._clock = path, Journal(path, beside=beside), clock

    def begin(self) -> StoredProgress:
        """Log the start of the run, or of its resumption, and return its progress. An incomplete last line is removed.

        Raises:
            RunError: a line of the log cannot be read.
        """
        progress = read_progress(self._path)
        if self._path.exists():
            whole = self._path.read_bytes().rfind(b"\n") + 1
            os.truncate(self._path, whole)
        self._add(_LogLine(began=timestamp(self._clock)))
        return progress

    def add(self, place: str, result: StepResult) -> None:
        """Log the result of a step."""
        self._add(_LogLine(step=place, result=result))

    def add_again(self, place: str) -> None:
        """Log that a failed step runs again."""
        self._add(_LogLine(again=place))

    def end(self, status: RunStatus) -> None:
        """Log how the run ended."""
        self._add(_LogLine(ended=timestamp(self._clock), status=status))

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _add(self, line: _LogLine) -> None:
        try:
            self._journal.append(_encoder.encode(line))
        except OSError as error:
            raise RunError(error.strerror or str(error), source=str(self._path)) from None


def read_progress(path: Path) -> StoredProgress:
    """Read the progress of a run from its log; empty if there is no log. An incomplete last line is ignored.

    Raises:
        RunError: a line cannot be read.
    """
    progress = StoredProgress()
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return progress
    for number, line in enumerate(lines, 1):
        try:
            progress.apply(_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            hint = "remove the line to run the step again"
            raise RunError(str(error), source=str(path), place=f"line {number}", hint=hint) from None
    return progress
