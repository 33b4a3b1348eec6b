"""Two explorations side by side: before and after a change, two models, two versions of an SDK."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.exploration import Exploration
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict


class Change(Struct, frozen=True):
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


class Comparison(Struct, frozen=True):
    """The cases whose verdicts differ, in the order of the second exploration, and how many have the same."""

    changes: tuple[Change, ...]
    same: int

    @property
    def worse(self) -> list[Change]:
        return [change for change in self.changes if change.is_worse]


def compared(before: Exploration, after: Exploration) -> Comparison:
    """Case by case, by the faults that they are made of."""
    old = {str(each.case): each.verdict for each in before.explored}
    new = {str(each.case): each.verdict for each in after.explored}
    names = list(new) + [name for name in old if name not in new]
    changes = [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return Comparison(tuple(changes), len(names) - len(changes))
