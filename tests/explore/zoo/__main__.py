"""Explores the zoo and prints a table: `python -m tests.explore.zoo [-v] [-q] [part of a name] …`.

`-v` prints every case. `-q` explores of each defect only the fault that is to show it, as the tests do for programs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from offbook.errors import InputError
from tests.explore.zoo import ledger
from tests.explore.zoo.animals import ANIMALS
from tests.explore.zoo.census import Census, explore
from tests.explore.zoo.planted import Planted, Twin


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
        return told + ([] if census.counts["recovered"] else ["nothing recovered"])
    allowed = {planted.verdict, *planted.also}
    told += [f"other: {each.case} {each.verdict}: {each.evidence}" for each in found if each.verdict not in allowed]
    expected = census.expected
    if expected is None:
        return [f"no such case: {planted.at}", *told]
    if expected.verdict != planted.verdict:
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


def main(words: list[str]) -> int:
    is_verbose, is_quick = "-v" in words, "-q" in words
    names = [word for word in words if word not in ("-v", "-q")]
    chosen = [each for each in ANIMALS if not names or any(name in f"{each.kind}: {each.name}" for name in names)]
    failed = 0
    for planted in chosen:
        for twin in ("defect", "sound"):
            try:
                census = counted(planted, twin, is_quick=is_quick)
            except InputError as error:
                sys.stdout.write(f"✗ {planted.kind:11} {planted.name:36} {twin:6} cannot be explored: {error}\n")
                failed += 1
                continue
            told = problems(census)
            failed += bool(told)
            sys.stdout.write("\n".join([row(census, told), *(f"    {line}" for line in told)]) + "\n")
            for each in census.cases if is_verbose else ():
                sys.stdout.write(f"      {each.verdict:20} {each.case} [{each.continuation}]  {each.evidence}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{2 * len(chosen)} agents, {failed} not as they should be\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
