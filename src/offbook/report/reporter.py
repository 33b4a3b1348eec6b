"""What reporters of scenarios and of explorations share: how they are declared, their files and their console."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from offbook.atomic_file import replace_file
from offbook.errors import InputError
from offbook.text import suggestion

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_COLUMNS = 200
"""The width of reports and tables that are not printed on a terminal."""


def parse_reporter(declared: str, files: Mapping[str, str]) -> tuple[str, Path | None]:
    """Return the name and the path of a reporter declared as `name` or `name=path`.

    `console` takes no path and `github` may have one. Those of `files`, which has an example of each, need one.

    Raises:
        InputError: there is no such reporter, or its path is missing or not allowed.
    """
    name, _, path = declared.partition("=")
    names = ("console", "github", *files)
    if name not in names:
        hint = suggestion(name, names, kind="reporters")
        raise InputError(f"there is no reporter {name!r}", source=declared, hint=hint)
    if name == "console" and path:
        raise InputError("the console takes no path", source=declared, hint="console")
    if name in files and not path:
        raise InputError("a path is missing", source=declared, hint=f"{name}={files[name]}")
    return name, Path(path) if path else None


def write_report(path: Path, data: bytes) -> None:
    """Write a report as a whole: a reader sees the old file or the new one. Missing folders are created.

    Raises:
        InputError: the file cannot be written, or the path is not a file.
    """
    target = path.resolve()  # a link stays, and the file that it points to is replaced
    if target.exists() and not target.is_file():
        raise InputError("not a file", source=str(path), hint="name a file that a report may replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, data)
    except OSError as error:
        raise InputError(str(error.strerror), source=str(path)) from error


def stdout_console() -> Console:
    """Return a console on the stdout of now, as wide as the terminal or, without one, `PLAIN_COLUMNS`."""
    from rich.console import Console  # noqa: PLC0415 - who writes files alone needs no console

    width = None if sys.stdout.isatty() else PLAIN_COLUMNS
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)


def encodable(text: str, encoding: str) -> str:
    """Return the text with `?` for each character that the encoding does not have."""
    return text.encode(encoding, "replace").decode(encoding)
