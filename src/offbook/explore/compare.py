"""The coverage of an exploration, and how its verdicts differ from those of an earlier one."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from offbook.explore.explorer import Exploration
from offbook.explore.verdict import FINDING_TITLES, TITLES


class VerdictChange(Struct, frozen=True):
    """A case whose verdict or reason changed, by their titles. One is None if its exploration does not have the case.

    It `was_left_out` or `is_left_out` if that is so because of a budget; then nothing is known about it.
    """

    case: str
    before: str | None
    after: str | None
    was_left_out: bool = False
    is_left_out: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the case ends worse than before, or is a finding and was not there before."""
        if self.after is None or self.after == "not reached":
            return False
        if self.before is None:
            return self.after in FINDING_TITLES
        best = TITLES.index("recovered")
        return TITLES.index(self.after) < min(TITLES.index(self.before), best)


class ExplorationComparison(Struct, frozen=True):
    """The cases whose verdicts differ, in the order of the later exploration, and how many are the same.

    Of those that the later one has not tried, only earlier findings are changes; `not_tried` counts the others.
    """

    changes: tuple[VerdictChange, ...]
    same: int
    not_tried: int = 0

    @property
    def worse(self) -> list[VerdictChange]:
        return [change for change in self.changes if change.is_worse]

    @property
    def left_out(self) -> list[VerdictChange]:
        """The earlier findings that the budget left out this time: they may be fixed or not."""
        return [change for change in self.changes if change.is_left_out]


def compare_explorations(before: Exploration, after: Exploration) -> ExplorationComparison:
    """Compare two explorations case by case. Cases are the same if their faults are."""
    old = {str(each.case): each.title for each in before.results}
    new = {str(each.case): each.title for each in after.results}
    left_before = {each.fault for each in before.left_out}
    was_left_out = {str(each.case) for each in after.results if left_before.intersection(each.case.columns)}
    left = [name for name in old if name not in new]
    names = list(new) + [name for name in left if old[name] in FINDING_TITLES]
    changes = [
        VerdictChange(
            name,
            old.get(name),
            new.get(name),
            was_left_out=name not in old and name in was_left_out,
            is_left_out=name in after.not_tried,
        )
        for name in names
        if old.get(name) != new.get(name)
    ]
    not_tried = sum(old[name] not in FINDING_TITLES for name in left)
    return ExplorationComparison(tuple(changes), len(names) - len(changes), not_tried)


RECOVERY_PATHS = ("retry", "fallback", "breaker open")


class Coverage(Struct, frozen=True):
    """What an exploration has covered.

    `met` has the faults of each call, `missed` the calls without one, `never_ran` the recovery paths that no run took.
    """

    met: dict[str, list[str]]
    missed: list[str]
    paths: dict[str, int]
    never_ran: list[str]


def coverage_of(exploration: Exploration) -> Coverage:
    """Return what the cases of an exploration have covered."""
    met: dict[str, list[str]] = {row: [] for row in exploration.rows}
    paths = Counter[str]()
    for result in exploration.results:
        paths.update(result.run.paths)
        for cell in result.case.cells if result.verdict != "not reached" else ():
            met.setdefault(cell.row, []).append(cell.column)
    # Only offbook's own gateway shows fallbacks and breakers, and a program may have another one.
    visible = ("retry",) if exploration.clean.is_program else RECOVERY_PATHS
    return Coverage(
        met={row: faults for row, faults in met.items() if faults},
        missed=[row for row, faults in met.items() if not faults],
        paths=dict(sorted(paths.items())),
        never_ran=[path for path in visible if not paths[path]],
    )
