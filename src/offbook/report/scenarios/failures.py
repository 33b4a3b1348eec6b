"""Why scenarios failed: each failure, the causes that conversations share, and where the scenario is written."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from offbook.report.text import cut_lines, one_line
from offbook.scenarios.result import Failure, ScenarioResult, SuiteResult
from offbook.text import pluralize

MAX_REASON_CHARS = 300
MAX_DETAIL_LINES = 60
MAX_DETAIL_COLUMNS = 240
ERROR_KINDS = ("error", "mismatch")


class FailureNote(Struct, frozen=True):
    """A failure, and where: `conversation 2`, or nothing where there is one conversation or all are meant."""

    where: str
    failure: Failure

    @property
    def is_error(self) -> bool:
        """Whether something broke, rather than that the agent did wrong."""
        return self.failure.kind in ERROR_KINDS

    @property
    def headline(self) -> str:
        """What failed, on one line of printable text."""
        reason = one_line(self.failure.reason, MAX_REASON_CHARS)
        return ": ".join(part for part in (self.where, self.failure.kind, reason) if part)

    @property
    def detail(self) -> list[str]:
        """What more there is to say, as lines of printable text, not too many and not too long."""
        text = self.failure.detail.strip("\n")
        return cut_lines(text, lines=MAX_DETAIL_LINES, columns=MAX_DETAIL_COLUMNS) if text else []


def failure_notes(scenario: ScenarioResult) -> Iterator[FailureNote]:
    """All failures of a scenario: first those of the whole, then those of each conversation."""
    yield from (FailureNote("", failure) for failure in scenario.failures)
    for conversation in scenario.conversations:
        where = f"conversation {conversation.index + 1}" if len(scenario.conversations) > 1 else ""
        yield from (FailureNote(where, failure) for failure in conversation.failures)


MAX_CAUSE_CHARS = 120
MAX_ID_CHARS = 24
MAX_IDS = 3


class Cause(Struct, frozen=True):
    """A cause, how grave it is, and where it was found: `4 conversations: a, b, c, …`. All on one line, printable."""

    severity: str
    title: str
    where: str


def causes_of(result: SuiteResult) -> Iterator[Cause]:
    """The causes of what went wrong, the gravest first."""
    for group in result.groups:
        ids = [one_line(each, MAX_ID_CHARS) for each in group.conversations[:MAX_IDS]]
        more = ["…"] if len(group.conversations) > MAX_IDS else []
        where = f"{pluralize(len(group.conversations), 'conversation')}: {', '.join([*ids, *more])}"
        yield Cause(group.severity, one_line(group.title, MAX_CAUSE_CHARS), where)


class SourceLocation(Struct, frozen=True):
    """A file and a line of it, from 1; 0 is not known."""

    file: str
    line: int = 0


def parse_location(source: str) -> SourceLocation:
    """The place that a source like `tests/refunds.py:12` names."""
    file, _, line = source.rpartition(":")
    return SourceLocation(file, int(line)) if file and line.isdecimal() else SourceLocation(source)
