"""Why a scenario did not pass: one note for each failure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from offbook.report.wording import cut_lines, on_one_line
from offbook.scenarios.result import Failure, ScenarioResult

MAX_REASON_CHARS = 300
MAX_DETAIL_LINES = 60
MAX_DETAIL_COLUMNS = 240
ERRORS = ("error", "mismatch")


class Note(Struct, frozen=True):
    """A failure, and where: `conversation 2`, or nothing where there is one conversation or all are meant."""

    where: str
    failure: Failure

    @property
    def is_error(self) -> bool:
        """Whether something broke, rather than that the agent did wrong."""
        return self.failure.kind in ERRORS

    @property
    def headline(self) -> str:
        """What failed, on one line of printable text."""
        reason = on_one_line(self.failure.reason, MAX_REASON_CHARS)
        return ": ".join(part for part in (self.where, self.failure.kind, reason) if part)

    @property
    def detail(self) -> list[str]:
        """What more there is to say, as lines of printable text, not too many and not too long."""
        text = self.failure.detail.strip("\n")
        return cut_lines(text, lines=MAX_DETAIL_LINES, columns=MAX_DETAIL_COLUMNS) if text else []


def notes_of(scenario: ScenarioResult) -> Iterator[Note]:
    """All failures of a scenario: first those of the whole, then those of each conversation."""
    yield from (Note("", failure) for failure in scenario.failures)
    for conversation in scenario.conversations:
        where = f"conversation {conversation.index + 1}" if len(scenario.conversations) > 1 else ""
        yield from (Note(where, failure) for failure in conversation.failures)
