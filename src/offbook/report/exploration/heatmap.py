"""The heatmap: calls of the clean run by faults, with what became of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offbook.explore.exploration import Exploration, Explored


class HeatRow(Struct, frozen=True):
    """A call, and what was explored there, column by column; None where there is no case."""

    name: str
    cells: tuple[Explored | None, ...]

    @property
    def has_finding(self) -> bool:
        return any(cell is not None and cell.is_finding for cell in self.cells)


class Heatmap(Struct, frozen=True):
    """Calls by faults. `beside` are the cases that have no place in it: those of several faults."""

    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    beside: tuple[Explored, ...] = ()

    def band(self, columns: Sequence[int]) -> Heatmap:
        """The part with these columns alone, and of the rows those in which something was explored there."""
        rows = (HeatRow(row.name, tuple(row.cells[place] for place in columns)) for row in self.rows)
        kept = tuple(row for row in rows if any(cell is not None for cell in row.cells))
        return Heatmap(tuple(self.columns[place] for place in columns), kept)


def heatmap_of(exploration: Exploration) -> Heatmap:
    """The heatmap of an exploration: rows in the order of the calls, columns in that of the cases."""
    columns = tuple(exploration.columns)
    found: dict[tuple[str, str], Explored] = {}
    for each in exploration.explored:
        for cell in each.case.cells:
            found.setdefault((cell.row, cell.column), each)
    names = dict.fromkeys([*exploration.rows, *(row for row, _ in found)])
    rows = (HeatRow(name, tuple(found.get((name, column)) for column in columns)) for name in names)
    return Heatmap(columns, tuple(rows), tuple(each for each in exploration.explored if not each.case.cells))
