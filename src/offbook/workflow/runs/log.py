"""The log of a run: one line for each step result, each start and the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RunError
from offbook.recording.record_mode import timestamp
from offbook.recording.stores.journal import Journal
from offbook.workflow.engine.result import StepResult

Ending = Literal["succeeded", "failed"]


class _LogLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line: the result of a step, a failed step that is tried again, or the beginning or end of the run."""

    step: str | None = None
    result: StepResult | None = None
    again: str | None = None
    began: str | None = None
    ended: str | None = None
    status: Ending | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_LogLine)


class StoredProgress(Struct):
    """How far a run has come: the last result of each step, by place, and how the run ended, if it did."""

    results: dict[str, StepResult] = field(default_factory=dict)
    ending: Ending | None = None

    def take(self, line: _LogLine) -> None:
        if line.step is not None and line.result is not None:
            self.results[line.step] = line.result
        if line.again is not None:
            self.results.pop(line.again, None)
        if line.began is not None or line.ended is not None:
            self.ending = line.status

    @property
    def settled(self) -> int:
        """How many steps of the workflow itself are done, or skipped for another reason than that a step failed."""
        own = [result.status for place, result in self.results.items() if place == result.id]
        return own.count("done") + (0 if "failed" in own else own.count("skipped"))

    @property
    def cost_usd(self) -> float:
        return sum(result.cost_usd for result in self.results.values())


class RunLog:
    """The log at `path`, which is added to a line at a time. What may be read of `beside` may be read of it."""

    def __init__(self, path: Path, *, beside: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path, self._journal, self._clock = path, Journal(path, beside=beside), clock

    def begin(self) -> StoredProgress:
        """Note that the run begins, or goes on; gives back how far it has come. What a crash left of a line goes.

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
        """Note what became of a step."""
        self._add(_LogLine(step=place, result=result))

    def add_again(self, place: str) -> None:
        """Note that a step that failed is tried again."""
        self._add(_LogLine(again=place))

    def end(self, status: Ending) -> None:
        """Note how the run ended."""
        self._add(_LogLine(ended=timestamp(self._clock), status=status))

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()

    def _add(self, line: _LogLine) -> None:
        try:
            self._journal.append(_encoder.encode(line))
        except OSError as error:
            raise RunError(error.strerror or str(error), source=str(self._path)) from None


def read_progress(path: Path) -> StoredProgress:
    """How far a run has come, by its log; no way if there is none. A last line without its end does not count.

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
            progress.take(_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            hint = "remove the line, and the step is run again"
            raise RunError(str(error), source=str(path), place=f"line {number}", hint=hint) from None
    return progress
