"""A trajectory and the calls that were made, side by side, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offbook.scenarios.trajectory.judgement import Judgement
from offbook.scenarios.trajectory.row import Row
from offbook.scenarios.trajectory.shown import cut, shown_call

MAX_COLUMNS = 100
MAX_LINES = 60
MAX_NOTES = 5
CELL_COLUMNS = 38
ROWS_AROUND = 2


def difference_text(rows: Sequence[Row], judgement: Judgement) -> str:
    """The rows as lines of at most 100 columns: what was expected, what came, and what is wrong.

    `>` marks the most telling row. Rows in which all is well are left out if they are far from the others.
    """
    told = most_telling(rows)
    header = [f"expected ({judgement.trajectory.mode})", "actual"]
    cells = [_cells(row, judgement) for row in rows]
    widths = [max(len(cell[side]) for cell in [header, *cells]) for side in (0, 1)]
    lines = [_line("  ", header, widths, "")]
    for index in _shown(rows):
        if index is None:
            lines.append("  …")
            continue
        lines.append(_line("> " if rows[index] is told else "  ", cells[index], widths, rows[index].label))
        lines.extend(_notes(rows[index]))
    more = [f"  … {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return "\n".join([*lines[:MAX_LINES], *more])


def most_telling(rows: Sequence[Row]) -> Row:
    """The row of the first forbidden call, or else the first in which something is wrong."""
    wrong = [row for row in rows if row.label]
    return next((row for row in wrong if row.label == "forbidden"), wrong[0])


def _cells(row: Row, judgement: Judgement) -> list[str]:
    left = right = ""
    if row.expectation is not None:
        number = f"{row.expectation + 1}. "
        left = number + judgement.trajectory.expected[row.expectation].text(CELL_COLUMNS - len(number))
    if row.call is not None:
        number = f"{row.call + 1}. "
        right = number + shown_call(judgement.calls[row.call], CELL_COLUMNS - len(number))
    return [left, right]


def _line(mark: str, cells: list[str], widths: list[int], label: str) -> str:
    left, right = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{mark}{left}  {right}  {label}".rstrip()


def _notes(row: Row) -> Iterator[str]:
    for note in row.notes[:MAX_NOTES]:
        yield cut(f"      {note}", MAX_COLUMNS)
    if len(row.notes) > MAX_NOTES:
        yield f"      … {len(row.notes) - MAX_NOTES} more"


def _shown(rows: Sequence[Row]) -> Iterator[int | None]:
    """The indexes of the rows to show; None stands for rows left out."""
    wrong = [index for index, row in enumerate(rows) if row.label]
    near = {index + step for index in wrong for step in range(-ROWS_AROUND, ROWS_AROUND + 1)}
    is_left_out = False
    for index in range(len(rows)):
        if index in near:
            yield index
        elif not is_left_out:
            yield None
        is_left_out = index not in near
