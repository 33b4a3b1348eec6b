"""Explores the zoo and prints a table: `python -m tests.explore.zoo [-v] [-q] [--fresh] [part of a name] …`.

`-v` prints every case. `-q` explores of each defect only the fault that is to show it, as the tests do for programs.
`--fresh` starts programs anew for every case.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from offbook.errors import InputError
from tests.explore.zoo import ledger
from tests.explore.zoo.animals import ANIMALS, twins_of
from tests.explore.zoo.census import Census, explore
from tests.explore.zoo.planted import Planted, Twin
from tests.explore.zoo.programs import FRESH


def counted(planted: Planted, twin: Twin, *, is_quick: bool) -> Census:
    with tempfile.TemporaryDirectory() as folder:
        os.environ[ledger.VARIABLE] = str(Path(folder) / "ledger")
        return explore(planted, twin, Path(folder), is_quick=is_quick and twin == "defect")


def problems(census: Census) -> list[str]:
    """What is not as it should be."""
    planted, found = census.planted, census.findings
    told = [f"ledger: {each.case} {each.verdict}: {each.disagreement}" for each in census.disagreements]
    if census.twin == "sound":
        told += [f"accused: {each.case} [{each.continuation}] {each.verdict}: {each.evidence}" for each in found]
        if planted.twin_is:
            others = [each for each in census.at(planted) if each.verdict not in planted.twin_is]
            told += [f"twin: {each.case} {each.verdict}, expected {planted.twin_is}" for each in others]
        return told + ([] if census.counts["recovered"] else ["nothing recovered"])
    others = [each for each in found if not planted.may_get(each.verdict)]
    told += [f"other: {each.case} {each.verdict}: {each.evidence}" for each in others]
    expected = census.expected
    if expected is None:
        return [f"no such case: {planted.at}", *told]
    if not planted.is_found(expected.verdict):
        told.append(f"missed: {expected.case} [{expected.continuation}] {expected.verdict}: {expected.evidence}")
    elif planted.evidence not in expected.evidence:
        told.append(f"evidence: {expected.evidence}")
    return told


def row(census: Census, told: list[str]) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in census.counts.most_common())
    planted = census.planted
    expected = planted.verdict if census.twin == "defect" else "nothing"
    sign = "✗" if told else "✓"
    return (
        f"{sign} {planted.kind:11} {planted.name:36} {census.twin:6} {expected:20} "
        f"{len(census.findings):3} of {len(census.cases):3}  {census.took_s:5.1f} s  {counts}"
    )


def explored(planted: Planted, twin: Twin, words: list[str]) -> tuple[Census | None, list[str]]:
    """Explore an agent and print it. Returns also what is not as it should be."""
    try:
        census = counted(planted, twin, is_quick="-q" in words)
    except (InputError, TypeError, ValueError) as error:  # an option that is not there yet, too
        sys.stdout.write(f"✗ {planted.kind:11} {planted.name:36} {twin:6} cannot be explored: {error}\n")
        return None, [str(error)]
    told = problems(census)
    sys.stdout.write("\n".join([row(census, told), *(f"    {line}" for line in told)]) + "\n")
    for each in census.cases if "-v" in words else ():
        sys.stdout.write(f"      {each.verdict:20} {each.case} [{each.continuation}]  {each.evidence}\n")
    sys.stdout.flush()
    return census, told


def summary(kind: str, of_kind: list[tuple[Census | None, list[str]]]) -> str:
    """One line about all agents of a kind."""
    known = [(census, told) for census, told in of_kind if census is not None]
    parts = [
        f"{sum(not told for census, told in known if census.twin == twin)} of "
        f"{sum(census.twin == twin for census, _ in known)} {what}"
        for twin, what in (("defect", "defects found"), ("sound", "twins without findings"))
    ]
    cases = sum(len(census.cases) for census, _ in known)
    undecided = sum(census.counts["undecided"] for census, _ in known)
    ledger_says = sum(len(census.disagreements) for census, _ in known)
    took_s = sum(census.took_s for census, _ in known)
    numbers = f"{ledger_says} against the ledger, {undecided} of {cases} cases undecided, {took_s:.0f} s"
    return f"{kind:11} {', '.join(parts)}, {numbers}\n"


def main(words: list[str]) -> int:
    names = [word for word in words if word not in ("-v", "-q", "--fresh")]
    if "--fresh" in words:
        os.environ[FRESH] = "1"
    chosen = [each for each in ANIMALS if not names or any(name in f"{each.kind}: {each.name}" for name in names)]
    twins = [group[0] for group in twins_of(chosen)]
    found: dict[str, list[tuple[Census | None, list[str]]]] = {}
    for planted in chosen:
        found.setdefault(planted.kind, []).append(explored(planted, "defect", words))
        if planted in twins:
            found[planted.kind].append(explored(planted, "sound", words))
    for kind, of_kind in found.items():
        sys.stdout.write(summary(kind, of_kind))
    return any(told for of_kind in found.values() for _, told in of_kind)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
