"""The orders in which calls that are under way together can end, as cases of an exploration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, permutations
from math import factorial

from msgspec import Struct

from offbook.explore.cases import FaultCase, HeatmapCell
from offbook.explore.run import ExploredSite, Run, sites_of
from offbook.faults import At, FaultPlan, PlannedFault
from offbook.faults.order import HeldUntil

MAX_ORDERS = 24
"""How many orders of one set of calls are all tried: those of four calls. Of more calls, neighbours change places."""


class OrderCases(Struct, frozen=True):
    """Cases, and how many orders of the same calls they leave out."""

    cases: tuple[FaultCase, ...] = ()
    left: int = 0


def probe_plan(clean: Run) -> FaultPlan:
    """Return a plan by which a run shows which of its calls are under way together.

    Every answer is held until nothing else happens; then the one that was held longest is given, and so on.
    """
    tools = dict.fromkeys(each.tool for each in clean.tools if each.is_observed)
    return FaultPlan([At().fail(HeldUntil()), *(At(tool=tool).fail(HeldUntil()) for tool in tools)])


def order_cases(clean: Run, overlaps: Iterable[Sequence[At]], *, first_number: int) -> OrderCases:
    """Return a case for each order in which the calls of each set of `overlaps` can end.

    Calls that are not under way together can end in one order only, so that nothing else has to be tried. Each set
    is changed alone. The calls in each are in the order in which they end without a fault, which is not tried again; in
    a program that is not certain, and is tried.
    """
    sites = {site.at: site for site in sites_of(clean)}
    found: dict[tuple[str, ...], tuple[tuple[PlannedFault, ...], HeatmapCell]] = {}
    left = 0
    for places in overlaps:
        known = [sites[at] for at in places if at in sites]
        if clean.is_program:
            known.sort(key=lambda site: str(site.at))
        orders = list(_orders_of(len(known)))[0 if clean.is_program else 1 :]
        left += factorial(len(known)) - len(orders) - (not clean.is_program)
        for order in orders:
            lines = tuple(_lines(known, order, is_held=clean.is_program))
            column = f"held_until, {'-'.join(str(place + 1) for place in order)}"
            found.setdefault(tuple(map(str, lines)), (lines, HeatmapCell(known[min(order)].row, column)))
    cases = [
        FaultCase(f"{number:04}", lines, (cell,)) for number, (lines, cell) in enumerate(found.values(), first_number)
    ]
    return OrderCases(tuple(cases), left)


def _orders_of(count: int) -> Iterator[tuple[int, ...]]:
    """Yield all orders, the usual one first. If they are many, two neighbours change places, or all are reversed."""
    usual = tuple(range(count))
    if factorial(count) <= MAX_ORDERS:
        yield from permutations(usual)
        return
    yield usual
    for place in range(count - 1):
        yield (*usual[:place], place + 1, place, *usual[place + 2 :])
    yield usual[::-1]


def _lines(sites: Sequence[ExploredSite], order: Sequence[int], *, is_held: bool) -> Iterator[PlannedFault]:
    """Yield the lines by which calls end in this order: each is held until the one before it has ended.

    Unless `is_held`, those at the start of the order that end so by themselves are not held.
    """
    for position, (before, place) in enumerate(pairwise(order), 1):
        is_held = is_held or place < max(order[:position])
        if is_held:
            yield sites[place].at.fail(_until(sites[before].at))


def _until(at: At) -> HeldUntil:
    return HeldUntil(tool=at.tool or "", step=at.step_id or "", call=at.call or 0)
