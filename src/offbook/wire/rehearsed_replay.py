"""A run's way along the script of an earlier one."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.errors import RecordingMismatchError
from offbook.recording.cursor import Match
from offbook.wire.asked import Asked
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.replay import Found, WireReplay
from offbook.wire.stock import Stock


class RehearsedReplay(WireReplay):
    """Answers the calls of one run of a rehearsal.

    A run that asks something new gets no more answers, even if it has swallowed the refusal, unless it goes on.
    """

    def __init__(self, stock: Stock, *, default_response: str, rehearsal: Rehearsal) -> None:
        super().__init__(stock, default_response=default_response)
        self._script = rehearsal.script
        self._prompter = None if rehearsal.is_first else rehearsal.script.prompter()
        self._goes_on = rehearsal.goes_on
        self._end: RecordingMismatchError | None = None

    def find(self, asked: Asked, step_id: str | None) -> Found:
        if self._end is not None:
            raise self._end
        try:
            return self._find(asked, step_id)
        except RecordingMismatchError as refusal:
            if not self._goes_on and asked.request is not None:
                self._end = refusal
            raise

    def _find(self, asked: Asked, step_id: str | None) -> Found:
        line = (step_id or "", asked.request_hash)
        known = None if self._prompter is None else self._prompter.peek(*line)
        if known is not None:
            return known
        found = super().find(asked, step_id)
        is_meant = found.stored is not None and found.stored.fingerprint == asked.request_hash
        if self._prompter is not None and not is_meant:
            raise self._refusal(asked, step_id, Match("default", mismatch="missing"))
        return replace(found, line=line)

    def use(self, found: Found) -> None:
        super().use(found)
        if self._prompter is None:
            self._script.add(*found.line, found)
        elif self._prompter.take(*found.line) is None:
            self._prompter.learn(*found.line, found)
