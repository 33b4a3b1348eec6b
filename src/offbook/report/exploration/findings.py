"""The findings of an exploration by cause: cases with the same verdict for the same reason are one."""

from __future__ import annotations

from msgspec import Struct

from offbook.explore.case import Case
from offbook.explore.exploration import Exploration, Explored
from offbook.explore.verdict import Verdict


class Finding(Struct, frozen=True):
    """A defect, and all cases that show it. They have the verdict in common, and the first line of the evidence."""

    explored: tuple[Explored, ...]

    @property
    def first(self) -> Case:
        """The case to begin with."""
        return self.explored[0].case

    @property
    def verdict(self) -> Verdict:
        return self.explored[0].verdict

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the verdict on the first case rests on."""
        return self.explored[0].judged.evidence


def findings_of(exploration: Exploration) -> list[Finding]:
    """The findings, worst first, and among those of one verdict in the order of the cases."""
    causes: dict[tuple[Verdict, str], list[Explored]] = {}
    for each in exploration.findings:
        cause = next(iter(each.judged.evidence), "").partition("\n")[0]
        causes.setdefault((each.verdict, cause), []).append(each)
    return [Finding(tuple(explored)) for explored in causes.values()]
