"""Runs an exploration's cases in a separate process, which opens the subject by its spec, for a Ray worker.

`python -m offbook.workers.cases FD` handles the spec and the batches from the socket FD until it ends. The process has
loaded only what the subject needs, so forking it for each run is quick and safe.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from offbook.decoding import decode, decode_msgpack
from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import ExecutedCase, execute
from offbook.explore.monitor import CaseReport
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan, parse_fault
from offbook.subjects.specs import AnySubjectSpec, open_subject
from offbook.workers.process import receive_frames, send_frame


class CasesSpec(Struct, frozen=True):
    """The subject and settings of cases to run. `folder` is the working directory; None means the worker's."""

    subject: AnySubjectSpec
    settings: ExploreSettings
    folder: str | None = None

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)


class _Batch(Struct, frozen=True):
    """The results of a batch: for each case its runs, as their processes report them, and its duration."""

    cases: tuple[tuple[tuple[bytes, ...], float], ...] = ()
    refusal: dict[str, str] | None = None


def encode_batch(cases: Sequence[FaultCase]) -> bytes:
    """Return cases as the lines of their plans."""
    return msgspec.msgpack.encode([[str(line) for line in case.lines] for case in cases])


def decode_results(data: bytes, cases: Sequence[FaultCase]) -> list[ExecutedCase]:
    """Return the cases of a batch with their runs.

    Raises:
        InputError: the worker could not run them.
    """
    batch = decode_msgpack(data, _Batch)
    if batch.refusal is not None:
        raise InputError(**batch.refusal)
    decoded = [(tuple(CaseReport.from_bytes(run).run for run in runs), real_s) for runs, real_s in batch.cases]
    return [
        ExecutedCase(case, tuple(run for run in runs if run is not None), real_s)
        for case, (runs, real_s) in zip(cases, decoded, strict=True)
    ]


def serve(connection: socket.socket) -> None:
    """Open the subject of the first frame, and run the batches of all others."""
    frames = receive_frames(connection)
    number, first = next(frames)
    spec = decode(first, CasesSpec)
    send_frame(connection, number, b"")
    if spec.folder is not None:
        os.chdir(spec.folder)
    try:
        with open_subject(spec.subject, spec.settings) as subject:
            subject.run(FaultPlan())  # the clean run, whose script all others follow
            for number, job in frames:
                results = []
                for lines in decode_msgpack(job, list[list[str]]):
                    executed = execute(subject, FaultCase("", tuple(map(parse_fault, lines)), ()))
                    results.append((tuple(CaseReport(run=run).to_bytes() for run in executed.runs), executed.real_s))
                send_frame(connection, number, msgspec.msgpack.encode(_Batch(tuple(results))))
    except InputError as error:
        for number, _ in frames:
            send_frame(connection, number, msgspec.msgpack.encode(_Batch(refusal=error.fields)))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
