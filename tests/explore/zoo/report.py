"""Writes the JSON report of a defect: `python -m tests.explore.zoo.report KIND: NAME FAULTS WORKERS FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from offbook.explore.explorer import Explorer
from offbook.explore.options import VARIANTS, ExploreOptions, select_variants
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportInput
from offbook.subjects.executors import executor_of
from tests.explore.zoo.animals import ANIMALS
from tests.explore.zoo.planted import Planted


def animal(name: str) -> Planted:
    return next(each for each in ANIMALS if f"{each.kind}: {each.name}" == name)


def report_of(planted: Planted, folder: Path, faults: str, *, workers: int) -> bytes:
    with planted.open("defect", folder) as subject:
        options = ExploreOptions(variants=select_variants(faults, getattr(subject, "variants", VARIANTS)))
        exploration = Explorer(subject, options, executor=executor_of(subject, workers)).explore()
    return exploration_json(ReportInput(exploration=exploration, reproduce=str))


if __name__ == "__main__":
    name, faults, workers, folder = sys.argv[1:]
    sys.stdout.buffer.write(report_of(animal(name), Path(folder), faults, workers=int(workers)))
