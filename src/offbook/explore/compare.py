"""What an exploration has covered, and how its verdicts differ from those of an earlier one."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from offbook.explore.runner import Exploration
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict


class VerdictChange(Struct, frozen=True):
    """A case whose verdict is another; None where only one of the two has the case."""

    case: str
    before: Verdict | None
    after: Verdict | None

    @property
    def is_worse(self) -> bool:
        """Whether something is a finding now that was none, or a worse one."""
        if self.after is None or self.after not in FINDINGS:
            return False
        return self.before is None or VERDICTS.index(self.after) < VERDICTS.index(self.before)


class ExplorationComparison(Struct, frozen=True):
    """The cases whose verdicts differ, in the order of the second exploration, and how many have the same."""

    changes: tuple[VerdictChange, ...]
    same: int

    @property
    def worse(self) -> list[VerdictChange]:
        return [change for change in self.changes if change.is_worse]


def compare_explorations(before: Exploration, after: Exploration) -> ExplorationComparison:
    """Case by case, by the faults that they are made of."""
    old = {str(each.case): each.verdict for each in before.results}
    new = {str(each.case): each.verdict for each in after.results}
    names = list(new) + [name for name in old if name not in new]
    changes = [VerdictChange(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return ExplorationComparison(tuple(changes), len(names) - len(changes))


RECOVERY_PATHS = ("retry", "fallback", "breaker open")


class Coverage(Struct, frozen=True):
    """`met` has the faults that each call met, `missed` the calls that met none, `never_ran` the paths nobody took."""

    met: dict[str, list[str]]
    missed: list[str]
    paths: dict[str, int]
    never_ran: list[str]


def coverage_of(exploration: Exploration) -> Coverage:
    """What the cases of an exploration have covered."""
    met: dict[str, list[str]] = {row: [] for row in exploration.rows}
    paths = Counter[str]()
    for explored in exploration.results:
        paths.update(explored.run.paths)
        for cell in explored.case.cells if explored.verdict != "not reached" else ():
            met.setdefault(cell.row, []).append(cell.column)
    return Coverage(
        met={row: faults for row, faults in met.items() if faults},
        missed=[row for row, faults in met.items() if not faults],
        paths=dict(sorted(paths.items())),
        never_ran=[path for path in RECOVERY_PATHS if not paths[path]],
    )
