"""A worker: a process that runs cases of one subject, told to by lines of JSON on its input.

Started as `python -m offbook.subjects.worker`. What the subject prints goes nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.subjects.opening import open_subject
from offbook.subjects.worker_lines import Done, Lines, Part, Ready, Refused, Said


def main() -> None:
    """Run what the first line says once without a fault, and then with the faults of each further line."""
    asked, told = _private(0, "rb"), _private(1, "wb")
    for said in _answers(asked):
        told.write(msgspec.json.encode(said) + b"\n")
        told.flush()


def _answers(asked: BinaryIO) -> Iterator[Said]:
    part = msgspec.json.decode(asked.readline(), type=Part)
    try:
        with open_subject(part.subject, part.terms) as subject:
            subject.run(FaultPlan())
            yield Ready()
            for line in asked:
                yield Done(subject.run(FaultPlan(msgspec.json.decode(line, type=Lines))))
    except InputError as error:
        yield Refused(error.reason, error.source, error.place, error.hint)


def _private(number: int, mode: str) -> BinaryIO:
    """An input or output of ours, which nothing that is run here gets to see."""
    own = os.fdopen(os.dup(number), mode)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)
    return own  # type: ignore[return-value]


if __name__ == "__main__":
    main()
