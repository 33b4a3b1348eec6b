"""The differences of an exploration's verdicts from an earlier one's."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.explorer import Exploration
from offbook.explore.recovery import recovery_of
from offbook.explore.verdict import FINDING_TITLES, TITLES


class VerdictChange(Struct, frozen=True):
    """A case with a changed verdict or reason, by their titles. One is None if its exploration lacks the case.

    It `was_left_out` or `is_left_out` because of a budget, or because its fault was not tried; nothing is known about
    it then.
    """

    case: str
    before: str | None
    after: str | None
    was_left_out: bool = False
    is_left_out: bool = False

    @property
    def is_worse(self) -> bool:
        """Whether the case is a finding and was none before, did not exist, or was a less severe one.

        Giving up where the run continued before may be intended: a change, but no defect.
        """
        if self.after not in FINDING_TITLES:
            return False
        return self.before is None or TITLES.index(self.after) < TITLES.index(self.before)


class ExplorationComparison(Struct, frozen=True):
    """The cases whose verdicts differ, in the order of the later exploration, and how many are the same.

    Of those that the later one has not tried, only earlier findings are changes; `not_tried` counts the others. Cases
    that recover in both, and need more calls in the later one, are `dearer`.
    """

    changes: tuple[VerdictChange, ...]
    same: int
    not_tried: int = 0
    dearer: int = 0

    @property
    def worse(self) -> list[VerdictChange]:
        return [change for change in self.changes if change.is_worse]

    @property
    def left_out(self) -> list[VerdictChange]:
        """The earlier findings that were not tried this time: they may be fixed or not."""
        return [change for change in self.changes if change.is_left_out]


def compare_explorations(before: Exploration, after: Exploration) -> ExplorationComparison:
    """Compare two explorations case by case. Cases with equal faults correspond."""
    old = {str(each.case): each.title for each in before.results}
    new = {str(each.case): each.title for each in after.results}
    left_before = {each.fault for each in before.left_out}
    was_left_out = {str(each.case) for each in after.results if left_before.intersection(each.case.columns)}
    left = [name for name in old if name not in new]
    columns = {column for each in after.results for column in each.case.columns}
    others = {str(each.case) for each in before.results if not columns.issuperset(each.case.columns)}
    names = list(new) + [name for name in left if old[name] in FINDING_TITLES]
    changes = [
        VerdictChange(
            name,
            old.get(name),
            new.get(name),
            was_left_out=name not in old and name in was_left_out,
            is_left_out=name in after.not_tried or name in others,
        )
        for name in names
        if old.get(name) != new.get(name)
    ]
    not_tried = sum(old[name] not in FINDING_TITLES for name in left)
    taken = _further_calls(before)
    dearer = sum(calls > taken.get(name, calls) for name, calls in _further_calls(after).items())
    return ExplorationComparison(tuple(changes), len(names) - len(changes), not_tried, dearer)


def _further_calls(exploration: Exploration) -> dict[str, float]:
    """Return how many calls more than the clean run each case took that recovered."""
    recovered = (each for each in exploration.results if each.verdict == "recovered")
    return {str(each.case): recovery_of(each.run, exploration.clean).calls for each in recovered}
