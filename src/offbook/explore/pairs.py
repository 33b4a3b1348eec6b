"""The pairs of faults that follow from single faults: their order, and their expected number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.cases import FaultCase, planned_faults
from offbook.explore.options import FaultVariant
from offbook.explore.run import ExploredSite, Run, sites_of
from offbook.explore.schedule import CaseSchedule, rank, rows_near_effects
from offbook.faults import PlannedFault

PAIRED_FAULTS = ("connection_reset", "http_error 500", "timeout", "tool_error", "tool_lost")
"""The most likely faults, tried as the second of a pair."""

CRASHES = ("crash before", "crash after")
"""The second faults of a program's pairs, if it may crash: beside another fault, or again while it recovers."""


class FaultPair(Struct, frozen=True):
    """A pair of faults. Its `kind` are the columns of both.

    `promise` counts the reasons to try it early: its first fault is a finding, its second one is near an effect.
    `distance` is the number of sites between both, and `spread` a number independent of their calls.
    """

    case: FaultCase
    kind: tuple[str, str]
    promise: int
    distance: int
    spread: int


def pairs_of(
    first: FaultCase, sites: Sequence[ExploredSite], variants: Iterable[FaultVariant]
) -> Iterator[tuple[tuple[PlannedFault, ...], str]]:
    """Yield the case with a second fault at each of `sites`, and the row of that site.

    The sites are those that the run of the case reached after the first fault.
    """
    for variant in variants:
        for _, line, site in planned_faults(replace(variant, is_persistent=False), sites):
            if all(other.at != site.at for other in first.lines):
                yield (*first.lines, line), site.row


class Pairs:
    """The pairs after single faults: the second one is at a site that the run reached after the first.

    They are numbered from `first_number` on, as they are found.
    """

    def __init__(self, clean: Run, variants: Iterable[FaultVariant], *, first_number: int) -> None:
        self._first_number = first_number
        paired = (*PAIRED_FAULTS, *CRASHES) if clean.is_program else PAIRED_FAULTS
        self._variants = [variant for variant in variants if variant.name in paired]
        self._sites = sites_of(clean)
        self._fitting = [sum(variant.fits(site) for variant in self._variants) for site in self._sites]
        self._known: dict[frozenset[str], FaultCase] = {}
        self._waiting: list[FaultPair] = []
        self._taken: Counter[tuple[int, tuple[str, str]]] = Counter()
        self._foreseen = 0

    @property
    def are_wanted(self) -> bool:
        """Whether a fault that can be the second one is tried."""
        return bool(self._variants)

    @property
    def cases(self) -> list[FaultCase]:
        """All known pairs."""
        return list(self._known.values())

    @property
    def waiting(self) -> int:
        """The number of known pairs that were not taken."""
        return len(self._waiting)

    def add(self, case: FaultCase, run: Run, *, is_finding: bool) -> None:
        """Add the pairs that the run of a single fault shows."""
        self._foreseen += self._expected(case)
        if run.first_life is not None and not run.is_program:  # sites are those of the first life
            return
        reached, near = sites_of(run), rows_near_effects(run)
        sites = reached[place_after(case, reached) :] if run.first_life is None else _after_crash(case, reached)
        distances = {site.row: place for place, site in reversed([*enumerate(sites)])}
        for lines, row in pairs_of(case, sites, self._variants):
            pair = FaultCase(f"{self._first_number + len(self._known):04}", lines, ())
            if self._known.setdefault(frozenset(map(str, lines)), pair) is pair:
                kind = case.columns[0], pair.columns[0]
                promise = is_finding + (row in near)
                self._waiting.append(FaultPair(pair, kind, promise, distances[row], crc32(str(pair).encode())))

    def take(self, count: int) -> list[FaultCase]:
        """Return at most `count` of the most informative new pairs.

        First, each fault is the second of one pair. Then all kinds take turns: in each turn, a kind gets one pair, and
        one more for each reason to try it. Within a kind, close second faults come first, evenly over all calls.
        """
        ranked = sorted(self._waiting, key=lambda pair: (pair.distance, pair.spread))
        counts, turns = self._taken.copy(), dict[str, int]()
        for pair in ranked:
            turns[pair.case.id] = counts[pair.promise, pair.kind] // (1 + pair.promise)
            counts[pair.promise, pair.kind] += 1
        ranked.sort(key=lambda pair: (turns[pair.case.id], -pair.promise, *rank(pair.case)))
        seconds = {kind[1] for _, kind in self._taken}
        new = {pair.kind[1]: pair.case.id for pair in reversed(ranked) if pair.kind[1] not in seconds}
        ranked.sort(key=lambda pair: new.get(pair.kind[1]) != pair.case.id)
        taken, self._waiting = ranked[:count], ranked[count:]
        self._taken.update((pair.promise, pair.kind) for pair in taken)
        return [pair.case for pair in taken]

    def expected_behind(self, cases: Iterable[FaultCase]) -> int:
        """Estimate the number of pairs after cases that have not run.

        That is the number that the clean run's sites allow, times the share of such pairs found so far: a run that ends
        at its fault has none.
        """
        expected = sum(map(self._expected, cases))
        return round(expected * len(self._known) / self._foreseen) if self._foreseen else expected

    def _expected(self, case: FaultCase) -> int:
        return sum(self._fitting[place_after(case, self._sites) :])


def place_after(case: FaultCase, sites: Sequence[ExploredSite]) -> int:
    """Return the place of the first site that a run with a fault reached after the fault, or the end."""
    lines = [replace(line.at, chunk=None) for line in case.lines]
    fired = [place for place, site in enumerate(sites) if site.at in lines or replace(site.at, attempt=None) in lines]
    return fired[-1] + 1 if fired else len(sites)


def _after_crash(case: FaultCase, sites: Sequence[ExploredSite]) -> list[ExploredSite]:
    """Return the sites of a program's life after a crash. Its calls are counted on; the one that was killed is none."""
    at = case.lines[-1].at
    same = [site for site in sites if (site.at.tool, site.at.step_id) == (at.tool, at.step_id)]
    return [site for site in same if (site.at.call or 0) > (at.call or 0)]


class _ExpectedPairs(Pairs):
    """Pairs of a known number only, all of which could run from the start."""

    def __init__(self, count: int) -> None:
        self._left, self._are_wanted = count, count > 0

    @property
    def are_wanted(self) -> bool:
        return self._are_wanted

    def take(self, count: int) -> list[FaultCase]:
        taken = min(count, self._left)
        self._left -= taken
        return [FaultCase("", (), ())] * taken


def expected_cases(planned: CaseSchedule, pairs: Pairs, *, most: int | None) -> tuple[list[FaultCase], int]:
    """Return the single faults that run within a number of cases, and the approximate number of pairs.

    Only the runs of single faults determine the pairs.
    """
    waves = Waves(planned, _ExpectedPairs(pairs.expected_behind(planned.within(None))), most=most)
    while waves.deal():
        pass
    single = [case for case in waves.dealt if case.lines]
    return single, len(waves.dealt) - len(single)


class Waves:
    """Deals the cases of an exploration, at most `most`. Earlier runs determine the pairs.

    The first wave has the most informative case of each family. With pairs, the next has one pair, one case of each
    fault and one at each call; then each wave is as large as all before it, and others and pairs take turns. Without
    pairs, the rest is one wave. The first cases therefore depend neither on a budget nor on the number of workers.
    """

    def __init__(self, planned: CaseSchedule, pairs: Pairs, *, most: int | None) -> None:
        self._planned, self._pairs, self._most = planned, pairs, most
        self._others, self._stage = list(planned.others), 0
        self._wave: list[FaultCase] = []
        self.dealt: list[FaultCase] = []

    def deal(self) -> list[FaultCase]:
        """Return the next cases to run, or none."""
        room = None if self._most is None else self._most - len(self.dealt)
        self._wave = []
        while not self._wave and self._stage <= 2:
            self._wave = self._deal_stage(room)[:room]
            self._stage += 1 if self._stage < 2 or not self._wave else 0
        self.dealt += self._wave
        return self._wave

    def _deal_stage(self, room: int | None) -> list[FaultCase]:
        if not self._pairs.are_wanted:
            return [] if self._stage else self._planned.within(None)
        if self._stage == 0:
            return list(self._planned.first)
        if self._stage == 1:
            return [*self._pairs.take(1 if room is None else min(1, room)), *self._planned.next]
        return self._take_turns(len(self.dealt) if room is None else min(room, len(self.dealt)))

    def _take_turns(self, size: int) -> list[FaultCase]:
        chosen = self._pairs.take(max(size // 2, size - len(self._others)))
        others, self._others = self._others[: size - len(chosen)], self._others[size - len(chosen) :]
        return [case for turn in zip_longest(others, chosen) for case in turn if case is not None]

    def to_come(self) -> tuple[list[FaultCase], int]:
        """Return the single faults still to be dealt, and the approximate number of pairs."""
        stages = (self._planned.first, self._planned.next)
        others = [*(case for stage in stages[self._stage :] for case in stage), *self._others]
        if not self._pairs.are_wanted:
            return ([] if self._stage else others[: self._most]), 0
        running = [case for case in self._wave if case.group != "pairs"]
        pairs = self._pairs.waiting + self._pairs.expected_behind([*running, *others])
        if self._most is None:
            return others, pairs
        room = self._most - len(self.dealt)
        few = min(pairs, max(room // 2, room - len(others)))
        return others[: room - few], few
