"""The worker process, `python -m offbook.subjects.worker`: runs cases read as JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.subjects.open import open_subject
from offbook.subjects.specs import FaultLines, WorkerMessage, WorkerReady, WorkerRejection, WorkerResult, WorkerSpec


def main() -> None:
    """Run what the first line says once without a fault, and then with the faults of each further line."""
    asked, told = _private_stream(0, "rb"), _private_stream(1, "wb")
    for said in _messages(asked):
        told.write(msgspec.json.encode(said) + b"\n")
        told.flush()


def _messages(asked: BinaryIO) -> Iterator[WorkerMessage]:
    spec = msgspec.json.decode(asked.readline(), type=WorkerSpec)
    try:
        with open_subject(spec.subject, spec.settings) as subject:
            subject.run(FaultPlan())
            yield WorkerReady()
            for line in asked:
                yield WorkerResult(subject.run(FaultPlan(msgspec.json.decode(line, type=FaultLines))))
    except InputError as error:
        yield WorkerRejection(error.reason, error.source, error.place, error.hint)


def _private_stream(number: int, mode: str) -> BinaryIO:
    """An input or output of ours, which nothing that is run here gets to see."""
    own = os.fdopen(os.dup(number), mode)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)
    return own  # type: ignore[return-value]


if __name__ == "__main__":
    main()
