"""Tables of the documentation that say what was observed: read, to be compared with that, and renewed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

DOCS = Path(__file__).parents[2] / "docs"


BREAK = "<br>"


class DocumentedTable(Struct, frozen=True):
    """The table under a heading of a page. Its rows and columns have names, its cells are text.

    Rows with equal cells are one row with several names, if `groups` is true. Rows that are equal in the table under
    the heading `like` are left out. Columns whose names end with one of `variants` are one column, with a cell for all
    or a line for each.
    """

    page: str
    heading: str
    corner: str = "fault"
    groups: bool = False
    like: str = ""
    variants: tuple[str, ...] = ("",)

    @property
    def _path(self) -> Path:
        return DOCS / self.page

    @property
    def _next(self) -> str:
        """How the next heading of that level begins."""
        return f"\n{self.heading.split()[0]} "

    def section(self) -> str:
        """All that stands under the heading."""
        return self._path.read_text(encoding="utf-8").partition(self.heading + "\n")[2].partition(self._next)[0]

    def read(self) -> dict[str, dict[str, str]]:
        """The cells by their columns, and those by their rows."""
        head, _, *lines = (_cells(line) for line in self.section().splitlines() if line.startswith("|"))
        rows = [(name, cells) for names, *cells in lines for name in names.split(BREAK)]
        left_out = self._like()
        return {
            column + variant: left_out.get(column + variant, {})
            | {name: self._part(cells[place], variant) for name, cells in rows}
            for place, column in enumerate(head[1:])
            for variant in self.variants
        }

    def _part(self, cell: str, variant: str) -> str:
        """Return what a cell says of a variant."""
        return (
            dict(line.split(": ", 1) for line in cell.split(BREAK)).get(_label(variant), cell)
            if BREAK in cell
            else cell
        )

    def _joined(self, columns: Mapping[str, Mapping[str, str]], base: str, name: str) -> str:
        parts = {_label(variant): columns[base + variant][name] for variant in self.variants}
        return (
            parts.popitem()[1] if len({*parts.values()}) == 1 else BREAK.join(": ".join(part) for part in parts.items())
        )

    def _like(self) -> dict[str, dict[str, str]]:
        return DocumentedTable(self.page, self.like).read() if self.like else {}

    def differences(self, columns: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Where the page says something else than these cells, and what."""
        expected, seen = _flat(self.read()), _flat(columns)
        places = [place for place in expected | seen if expected.get(place) != seen.get(place)]
        return [f"{' '.join(place)}: {expected.get(place)!r} is {seen.get(place)!r}" for place in places]

    def write(self, columns: Mapping[str, Mapping[str, str]]) -> None:
        """Put other cells into the page."""
        before, heading, after = self._path.read_text(encoding="utf-8").partition(self.heading + "\n")
        section, next_heading, rest = after.partition(self._next)
        lines = section.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("|"))
        prose = [line for line in lines if not line.startswith("|")]
        section = "\n".join([*prose[:first], *self._table(columns), *prose[first:]])
        self._path.write_text(before + heading + section + "\n" + next_heading + rest, encoding="utf-8")

    def _table(self, columns: Mapping[str, Mapping[str, str]]) -> list[str]:
        left_out, rows = self._like(), dict[tuple[str, ...], list[str]]()
        bases = list(dict.fromkeys(column.removesuffix(self._variant_of(column)) for column in columns))
        for name in next(iter(columns.values())):
            cells = tuple(self._joined(columns, base, name) for base in bases)
            if not left_out or any(left_out[column].get(name) != columns[column][name] for column in columns):
                rows.setdefault(cells if self.groups else (name, *cells), []).append(name)
        lines = [_line([BREAK.join(names), *cells[-len(bases) :]]) for cells, names in rows.items()]
        return [_line([self.corner, *bases]), _line(["---"] * (len(bases) + 1)), *lines]

    def _variant_of(self, column: str) -> str:
        return max((each for each in self.variants if column.endswith(each)), key=len)


def _flat(columns: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], str]:
    return {(name, row): cell for name, column in columns.items() for row, cell in column.items()}


def _label(variant: str) -> str:
    return variant.removeprefix(", ") or "whole"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |").split(" | ")
