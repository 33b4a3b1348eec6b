"""The heatmap of an exploration (calls by faults), the style of each verdict, and its drawing as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from offbook.explore.explorer import CaseResult, Exploration
from offbook.explore.verdict import LABELS
from offbook.report.reporter import one_line
from offbook.text import call_text, pluralize, shorten


class HeatRow(Struct, frozen=True):
    """A call, its label, and its cases by column; None for a missing case."""

    name: str
    label: str
    cells: tuple[CaseResult | None, ...]

    @property
    def has_finding(self) -> bool:
        return any(cell is not None and cell.is_finding for cell in self.cells)


class Heatmap(Struct, frozen=True):
    """Calls by faults, without the cases of several faults, which have no cell."""

    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]

    def band(self, columns: Sequence[int]) -> Heatmap:
        """Return the part with these columns, without rows that have no case there."""
        rows = (HeatRow(row.name, row.label, tuple(row.cells[place] for place in columns)) for row in self.rows)
        shown = tuple(row for row in rows if any(cell is not None for cell in row.cells))
        return Heatmap(tuple(self.columns[place] for place in columns), shown)


def heatmap_of(exploration: Exploration) -> Heatmap:
    """Return the heatmap of an exploration: rows in the order of calls, columns in the order of cases."""
    columns, found = tuple(exploration.columns), results_by_cell(exploration)
    names = dict.fromkeys([*exploration.rows, *(row for row, _ in found)])
    labels = row_labels(exploration)
    rows = (
        HeatRow(name, labels.get(name, name), tuple(found.get((name, column)) for column in columns)) for name in names
    )
    return Heatmap(columns, tuple(rows))


def results_by_cell(exploration: Exploration) -> dict[tuple[str, str], CaseResult]:
    """Return the results by the row and the column of their cells."""
    found: dict[tuple[str, str], CaseResult] = {}
    for each in exploration.results:
        for cell in each.case.cells:
            found.setdefault((cell.row, cell.column), each)
    return found


def row_labels(exploration: Exploration) -> dict[str, str]:
    """Return the labels of a heatmap's rows, by name: `2 → refund(42)`, for a tool `refund(42)`.

    A step is named only if there are several. Rows without a call in the clean run keep their names.
    """
    labels = {row: row for row in exploration.rows}
    calls, tools = exploration.clean.calls, exploration.clean.tools
    has_steps = len({call.step_id for call in calls}) > 1
    for call in calls:
        asked = ", ".join(call_text(tool, arguments, MAX_LABEL_CHARS) for tool, arguments in call.asks_for)
        number = f"{call.number} {call.step_id}" if has_steps and call.step_id else str(call.number)
        again = f", try {call.attempt}" if call.attempt > 1 else ""
        labels[call.row] = f"{number} → {shorten(asked, MAX_LABEL_CHARS) or 'answer'}{again}"
    texts = Counter(call_text(each.tool, each.arguments, MAX_LABEL_CHARS) for each in tools)
    for each in tools:
        text = call_text(each.tool, each.arguments, MAX_LABEL_CHARS)
        labels[f"{each.tool} {each.call}"] = text if texts[text] == 1 else f"{text}, call {each.call}"
    return labels


class VerdictStyle(Struct, frozen=True):
    """The symbol of a label, its ASCII symbol, its style, and the meaning of the verdict."""

    letter: str
    ascii: str
    style: str
    meaning: str


VERDICT_STYLES: dict[str, VerdictStyle] = {
    "repeated effect": VerdictStyle("2×", "2x", "bold white on red", "it changed something once more than it should"),
    "wrong effect": VerdictStyle(
        "≠", "#", "bold white on red", "it changed something that it should not, or otherwise"
    ),
    "missing effect": VerdictStyle("∅", "o", "bold white on red", "it claims a change that it did not make"),
    "left behind": VerdictStyle("⊣", "L", "bold white on red", "it gave up, and left what it had changed, unnamed"),
    "refused by the API": VerdictStyle(
        "⊘", "x", "bold white on red", "it sent what the real API refuses, and did not get out of it"
    ),
    "undetected": VerdictStyle(
        "=", "=", "bold magenta", "it took bad data for valid, went on without an answer, or failed a check"
    ),
    "possible repeated effect": VerdictStyle(
        "²", "r", "bold magenta", "it may have changed something once more than it should"
    ),
    "hung": VerdictStyle("∞", "H", "bold white on red", "the run did not end"),
    "bad retry": VerdictStyle(
        "»", "s", "bold red", "it sent a call again too often, too soon, in vain or without its conversation"
    ),
    "crashed": VerdictStyle("!", "!", "bold red", "an uncaught error ended it"),
    "undecided": VerdictStyle("?", "?", "cyan", "it went out of sight: an unrecorded request, or a tool"),
    "failed partway": VerdictStyle(
        "÷", "/", "blue", "it gave up after it had changed something, and did not hide that"
    ),
    "different outcome": VerdictStyle(
        "≈", "%", "yellow", "other changes and another result: declare by --gave-up which results give up"
    ),
    "different result": VerdictStyle(
        "~", "~", "yellow", "another result, and nothing judges it: assert what must hold"
    ),
    "not detectable": VerdictStyle("◦", ",", "dim", "it was told a lie that nothing in the run contradicts"),
    "failed cleanly": VerdictStyle("–", "-", "blue", "it gave up, and changed nothing"),
    "recovered": VerdictStyle("✓", "+", "green", "the same result as without the fault"),
    "not reached": VerdictStyle("·", ".", "dim", "the run never reached this site"),
}


MAX_LABEL_CHARS = 48
MAX_ROW_CHARS = 24
MAX_COLUMN_CHARS = 60
MAX_ROWS = 60
GAP = 2


class HeatmapDrawing(Struct, frozen=True):
    """Draws at most `width` columns. `is_ascii` is for consoles without other symbols."""

    width: int
    is_ascii: bool = False

    def heatmap(self, heatmap: Heatmap) -> Iterator[Text]:
        """Yield the lines of a heatmap. Columns have names if all of them fit, else numbers, with a list below.

        A heatmap that is too wide is drawn in several bands. If there are too many calls, only those with findings are
        drawn.
        """
        rows = heatmap.rows
        if len(rows) > MAX_ROWS:
            rows = tuple(row for row in rows if row.has_finding)[:MAX_ROWS]
        label = max((cell_len(self._row_label(row)) for row in rows), default=0)
        names = [one_line(name, MAX_COLUMN_CHARS) for name in heatmap.columns]
        shown = Heatmap(tuple(names), rows)
        if label + sum(GAP + cell_len(name) for name in names) <= self.width:
            yield from self._band(shown, label=label)
        else:
            yield from self._bands(shown, label=label)
        if len(rows) < len(heatmap.rows):
            left = pluralize(len(heatmap.rows) - len(rows), "further call")
            yield Text(f"and {left} without a finding, or too many to show", style="dim")

    def legend(self, results: Iterable[CaseResult]) -> Text:
        """Return the symbols of these cases with their verdicts, worst first."""
        present = {each.label for each in results}
        found = [label for label in LABELS if label in present]
        return Text("  ").join(Text.assemble(self.symbol(label), f" {label}") for label in found)

    def symbol(self, label: str) -> Text:
        """Return the symbol of a label, in its style."""
        style = VERDICT_STYLES[label]
        return Text(style.ascii if self.is_ascii else style.letter, style=style.style)

    def _bands(self, heatmap: Heatmap, *, label: int) -> Iterator[Text]:
        """Yield bands of as many columns as fit, and the list of their names."""
        count = len(heatmap.columns)
        digits = len(str(count))
        numbered = Heatmap(tuple(f"{number:>{digits}}" for number in range(1, count + 1)), heatmap.rows)
        gap = GAP if digits == 1 else GAP - 1  # a symbol has at most two columns
        room = max(1, (self.width - label) // (gap + digits))
        for start in range(0, count, room):
            yield from self._band(numbered.band(range(start, min(start + room, count))), label=label, gap=gap)
            yield Text()
        entries = (f"{number} {name}" for number, name in zip(numbered.columns, heatmap.columns, strict=True))
        yield from self._list_in_columns(list(entries))

    def _band(self, heatmap: Heatmap, *, label: int, gap: int = GAP) -> Iterator[Text]:
        yield Text.assemble(" " * label, *((" " * gap + name, "bold") for name in heatmap.columns))
        for row in heatmap.rows:
            line = Text(set_cell_size(self._row_label(row), label))
            for name, cell in zip(heatmap.columns, row.cells, strict=True):
                symbol = Text(" ") if cell is None else self.symbol(cell.label)
                line.append(" " * (gap + cell_len(name) - symbol.cell_len))
                line.append_text(symbol)
            yield line

    def _row_label(self, row: HeatRow) -> str:
        label = one_line(row.label, MAX_ROW_CHARS)
        return label.replace(" → ", " > ") if self.is_ascii else label

    def _list_in_columns(self, entries: Sequence[str]) -> Iterator[Text]:
        """Yield the entries in columns, to be read downwards."""
        each = max(map(cell_len, entries)) + GAP
        lines = -(-len(entries) // max(1, self.width // each))
        for start in range(lines):
            line = "".join(set_cell_size(entry, each) for entry in entries[start::lines])
            yield Text(line.rstrip(), style="dim")
