"""Showing findings: tables with ratios, and the targets at the end."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from bench.findings import Findings, Table, Target
from bench.peers import peer_notes
from offbook import __version__

PLAIN_WIDTH = 150


def new_console() -> Console:
    """The terminal as it is; a file or pipe gets lines wide enough for every table, and no colours."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Shows the measurement under way: a line that changes on a terminal, nothing elsewhere."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("measuring") as status:
        yield lambda text: status.update(escape(text))


def show_head(console: Console) -> None:
    """Who is measured, and on what."""
    console.print(f"[bold]offbook {__version__}[/] beside {', '.join(peer_notes())}")
    console.print(f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}")


def show_findings(console: Console, findings: Findings) -> None:
    """The tables of a subject, and what they mean."""
    console.rule(f"[bold]{findings.subject}")
    for table in findings.tables:
        console.print(_grid(table))
    for note in findings.notes:
        console.print(f"• {note}", style="dim", markup=False)
    console.print()


def show_targets(console: Console, targets: list[Target]) -> None:
    """Every target, what was measured for it, and whether it is met."""
    grid = Grid("target", "measured", "", title="targets", title_justify="left", title_style="bold")
    for target in targets:
        verdict = "[green]met[/]" if target.is_met else "[red]not met[/]"
        grid.add_row(escape(target.claim), target.measured, verdict)
    console.print(grid)
    console.print(f"{sum(target.is_met for target in targets)} of {len(targets)} targets met")


def _grid(table: Table) -> Grid:
    title = f"{table.title}, {table.unit}; x = times {table.base}"
    grid = Grid("", title=escape(title), title_justify="left", title_style="bold")
    for column in table.columns:
        grid.add_column(column, justify="right")
        if table.is_rate:
            grid.add_column("calls/s", justify="right")
        grid.add_column("x", justify="right", style="cyan")
    base = table.row(table.base)
    for row in table.rows:
        cells: list[str] = []
        for place, figure in enumerate(row.figures):
            of = None if base is None else base.figures[place]
            cells += _cells(figure, of, is_rate=table.is_rate)
        grid.add_row(escape(row.name), *cells)
    return grid


def _cells(figure: float | None, of: float | None, *, is_rate: bool) -> list[str]:
    if figure is None:
        return ["-"] * (3 if is_rate else 2)
    ratio = f"{_rounded(figure / of)}x" if of else "-"
    return [_rounded(figure), f"{1e6 / figure:,.0f}", ratio] if is_rate else [_rounded(figure), ratio]


def _rounded(figure: float) -> str:
    """The digits that matter."""
    for least, digits in ((100.0, 0), (10.0, 1), (0.1, 2)):
        if abs(figure) >= least:
            return f"{figure:,.{digits}f}"
    return f"{figure:.1g}"
