"""A plan: which fault strikes where."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from understudy.errors import InputError
from understudy.faults.catalog import FAULT_TYPES, AnyFault
from understudy.faults.chaos import Chaos
from understudy.faults.stream_stall import StreamStall
from understudy.faults.stream_truncate import StreamTruncate

Count = Annotated[int, Meta(ge=1)]


class Site(Struct, frozen=True):
    """Where a request stands: the how-manieth call of its step, and of all, and the how-manieth try of it."""

    step_id: str | None
    call: int
    overall: int
    attempt: int

    @property
    def number(self) -> int:
        """The number by which a plan names the call: that of its step, or that of all if it has no step."""
        return self.overall if self.step_id is None else self.call


class At(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A site. What is not told fits all.

    `call` counts the calls of the step, or all calls if no step is told; `attempt` counts the tries of
    a call; both from 1. `chunk` is a place in a stream: how many chunks come before the fault.
    """

    step_id: str | None = None
    call: Count | None = None
    attempt: Count | None = None
    chunk: Annotated[int, Meta(ge=0)] | None = None

    def fail(self, fault: AnyFault) -> PlannedFault:
        """The plan's line that says: here, this.

        Raises:
            InputError: the site is inside a stream, and the fault does not strike there.
        """
        if self.chunk is None:
            return PlannedFault(self, fault)
        if not isinstance(fault, StreamTruncate | StreamStall):
            raise InputError(
                f"{fault.type} does not strike inside a stream", hint="use stream_truncate or stream_stall"
            )
        return PlannedFault(self, replace(fault, after_chunks=self.chunk))

    def covers(self, site: Site) -> bool:
        number = site.overall if self.step_id is None else site.call
        return (
            self.step_id in (None, site.step_id)
            and self.call in (None, number)
            and self.attempt in (None, site.attempt)
        )

    def __str__(self) -> str:
        told = [f"{name}={getattr(self, name)}" for name in self.__struct_fields__ if getattr(self, name) is not None]
        return " ".join(told) or "everywhere"


class PlannedFault(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a plan."""

    at: At
    fault: AnyFault

    def __str__(self) -> str:
        fields = msgspec.to_builtins(self.fault)
        told = " ".join(
            f"{name}={value!r}" for name, value in fields.items() if name != "type" and value not in ("", {})
        )
        return f"{self.at}: {self.fault.type} {told}".rstrip()


class FaultPlan:
    """Which fault strikes where: the first line that covers a site, else what chaos draws for it.

    A plan can be printed, saved as a file and loaded again.
    """

    def __init__(self, faults: Iterable[PlannedFault] = (), *, chaos: Chaos | None = None) -> None:
        self.faults, self.chaos = tuple(faults), chaos

    def fault_at(self, site: Site) -> AnyFault | None:
        """The fault that strikes at `site`, if one does."""
        for planned in self.faults:
            if planned.at.covers(site):
                return planned.fault
        return None if self.chaos is None else self.chaos.draw(site.step_id, site.call, site.attempt)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a JSON file."""
        data = msgspec.json.encode(_PlanFile(faults=self.faults, chaos=self.chaos))
        Path(path).write_bytes(msgspec.json.format(data, indent=2) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FaultPlan:
        """The plan in a JSON file.

        Raises:
            InputError: it cannot be read as a plan.
        """
        try:
            file = msgspec.json.decode(Path(path).read_bytes(), type=_PlanFile)
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(str(error), source=str(path), hint=_hint(error)) from None
        return cls((planned.at.fail(planned.fault) for planned in file.faults), chaos=file.chaos)

    def __iter__(self) -> Iterator[PlannedFault]:
        return iter(self.faults)

    def __str__(self) -> str:
        lines = [str(planned) for planned in self.faults]
        return "\n".join(lines if self.chaos is None else [*lines, str(self.chaos)]) or "no faults"


def chaos(*, seed: int, rate: float, faults: Iterable[AnyFault]) -> FaultPlan:
    """A plan by which a share `rate` of all attempts fails, the same ones for the same `seed`."""
    return FaultPlan(chaos=Chaos(seed, rate, tuple(faults)))


class _PlanFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    faults: tuple[PlannedFault, ...] = ()
    chaos: Chaos | None = None


def _hint(error: Exception) -> str:
    if "type" in str(error):
        return f"fault types: {', '.join(sorted(FAULT_TYPES))}"
    return '{"faults": [{"at": {"step_id": "answer", "call": 2}, "fault": {"type": "http_error", "status_code": 500}}]}'
