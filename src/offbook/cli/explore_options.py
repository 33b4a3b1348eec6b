"""How a command wants something to be explored."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict
from offbook.subjects.crew import Workers
from offbook.wording import did_you_mean


class ExploreOptions(Struct, frozen=True, kw_only=True):
    """Which cases are run, what is told of them, and which verdicts count.

    `lines` are faults that make one case together, instead of all; `only` has ids of cases. `compare` is an earlier
    report, `regress` a folder for findings.
    """

    faults: str = "all"
    has_pairs: bool = False
    budget: int | None = None
    lines: Sequence[str] = ()
    only: Sequence[str] = ()
    is_list: bool = False
    invariants: str | None = None
    workers: Workers = "auto"
    reporters: Sequence[str] = ()
    fail_on: frozenset[Verdict] = FINDINGS
    compare: str | None = None
    regress: str | None = None
    is_json: bool = False
    is_quiet: bool = False


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list like `refund,pay`."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def verdicts_in(text: str | None) -> frozenset[Verdict]:
    """The verdicts in a list, with hyphens for blanks; without one, all that tell of a defect.

    Raises:
        InputError: there is no such verdict.
    """
    if text is None:
        return FINDINGS
    known = {verdict.replace(" ", "-"): verdict for verdict in VERDICTS}
    for name in names_in(text):
        if name not in known:
            hint = did_you_mean(name, known, kind="verdicts")
            raise InputError(f"there is no verdict {name!r}", source="--fail-on", hint=hint)
    return frozenset(known[name] for name in names_in(text))


def workers_in(text: str) -> Workers:
    """A number of workers, or `auto`.

    Raises:
        InputError: it is neither.
    """
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"expected a number or auto, got {text!r}", source="--workers", hint="--workers 2")
    return int(text)
