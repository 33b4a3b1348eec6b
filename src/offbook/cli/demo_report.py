"""Where `offbook demo` leaves its report: in the working directory, and over no file but a report of its own."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path

_MARK = b'"reproduce":"offbook demo --fault'
"""How a case of the demo is run again: no other report tells that."""


def report_path() -> Path:
    """`report.html`; or `report-2.html` and so on, where that is anything else than a report of the demo.

    Raises:
        OSError: what is there cannot be read.
    """
    names = chain(["report.html"], (f"report-{number}.html" for number in count(2)))
    return next(path for path in map(Path, names) if _is_free(path))


def _is_free(path: Path) -> bool:
    if path.is_symlink():
        return False
    return not path.exists() or (path.is_file() and _MARK in path.read_bytes())
