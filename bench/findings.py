"""What a subject found: tables of figures, and targets with how far they were met."""

from __future__ import annotations

from msgspec import Struct, field


class Row(Struct):
    """One contestant's figures, one a column; None where it was not measured."""

    name: str
    figures: list[float | None]


class Table(Struct):
    """Figures of the same unit. Ratios are taken to the row named `base`; `is_rate` adds what goes into a second."""

    title: str
    unit: str
    columns: list[str]
    rows: list[Row]
    base: str
    is_rate: bool = False

    def row(self, name: str) -> Row | None:
        """The row of a contestant, if it took part."""
        return next((row for row in self.rows if row.name == name), None)

    def ratios(self, name: str, to: str) -> list[float]:
        """How many times the figures of `to` those of `name` are, for the columns that both have."""
        row, other = self.row(name), self.row(to)
        if row is None or other is None:
            return []
        return [a / b for a, b in zip(row.figures, other.figures, strict=True) if a is not None and b]


class Target(Struct):
    """Something the project wants to be true, the figure measured for it, and whether it was."""

    claim: str
    measured: str
    is_met: bool


class Findings(Struct):
    """All that one subject found. `notes` say what was measured and what was left out."""

    subject: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def at_most(claim: str, ratios: list[float], limit: float) -> list[Target]:
    """The target that no ratio is above `limit`; no target where nothing was measured."""
    return [Target(claim, f"{max(ratios):.2f}x", max(ratios) <= limit)] if ratios else []


def at_least(claim: str, ratios: list[float], limit: float) -> list[Target]:
    """The target that no ratio is below `limit`; no target where nothing was measured."""
    return [Target(claim, f"{min(ratios):.2f}x", min(ratios) >= limit)] if ratios else []
