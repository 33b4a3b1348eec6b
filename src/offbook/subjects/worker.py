"""The worker process, `python -m offbook.subjects.worker`: runs cases that it reads as JSON lines."""

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
    """Run the subject of the first line once without a fault, and then with the faults of each further line."""
    requests, messages = _private_stream(0, "rb"), _private_stream(1, "wb")
    for message in _messages(requests):
        messages.write(msgspec.json.encode(message) + b"\n")
        messages.flush()


def _messages(requests: BinaryIO) -> Iterator[WorkerMessage]:
    spec = msgspec.json.decode(requests.readline(), type=WorkerSpec)
    try:
        with open_subject(spec.subject, spec.settings) as subject:
            subject.run(FaultPlan())
            yield WorkerReady()
            for line in requests:
                yield WorkerResult(subject.run(FaultPlan(msgspec.json.decode(line, type=FaultLines))))
    except InputError as error:
        yield WorkerRejection(error.reason, error.source, error.place, error.hint)


def _private_stream(number: int, mode: str) -> BinaryIO:
    """Return a standard stream under another number. The subject gets the null device in its place."""
    own = os.fdopen(os.dup(number), mode)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, number)
    os.close(null)
    return own  # type: ignore[return-value]


if __name__ == "__main__":
    main()
