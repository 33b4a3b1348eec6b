"""A heatmap drawn with letters: each cell the sign of its verdict, in colour where there are colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from offbook.explore.exploration import Explored
from offbook.explore.verdict import VERDICTS, Verdict
from offbook.report.exploration.heatmap import Heatmap, HeatRow
from offbook.report.exploration.sign import SIGNS
from offbook.report.wording import on_one_line
from offbook.wording import counted

MAX_ROW_CHARS = 24
MAX_COLUMN_CHARS = 60
MAX_ROWS = 60
GAP = 2


class Drawing(Struct, frozen=True):
    """Draws at most `width` columns wide. `is_ascii` is for consoles that know no other signs."""

    width: int
    is_ascii: bool = False

    def heatmap(self, heatmap: Heatmap) -> Iterator[Text]:
        """The lines of a heatmap: columns by name if all names have room, else by numbers, with a list of them below.

        What is too wide comes in several bands. Of very many calls only those with findings are drawn.
        """
        rows = _worth_showing(heatmap.rows)
        label = max((cell_len(_row_name(row)) for row in rows), default=0)
        names = [on_one_line(name, MAX_COLUMN_CHARS) for name in heatmap.columns]
        shown = Heatmap(tuple(names), rows)
        if label + sum(GAP + cell_len(name) for name in names) <= self.width:
            yield from self._band(shown, label=label)
        else:
            yield from self._bands(shown, label=label)
        if len(rows) < len(heatmap.rows):
            left = counted(len(heatmap.rows) - len(rows), "further call")
            yield Text(f"and {left} without a finding, or too many to show", style="dim")

    def signs(self, explored: Iterable[Explored]) -> Text:
        """The signs that these cases have, and their verdicts, worst first."""
        there = {each.verdict for each in explored}
        found = [verdict for verdict in VERDICTS if verdict in there]
        return Text("  ").join(Text.assemble(self.sign(verdict), f" {verdict}") for verdict in found)

    def sign(self, verdict: Verdict) -> Text:
        """The sign of a verdict, in its style."""
        sign = SIGNS[verdict]
        return Text(sign.ascii if self.is_ascii else sign.letter, style=sign.style)

    def _bands(self, heatmap: Heatmap, *, label: int) -> Iterator[Text]:
        """As many columns beside each other as there is room for, then the next."""
        count = len(heatmap.columns)
        digits = len(str(count))
        numbered = Heatmap(tuple(f"{number:>{digits}}" for number in range(1, count + 1)), heatmap.rows)
        room = max(1, (self.width - label) // (GAP + digits))
        for start in range(0, count, room):
            yield from self._band(numbered.band(range(start, min(start + room, count))), label=label)
            yield Text()
        entries = (f"{number} {name}" for number, name in zip(numbered.columns, heatmap.columns, strict=True))
        yield from self._listed(list(entries))

    def _band(self, heatmap: Heatmap, *, label: int) -> Iterator[Text]:
        gap = " " * GAP
        yield Text.assemble(" " * label, *((gap + name, "bold") for name in heatmap.columns))
        for row in heatmap.rows:
            line = Text(set_cell_size(_row_name(row), label))
            for name, cell in zip(heatmap.columns, row.cells, strict=True):
                line.append(" " * (GAP + cell_len(name) - 1))
                line.append_text(Text(" ") if cell is None else self.sign(cell.verdict))
            yield line

    def _listed(self, entries: Sequence[str]) -> Iterator[Text]:
        """The entries in columns, read downwards."""
        each = max(map(cell_len, entries)) + GAP
        lines = -(-len(entries) // max(1, self.width // each))
        for start in range(lines):
            line = "".join(set_cell_size(entry, each) for entry in entries[start::lines])
            yield Text(line.rstrip(), style="dim")


def _worth_showing(rows: tuple[HeatRow, ...]) -> tuple[HeatRow, ...]:
    if len(rows) <= MAX_ROWS:
        return rows
    return tuple(row for row in rows if row.has_finding)[:MAX_ROWS]


def _row_name(row: HeatRow) -> str:
    return on_one_line(row.name, MAX_ROW_CHARS)
