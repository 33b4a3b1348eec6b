"""The cases of an exploration: every variant at every site, pairs of faults, and the smallest plan that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.options import FaultVariant
from offbook.explore.run import ExploredSite
from offbook.faults import At, FaultPlan, PlannedFault

LASTING = "always"


class HeatmapCell(Struct, frozen=True):
    """A cell of the heatmap: a call and a fault."""

    row: str
    column: str


class FaultCase(Struct, frozen=True):
    """The faults of one run. Equivalent cells of the heatmap share one case."""

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
    """Return every fault at every site where it can fire, most telling first: each fault at all sites in turn.

    Equivalent cases are one. A `budget` is the largest number of cases: the most telling ones.
    """
    found: dict[str, tuple[PlannedFault, list[HeatmapCell]]] = {}
    variants = list(variants)
    for variant in variants:
        for column, line, site in _planned_faults(variant, _its_turns(variant, variants, sites)):
            found.setdefault(str(line), (line, []))[1].append(HeatmapCell(site.row, column))
    numbered = enumerate(found.values(), 1)
    cases = [FaultCase(f"{number:04}", (line,), tuple(cells)) for number, (line, cells) in numbered]
    return most_telling(cases, budget)


def _its_turns(
    variant: FaultVariant, variants: Sequence[FaultVariant], sites: Sequence[ExploredSite]
) -> Sequence[ExploredSite]:
    """Return the sites at which it is the turn of a variant: all, unless it is spread."""
    spread = [each for each in variants if each.is_spread]
    if variant not in spread:
        return sites
    of_models = [site for site in sites if not site.is_tool]
    return of_models[spread.index(variant) :: len(spread)]


def most_telling(cases: Sequence[FaultCase], budget: int | None) -> list[FaultCase]:
    """Return at most `budget` of the cases, in their order: one of models and one of tools in turn.

    Faults of tools come last, but they are those that show a repeated side effect.
    """
    of_tools = [case for case in cases if any(line.at.tool is not None for line in case.lines)]
    of_models = [case for case in cases if all(line.at.tool is None for line in case.lines)]
    in_turn = [case for pair in zip_longest(of_models, of_tools) for case in pair if case is not None]
    chosen = {case.id for case in in_turn[:budget]}
    return [case for case in cases if case.id in chosen]


def _planned_faults(
    variant: FaultVariant, sites: Sequence[ExploredSite]
) -> Iterator[tuple[str, PlannedFault, ExploredSite]]:
    """Yield the faults of a variant with their columns: at all sites once, then as faults that last."""
    fitting = [site for site in sites if variant.fits(site)]
    for site in fitting if not variant.is_only_persistent else ():
        if not variant.needs_stream:
            yield variant.name, site.at.fail(variant.fault), site
        for name, chunk in site.positions if variant.needs_stream else ():
            yield f"{variant.name}, {name}", replace(site.at, chunk=chunk).fail(variant.fault), site
    for site in fitting if variant.is_persistent else ():
        if site.is_tool or site.at.attempt == 1:
            yield f"{variant.name}, {LASTING}", _lasting(variant, site.at).fail(variant.fault), site


def _lasting(variant: FaultVariant, at: At) -> At:
    """Return where a fault that lasts fires: at every call of a tool, from a call on, or at all attempts of a call."""
    if at.tool is not None:
        return replace(at, call=None)
    return replace(at, attempt=None, call=None, since=at.call) if variant.outlasts_call else replace(at, attempt=None)


def pairs_of(
    first: FaultCase, sites: Sequence[ExploredSite], variants: Iterable[FaultVariant]
) -> Iterator[tuple[PlannedFault, ...]]:
    """Yield the case with a second fault at each of `sites`, which are those that its run reached after the first."""
    for variant in variants:
        for _, line, site in _planned_faults(replace(variant, is_persistent=False), sites):
            if all(other.at != site.at for other in first.lines):
                yield (*first.lines, line)


def minimise(
    lines: Sequence[PlannedFault], fails: Callable[[tuple[PlannedFault, ...]], bool]
) -> tuple[PlannedFault, ...]:
    """Drop lines one by one while `fails` stays true, and return the rest."""
    needed = tuple(lines)
    place = 0
    while place < len(needed) and len(needed) > 1:
        fewer = needed[:place] + needed[place + 1 :]
        if fails(fewer):
            needed = fewer
        else:
            place += 1
    return needed
