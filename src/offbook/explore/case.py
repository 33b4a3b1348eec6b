"""A case: the faults that one replay meets; and which cases there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.menu import Dish
from offbook.explore.site import ExploredSite
from offbook.faults import FaultPlan, PlannedFault

LASTING = "always"


class Cell(Struct, frozen=True):
    """A place in the picture of an exploration: which call, which fault."""

    row: str
    column: str


class Case(Struct, frozen=True):
    """Faults to replay a run with. Equivalent cells of the picture share one."""

    id: str
    lines: tuple[PlannedFault, ...]
    cells: tuple[Cell, ...]

    @property
    def plan(self) -> FaultPlan:
        return FaultPlan(self.lines)

    def __str__(self) -> str:
        return "; ".join(str(line) for line in self.lines)


def cases_of(sites: Sequence[ExploredSite], dishes: Iterable[Dish], *, budget: int | None = None) -> list[Case]:
    """Every fault at every site that it can strike, the most telling first: each fault goes round all sites in turn.

    Cases that would do the same are one. A `budget` is the most that there may be.
    """
    found: dict[str, tuple[PlannedFault, list[Cell]]] = {}
    for dish in dishes:
        for column, line, site in _lines(dish, sites):
            found.setdefault(str(line), (line, []))[1].append(Cell(site.row, column))
    numbered = enumerate(found.values(), 1)
    made = [Case(f"{number:04}", (line,), tuple(cells)) for number, (line, cells) in numbered]
    return made if budget is None else made[:budget]


def _lines(dish: Dish, sites: Sequence[ExploredSite]) -> Iterator[tuple[str, PlannedFault, ExploredSite]]:
    """The lines that a dish makes, with the column of each: all sites once, then again for what lasts."""
    for site in sites:
        if not dish.fits(site):
            continue
        if not dish.needs_stream:
            yield dish.name, site.at.fail(dish.fault), site
        for name, chunk in site.positions if dish.needs_stream else ():
            yield f"{dish.name}, {name}", replace(site.at, chunk=chunk).fail(dish.fault), site
    for site in sites if dish.is_lasting else ():
        if dish.fits(site) and site.at.attempt == 1:
            yield f"{dish.name}, {LASTING}", replace(site.at, attempt=None).fail(dish.fault), site


def pairs_of(first: Case, sites: Sequence[ExploredSite], dishes: Iterable[Dish]) -> Iterator[tuple[PlannedFault, ...]]:
    """The case with a second fault at each of `sites`: those that a run of it came by behind the first."""
    for dish in dishes:
        for _, line, site in _lines(replace(dish, is_lasting=False), sites):
            if all(other.at != site.at for other in first.lines):
                yield (*first.lines, line)
