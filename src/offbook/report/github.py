"""GitHub workflow commands, Markdown for step summaries, and the summary file that several writers append to."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from offbook.atomic_file import open_output
from offbook.errors import InputError
from offbook.recording.redact.rules import mask_text
from offbook.report.reporter import encodable
from offbook.report.text import one_line
from offbook.text import pluralize

MAX_TITLE_CHARS = 200
MAX_BYTES = 1_000_000  # GitHub drops a summary of more than 1024 KiB
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def error_command(message: str, properties: Mapping[str, str]) -> str:
    """Return the command that shows an error, without properties that are empty."""
    written = ",".join(f"{name}={_escape_property(mask_text(value))}" for name, value in properties.items() if value)
    return f"::error {written}::{_escape_data(mask_text(message))}"


def print_command(command: str, out: TextIO | None = None) -> None:
    """Print a command, by default to stdout, with `?` for characters that its encoding does not have."""
    out = out or sys.stdout
    out.write(encodable(command, out.encoding or "utf-8") + "\n")
    out.flush()


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def escape_markdown(text: str) -> str:
    """Return the text on one line, with Markdown and HTML escaped."""
    return _PUNCTUATION.sub(r"\\\1", one_line(mask_text(text), MAX_TITLE_CHARS))


def markdown_details(title: str, lines: Iterable[str]) -> str:
    """Return preformatted lines, folded under a title."""
    text = html.escape(mask_text("\n".join(lines)))
    return f"\n<details><summary>{html.escape(mask_text(title))}</summary>\n\n<pre>\n{text}\n</pre>\n\n</details>\n"


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, after an empty line."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def more_than(count: int, limit: int, noun: str) -> str:
    """Return `… 7 more findings` if there are more than `limit`, else nothing."""
    return f"… {pluralize(count - limit, f'more {noun}')}" if count > limit else ""


class StepSummary:
    """Appends to the file that GitHub names in GITHUB_STEP_SUMMARY, up to its limit; without a path, does nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._bytes = path.stat().st_size if path is not None and path.exists() else 0

    def add(self, text: str, *, reserve: int = 0) -> None:
        """Append the text, if `reserve` bytes remain free after it.

        Raises:
            InputError: the file cannot be written.
        """
        data = text.encode("utf-8", "replace")
        if self._path is None or self._bytes + len(data) + reserve > MAX_BYTES:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(open_output(self._path, append=True), "ab") as file:  # noqa: PTH123 - a descriptor has no path
                file.write(data)
        except OSError as error:
            raise InputError(str(error.strerror), source=str(self._path)) from error
        self._bytes += len(data)
