"""What an exploration has tried: which calls met which faults, which paths of recovery ran, and which never did."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from offbook.explore.exploration import Exploration

PATHS = ("retry", "fallback", "breaker open")


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
    for explored in exploration.explored:
        paths.update(explored.run.paths)
        for cell in explored.case.cells if explored.verdict != "not struck" else ():
            met.setdefault(cell.row, []).append(cell.column)
    return Coverage(
        met={row: faults for row, faults in met.items() if faults},
        missed=[row for row, faults in met.items() if not faults],
        paths=dict(sorted(paths.items())),
        never_ran=[path for path in PATHS if not paths[path]],
    )
