"""Report files that are replaced whole: a reader sees the old report or the new one."""

from __future__ import annotations

from pathlib import Path

from offbook.atomic_file import replace_file
from offbook.errors import InputError


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in its place, and make the folders it stands in. Whoever reads it sees the old one or the new one.

    Raises:
        InputError: it cannot be written, or there is something else than a file.
    """
    target = path.resolve()  # what a link leads to is replaced, not the link
    if target.exists() and not target.is_file():
        raise InputError("not a file", source=str(path), hint="name a file that a report may replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, data)
    except OSError as error:
        raise InputError(str(error.strerror), source=str(path)) from error
