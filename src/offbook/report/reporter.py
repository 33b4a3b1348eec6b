"""What reporters of scenarios and of explorations share: how they are declared, their files, pages and console."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from offbook.atomic_file import check_regular, replace_file
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

    What renders a report removes its secrets: only there is it known how a mark is to be written.

    Raises:
        InputError: the file cannot be written, or the path is not a file.
    """
    try:
        check_regular(path)
    except OSError as error:
        hint = "name a file that a report may replace"
        raise InputError(f"not a file: {error.strerror}", source=str(path), hint=hint) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
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


def standalone_page(name: str, data: bytes) -> bytes:
    """Return the page `name` of the folder `page`, with its style, its script and the JSON that the script shows.

    The page loads nothing, and its policy allows only the script and the style in it. No tag can begin in the data.
    """
    before, _, after = _page(name).partition(b"{{data}}")
    return before + data.replace(b"<", rb"\u003c") + after


@cache
def _page(name: str) -> bytes:
    folder = files("offbook.report") / "page"
    page = folder.joinpath(f"{name}.html").read_bytes()
    style, script = (
        b"".join(folder.joinpath(f"{part}.{suffix}").read_bytes() for part in ("common", name))
        for suffix in ("css", "js")
    )
    hashes = {b"{{style_hash}}": _csp_hash(style), b"{{script_hash}}": _csp_hash(script)}
    for placeholder, value in {**hashes, b"{{style}}": style, b"{{script}}": script}.items():
        page = page.replace(placeholder, value)
    return page


def _csp_hash(source: bytes) -> bytes:
    """Return the source of a script or style as a content security policy names it."""
    return b"sha256-" + b64encode(sha256(source).digest())
