"""The cases of an exploration: every variant at every site, pairs of faults, and the smallest plan that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.sites import ExploredSite
from offbook.explore.variants import FaultVariant
from offbook.faults import FaultPlan, PlannedFault

EVERY_ATTEMPT = "always"


class HeatmapCell(Struct, frozen=True):
    """A place in the picture of an exploration: which call, which fault."""

    row: str
    column: str


class FaultCase(Struct, frozen=True):
    """Faults to replay a run with. Equivalent cells of the picture share one."""

    id: str
    lines: tuple[PlannedFault, ...]
    cells: tuple[HeatmapCell, ...]

    @property
    def plan(self) -> FaultPlan:
        return FaultPlan(self.lines)

    def __str__(self) -> str:
        return "; ".join(str(line) for line in self.lines)


def cases_of(
    sites: Sequence[ExploredSite], variants: Iterable[FaultVariant], *, budget: int | None = None
) -> list[FaultCase]:
    """Every fault at every site that it can strike, the most telling first: each fault goes round all sites in turn.

    Cases that would do the same are one. A `budget` is the most that there may be.
    """
    found: dict[str, tuple[PlannedFault, list[HeatmapCell]]] = {}
    for variant in variants:
        for column, line, site in _planned_faults(variant, sites):
            found.setdefault(str(line), (line, []))[1].append(HeatmapCell(site.row, column))
    numbered = enumerate(found.values(), 1)
    made = [FaultCase(f"{number:04}", (line,), tuple(cells)) for number, (line, cells) in numbered]
    return made if budget is None else made[:budget]


def _planned_faults(
    variant: FaultVariant, sites: Sequence[ExploredSite]
) -> Iterator[tuple[str, PlannedFault, ExploredSite]]:
    """The lines that a dish makes, with the column of each: all sites once, then again for what lasts."""
    for site in sites:
        if not variant.fits(site):
            continue
        if not variant.needs_stream:
            yield variant.name, site.at.fail(variant.fault), site
        for name, chunk in site.positions if variant.needs_stream else ():
            yield f"{variant.name}, {name}", replace(site.at, chunk=chunk).fail(variant.fault), site
    for site in sites if variant.is_persistent else ():
        if variant.fits(site) and site.at.attempt == 1:
            yield f"{variant.name}, {EVERY_ATTEMPT}", replace(site.at, attempt=None).fail(variant.fault), site


def pairs_of(
    first: FaultCase, sites: Sequence[ExploredSite], variants: Iterable[FaultVariant]
) -> Iterator[tuple[PlannedFault, ...]]:
    """The case with a second fault at each of `sites`: those that a run of it came by behind the first."""
    for variant in variants:
        for _, line, site in _planned_faults(replace(variant, is_persistent=False), sites):
            if all(other.at != site.at for other in first.lines):
                yield (*first.lines, line)


def minimise(
    lines: Sequence[PlannedFault], fails: Callable[[tuple[PlannedFault, ...]], bool]
) -> tuple[PlannedFault, ...]:
    """The lines without those that can be left out, one by one, while `fails` stays true."""
    kept = tuple(lines)
    place = 0
    while place < len(kept) and len(kept) > 1:
        without = kept[:place] + kept[place + 1 :]
        if fails(without):
            kept = without
        else:
            place += 1
    return kept
