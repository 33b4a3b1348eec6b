"""Prints styled messages, tables and tallies, and the JSON document of a command that ended without a result."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import orjson
import typer
from msgspec import Struct

from offbook.cli import FAILED
from offbook.text import mask_password, printable, printable_json

if TYPE_CHECKING:
    from offbook.faults import PlannedFault
    from offbook.recording.match.cursor import UnusedEntry
    from offbook.session.log import Log


ERROR_FIELDS = ("reason", "source", "place", "hint", "kind", "key", "difference", "fired")


def print_message(label: str, text: str, *, style: str = "bold", is_err: bool = False) -> None:
    """Print a styled label and a text after it, with control characters escaped.

    `style` is a colour, `bold`, or both. Without a terminal, and with NO_COLOR, nothing is styled.
    """
    words = style.split()
    colour = next((word for word in words if word != "bold"), None)
    is_styled = (sys.stderr if is_err else sys.stdout).isatty() and not os.environ.get("NO_COLOR")
    styled = typer.style(printable(label), bold="bold" in words, fg=colour) if is_styled else printable(label)
    typer.echo(f"{styled}{shown(text)}", err=is_err)


_NEEDS_SEARCH = re.compile(
    r"[A-Za-z0-9_+=~%-]{15}|@|(?i:basic|bearer|key|private|token|secret|pass|pwd|auth|cookie|sig)"
)
"""Every secret has one of these. Searching a text loads much, which a command that prints a few words need not."""


def shown(text: str) -> str:
    """Return a text for printing: without secrets and control characters."""
    return printable(mask(text))


def mask(text: str) -> str:
    """Return a text without secrets."""
    text = mask_password(text)
    rules = sys.modules.get("offbook.recording.redact.rules")  # rules can be in force only if it is loaded
    if not (rules is not None and rules.has_rules_in_force()) and not _NEEDS_SEARCH.search(text):
        return text
    from offbook.recording.redact.rules import mask_shown

    return mask_shown(text)


def print_no_answer(reason: str) -> int:
    """Print why a recording run has nothing to replay, and return its exit code."""
    print_message("error: ", reason, style="bold red", is_err=True)
    print_message("  hint: ", "check the key, the address of the API and the network", is_err=True)
    return FAILED


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text. Secrets and control characters are replaced, except line breaks."""
    typer.echo(shown(text), err=err, nl=nl)


def echo_json(document: str | bytes, *, nl: bool = True, is_own: bool = False) -> None:
    """Print a JSON document, with secrets replaced and control characters escaped.

    With `is_own`, for the user's own result or an address with its token, secrets are printed.
    """
    text = document if isinstance(document, str) else document.decode()
    masked = mask_password(text) if is_own else mask_json_text(text)
    typer.echo(printable_json(masked) if isinstance(document, str) else printable_json(masked).encode(), nl=nl)


def mask_json_text(document: str) -> str:
    """Return JSON without secrets."""
    from offbook.recording.redact.rules import mask_reported

    return mask_reported(mask_password(document).encode()).decode()


def error_document(error: Exception, *, exit_code: int) -> bytes:
    """Return an error as one JSON document: its type, its message, the exit code, and its attributes."""
    attributes = {name: value for name in ERROR_FIELDS if (value := getattr(error, name, None))}
    return ending_document(type(error).__name__, str(error), exit_code=exit_code, **attributes)


def ending_document(type: str, message: str, *, exit_code: int, **more: object) -> bytes:
    """Return the JSON document of a command that ended without a result."""
    error = {"type": type, "message": message, "exit_code": exit_code, **more}
    return orjson.dumps({"status": "error", "error": error})


_GAP = "  "
MANY_ROWS = 1_000
"""A table with more rows is not wrapped to the terminal, which takes half a millisecond for each row."""
_NARROW = re.compile(r"[ -~…·]*")
"""One-line text whose characters are certainly one column wide."""
_RICH_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_PLAIN_TERMINALS = ("dumb", "unknown")


def print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, numbers: tuple[int, ...] = ()) -> None:
    """Print a table without rules, with its columns' names in bold. The columns in `numbers` are right-aligned."""
    lines = [columns, *(tuple(map(shown, row)) for row in rows)]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    if len(lines) <= MANY_ROWS and not _fits(
        (cell for line in lines for cell in line), sum(widths) + len(_GAP) * (len(widths) - 1)
    ):
        _print_with_rich(columns, lines[1:], numbers)
        return
    texts = [_GAP.join(_pad(line, widths, numbers)).replace("\n", " ") for line in lines]
    _print_line(texts[0], style="bold")
    if len(texts) > 1:
        typer.echo("\n".join(texts[1:]))


def _pad(line: tuple[str, ...], widths: list[int], numbers: tuple[int, ...]) -> Iterator[str]:
    for at, (cell, width) in enumerate(zip(line, widths, strict=True)):
        space = " " * (width - _width(cell))
        yield space + cell if at in numbers else cell + space


def _width(text: str) -> int:
    """Return the number of terminal columns of the text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def print_total(text: str) -> None:
    """Print the total of a table, dimmed."""
    from offbook.report.reporter import stdout_console

    text = shown(text)
    if _fits([text], len(text)):
        _print_line(text, style="dim")
    else:
        stdout_console().print(text, style="dim")


def _fits(texts: Iterable[str], width: int) -> bool:
    """Return whether the texts, which are `width` columns wide together, need no wrapping and no measuring."""
    from offbook.report.reporter import PLAIN_COLUMNS

    if any(os.environ.get(name) for name in _RICH_VARIABLES):
        return False
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_COLUMNS
    return width <= columns and all(map(_NARROW.fullmatch, texts))


def _print_line(text: str, *, style: str) -> None:
    is_styled = style and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in _PLAIN_TERMINALS
    typer.echo(typer.style(text, **{style: True}) if is_styled else text)


def _print_with_rich(columns: tuple[str, ...], rows: list[tuple[str, ...]], numbers: tuple[int, ...]) -> None:
    from rich.table import Table

    from offbook.report.reporter import stdout_console

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in numbers:
        table.columns[column].justify = "right"
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table)


_LOOP_ROUND = re.compile(r"(?<![^.])[^.\[\]]+\[\d+\]\.")


class FaultTally(Struct, frozen=True, omit_defaults=True):
    """The faults that fired, and the planned faults that did not, each as a line of a plan, and why not, by line."""

    fired: list[str]
    unfired: list[str]
    reasons: dict[str, str] = {}

    def describe_unfired(self) -> list[str]:
        """Return a line for each planned fault that did not fire."""
        return [": ".join(filter(None, [f"{line!r} never fired", self.reasons.get(line, "")])) for line in self.unfired]


def tally_faults(log: Log, *, completed_before: Collection[str] = ()) -> FaultTally:
    """Return the tally of a run. A fault that may have fired in a step of an earlier run does not count as unfired."""
    from offbook.faults.log import why_unfired

    steps, reached = {_LOOP_ROUND.sub("", path) for path in completed_before}, log.reached
    unfired = [line for line in log.unfired() if not _may_be_among(line, steps)]
    reasons = {str(line): why_unfired(line, reached) for line in unfired}
    return FaultTally([str(line) for line in log.fired], [str(line) for line in unfired], reasons)


def _may_be_among(line: PlannedFault, steps: Collection[str]) -> bool:
    return bool(steps) if line.at.step_id is None else line.at.step_id in steps


SHOWN_UNUSED = 5


def describe_unused(unused: list[UnusedEntry]) -> str:
    """Return the number of exchanges that a replay did not use, and the first of them."""
    names = [f"{printable(left.key)}[{left.position}]" for left in unused[:SHOWN_UNUSED]]
    more = ", …" if len(unused) > SHOWN_UNUSED else ""
    said = "exchange of the recording was" if len(unused) == 1 else "exchanges of the recording were"
    return f"{len(unused):,} {said} not used: {', '.join(names)}{more}"
