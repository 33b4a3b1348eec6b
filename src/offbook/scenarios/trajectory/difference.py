"""The difference between a trajectory and the calls made: what is wrong, row by row, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import call_text, truncate
from offbook.scenarios.trajectory.pairing import Pairing, pair
from offbook.scenarios.trajectory.trajectory import CallOrder, Expectation, Trajectory


class TrajectoryComparison(Struct, frozen=True):
    """The calls, what was expected, and how the two go together.

    `forbidden` says of each forbidden call what forbids it, `early` of each call that comes too early
    what should have come before it.
    """

    calls: Sequence[ToolCall]
    trajectory: Trajectory
    pairing: Pairing
    forbidden: dict[int, Expectation]
    early: dict[int, Expectation]


def compare_calls(calls: Sequence[ToolCall], trajectory: Trajectory) -> TrajectoryComparison:
    """Hold the calls against the trajectory."""
    forbidden: dict[int, Expectation] = {}
    for index, call in enumerate(calls):
        for each in trajectory.forbidden:
            if index not in forbidden and each.fits(call):
                forbidden[index] = each
    early = dict(found for order in reversed(trajectory.before) for found in _early(calls, order))
    return TrajectoryComparison(calls, trajectory, pair(calls, trajectory, forbidden=forbidden), forbidden, early)


def _early(calls: Sequence[ToolCall], order: CallOrder) -> list[tuple[int, Expectation]]:
    """The first call of what should come second, if none of what should come first is before it."""
    first, then = order
    for index, call in enumerate(calls):
        if then.fits(call):
            return [(index, first)]
        if first.fits(call):
            return []
    return []


class DifferenceRow(Struct, frozen=True):
    """An expectation and a call side by side, or one alone, by index.

    What is wrong is told in a word, `label`, and in a sentence, `reason`; both are empty if all is
    well. `notes` say more.
    """

    expectation: int | None
    call: int | None
    label: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


def difference_rows(judgement: TrajectoryComparison) -> list[DifferenceRow]:
    """All lines: the calls in their order, and what is not there, in its place if there is an order, else last."""
    rows: list[DifferenceRow] = []
    passed = 0
    for call in range(len(judgement.calls)):
        row = _with_vetoes(_row(call, judgement), judgement)
        if judgement.trajectory.is_ordered and row.expectation is not None:
            rows.extend(_rows_without_call(range(passed, row.expectation), judgement))
            passed = max(passed, row.expectation)
        rows.append(row)
    return [*rows, *_rows_without_call(range(passed, len(judgement.trajectory.expected)), judgement)]


def _row(call: int, judgement: TrajectoryComparison) -> DifferenceRow:
    pairing = judgement.pairing
    if pairing.fitting[call] is not None:
        return DifferenceRow(pairing.fitting[call], call)
    if pairing.misplaced[call] is not None:
        return DifferenceRow(None, call, "misplaced", _misplaced(call, judgement))
    expectation = pairing.differing[call]
    if expectation is not None:
        notes = tuple(str(difference) for difference in pairing.differences[call, expectation])
        reason = f"arguments differ: call {call + 1}, {judgement.calls[call].tool}: {notes[0]}"
        return DifferenceRow(expectation, call, "arguments differ", reason, notes)
    return (
        DifferenceRow(None, call, "extra", _extra(call, judgement)) if pairing.must[call] else DifferenceRow(None, call)
    )


def _with_vetoes(row: DifferenceRow, judgement: TrajectoryComparison) -> DifferenceRow:
    """The row, if its call is forbidden or comes too early, with that told."""
    call = row.call
    if call in judgement.forbidden:
        return replace(row, label="forbidden", reason=_forbidden(call, judgement))
    if call in judgement.early:
        note = f"comes before any {judgement.early[call].text(40)}"
        reason = row.reason or f"misplaced: {_numbered(call, judgement)}, {note}"
        return replace(row, label=row.label or "misplaced", reason=reason, notes=(*row.notes, note))
    return row


def _rows_without_call(expectations: Iterable[int], judgement: TrajectoryComparison) -> Iterator[DifferenceRow]:
    pairing = judgement.pairing
    for index in expectations:
        for call, owner in enumerate(pairing.misplaced):
            if owner == index:
                yield DifferenceRow(index, None, f"misplaced: call {call + 1}", _misplaced(call, judgement))
        if pairing.missing[index] > pairing.differing.count(index):
            yield DifferenceRow(index, None, "missing", _missing(index, judgement))


def _numbered(call: int, judgement: TrajectoryComparison) -> str:
    return f"call {call + 1}, {call_text(judgement.calls[call], 40)}"


def _missing(index: int, judgement: TrajectoryComparison) -> str:
    expectation = judgement.trajectory.expected[index]
    found = f", found {judgement.pairing.fitting.count(index)}" if expectation.is_counted else ""
    return f"missing: {expectation}{found}"


def _misplaced(call: int, judgement: TrajectoryComparison) -> str:
    owner = judgement.pairing.misplaced[call]
    return f"misplaced: {_numbered(call, judgement)}, is expected as number {(owner or 0) + 1}"


def _extra(call: int, judgement: TrajectoryComparison) -> str:
    expected = (judgement.trajectory.expected[index] for index in judgement.pairing.fits[call])
    limit = next((each for each in expected if each.is_counted), None)
    return f"extra: {_numbered(call, judgement)}" + (f"; expected {limit.text(40)}" if limit else "")


def _forbidden(call: int, judgement: TrajectoryComparison) -> str:
    rule = judgement.forbidden[call]
    return f"forbidden: {_numbered(call, judgement)}" + (f", by {rule.text(40)}" if rule.args else "")


MAX_COLUMNS = 100
MAX_LINES = 60
MAX_NOTES = 5
CELL_COLUMNS = 38
ROWS_AROUND = 2


def difference_text(rows: Sequence[DifferenceRow], judgement: TrajectoryComparison) -> str:
    """The rows as lines of at most 100 columns: what was expected, what came, and what is wrong.

    `>` marks the most telling row. Rows in which all is well are left out if they are far from the others.
    """
    told = main_problem(rows)
    header = [f"expected ({judgement.trajectory.mode})", "actual"]
    cells = [_cells(row, judgement) for row in rows]
    widths = [max(len(cell[side]) for cell in [header, *cells]) for side in (0, 1)]
    lines = [_line("  ", header, widths, "")]
    for index in _visible_rows(rows):
        if index is None:
            lines.append("  …")
            continue
        lines.append(_line("> " if rows[index] is told else "  ", cells[index], widths, rows[index].label))
        lines.extend(_notes(rows[index]))
    more = [f"  … {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return "\n".join([*lines[:MAX_LINES], *more])


def main_problem(rows: Sequence[DifferenceRow]) -> DifferenceRow:
    """The row of the first forbidden call, or else the first in which something is wrong."""
    wrong = [row for row in rows if row.label]
    return next((row for row in wrong if row.label == "forbidden"), wrong[0])


def _cells(row: DifferenceRow, judgement: TrajectoryComparison) -> list[str]:
    left = right = ""
    if row.expectation is not None:
        number = f"{row.expectation + 1}. "
        left = number + judgement.trajectory.expected[row.expectation].text(CELL_COLUMNS - len(number))
    if row.call is not None:
        number = f"{row.call + 1}. "
        right = number + call_text(judgement.calls[row.call], CELL_COLUMNS - len(number))
    return [left, right]


def _line(mark: str, cells: list[str], widths: list[int], label: str) -> str:
    left, right = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{mark}{left}  {right}  {label}".rstrip()


def _notes(row: DifferenceRow) -> Iterator[str]:
    for note in row.notes[:MAX_NOTES]:
        yield truncate(f"      {note}", MAX_COLUMNS)
    if len(row.notes) > MAX_NOTES:
        yield f"      … {len(row.notes) - MAX_NOTES} more"


def _visible_rows(rows: Sequence[DifferenceRow]) -> Iterator[int | None]:
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
