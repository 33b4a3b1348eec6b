"""What went wrong in a run by cause: one cause for each group of errors."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from offbook.report.wording import on_one_line
from offbook.scenarios.result import SuiteResult
from offbook.wording import counted

MAX_TITLE_CHARS = 120
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
        ids = [on_one_line(each, MAX_ID_CHARS) for each in group.conversations[:MAX_IDS]]
        more = ["…"] if len(group.conversations) > MAX_IDS else []
        where = f"{counted(len(group.conversations), 'conversation')}: {', '.join([*ids, *more])}"
        yield Cause(group.severity, on_one_line(group.title, MAX_TITLE_CHARS), where)
