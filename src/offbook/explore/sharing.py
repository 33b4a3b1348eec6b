"""Cases with one run: a lasting fault that the run meets only once.

`call=1: timeout` and `call=1 attempt=1: timeout` are two cases. If the agent never sends call 1 again, they are one
run: both plans decide alike at every call that it makes. A run of the second case gets, call by call, the same answers
and the same faults, and a deterministic run makes the same next request, with the same attempt number and after the
same effects. So neither the plans nor the runs need to be compared: it is enough that the plans agree at each site that
the known run has reached. That holds for single faults and for pairs.

Equal requests after *different* faults are not enough. An agent may remember which error it has met, and treat the next
one differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.decoding import decode_msgpack
from offbook.explore.cases import FaultCase, site_of
from offbook.explore.run import Run
from offbook.faults import At, FaultPlan, PlannedFault
from offbook.faults.site import mark_of
from offbook.recording.match.continuation import gave_up_mark


class KnownRuns:
    """The runs of the cases so far, for cases that share them."""

    def __init__(self) -> None:
        self._known: dict[frozenset[str], tuple[FaultCase, tuple[Run, ...]]] = {}
        self._wanted = set[frozenset[str]]()

    def expect(self, cases: Iterable[FaultCase]) -> None:
        """Remember from now on the runs that these cases may share."""
        self._wanted.update(key for case in cases if (key := _shared_key(case)) is not None)

    def add(self, case: FaultCase, runs: tuple[Run, ...]) -> None:
        """Store the runs of a case, if others may share them: a pair, if its first fault is also tried as lasting."""
        key, first = _key(case.lines), _key(case.lines[:1])
        if key in self._wanted or first in self._wanted:
            self._known[key] = case, runs

    def split(self, cases: Sequence[FaultCase]) -> tuple[list[FaultCase], list[FaultCase]]:
        """Return the cases to run first, and those that may turn out to share a run with one of them or before."""
        known = {_key(case.lines) for case in cases} | self._known.keys()
        later = [case for case in cases if _shared_key(case) in known]
        ids = {case.id for case in later}
        return [case for case in cases if case.id not in ids], later

    def find(self, case: FaultCase) -> SharedRuns | None:
        """Return the runs of a case, if it is known to share another one's."""
        narrow = _narrowed_lines(case)
        if narrow is None or (key := _key(narrow)) not in self._known:
            return None
        other, runs = self._known[key]
        if not all(_decide_alike(case.plan, other.plan, run) for run in runs):
            return None
        marks = {mark_of(theirs): mark_of(mine) for theirs, mine in zip(narrow, case.lines, strict=True)}
        marks[gave_up_mark(other.plan)] = gave_up_mark(case.plan)
        return SharedRuns(other.id, tuple(_with_marks(run, marks) for run in runs))


def leading_ids(cases: Iterable[FaultCase]) -> dict[str, str]:
    """Return, by case id, the id of the case whose run it may share, or its own.

    Cases that may share a run must be in one shard.
    """
    known = list(cases)
    owners = {_key(case.lines): case.id for case in known}
    return {case.id: case.id if (key := _shared_key(case)) is None else owners.get(key, case.id) for case in known}


class SharedRuns(Struct, frozen=True):
    """Runs that were made for the case with the id `of`, with the marks of the case that shares them."""

    of: str
    runs: tuple[Run, ...]


def _shared_key(case: FaultCase) -> frozenset[str] | None:
    """Return the key of the case whose runs this one may share, or None if its faults do not last."""
    narrow = _narrowed_lines(case)
    return None if narrow is None else _key(narrow)


def _key(lines: Iterable[PlannedFault]) -> frozenset[str]:
    return frozenset(str(line) for line in lines)


def _narrowed_lines(case: FaultCase) -> tuple[PlannedFault, ...] | None:
    """Return the lines with each lasting fault narrowed to one that fires once, or None without any."""
    lines = tuple(PlannedFault(_first_of(line.at), line.fault) for line in case.lines)
    return None if lines == case.lines else lines


def _first_of(at: At) -> At:
    """Return the first of the sites that a line covers; of an outage, all."""
    if at.from_ is not None or at.until is not None:
        return at
    if at.tool is not None:
        return at if at.call is not None else replace(at, call=at.since or 1, since=None)
    call = at.since if at.call is None else at.call
    return at if call is None else replace(at, call=call, since=None, attempt=at.attempt or 1)


def _decide_alike(plan: FaultPlan, other: FaultPlan, run: Run) -> bool:
    """Return whether two plans have the same fault at each of a run's sites, all of which must be known."""
    sites = [*map(site_of, run.calls), *map(site_of, run.tools)]
    faults = [[line and line.fault for line in map(each.line_at, sites)] for each in (plan, other)]
    return not run.hung and bool(sites) and faults[0] == faults[1]


def _with_marks(run: Run, marks: Mapping[str, str]) -> Run:
    """Return the run with other marks of equal length in its injected texts."""
    data = msgspec.msgpack.encode(run)
    for mark, other in marks.items():
        data = data.replace(mark.encode(), other.encode())
    return decode_msgpack(data, Run)
