"""Prints tables of text. One that fits is laid out here, without rich, which takes longer to import than to print."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable

import typer

from offbook.report.reporter import PLAIN_COLUMNS, stdout_console

_GAP = "  "
_NARROW = re.compile(r"[ -~…·]*")
"""Text on one line whose characters are certainly as wide as one column."""
_RICH_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_PLAIN_TERMINALS = ("dumb", "unknown")


def print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, numbers: tuple[int, ...] = ()) -> None:
    """Print a table without lines, its columns named in bold. Those whose positions are in `numbers` end flush."""
    lines = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    if not _fits((cell for line in lines for cell in line), sum(widths) + len(_GAP) * (len(widths) - 1)):
        _print_with_rich(columns, lines[1:], numbers)
        return
    for number, line in enumerate(lines):
        cells = enumerate(zip(line, widths, strict=True))
        padded = (cell.rjust(width) if at in numbers else cell.ljust(width) for at, (cell, width) in cells)
        _print_line(_GAP.join(padded), style="" if number else "bold")


def print_total(text: str) -> None:
    """Print what a table comes to, dimmed."""
    if _fits([text], len(text)):
        _print_line(text, style="dim")
    else:
        stdout_console().print(text, style="dim")


def _fits(texts: Iterable[str], width: int) -> bool:
    """Return whether the texts, which are `width` columns wide together, need no wrapping and no measuring."""
    if any(os.environ.get(name) for name in _RICH_VARIABLES):
        return False
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_COLUMNS
    return width <= columns and all(map(_NARROW.fullmatch, texts))


def _print_line(text: str, *, style: str) -> None:
    is_styled = style and sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in _PLAIN_TERMINALS
    typer.echo(typer.style(text, **{style: True}) if is_styled else text)


def _print_with_rich(columns: tuple[str, ...], rows: list[tuple[str, ...]], numbers: tuple[int, ...]) -> None:
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in numbers:
        table.columns[column].justify = "right"
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table)
