"""Where a fault strikes: the place of a request among all that are made, and how a plan names such places."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from understudy.errors import InputError
from understudy.faults.catalog import AnyFault
from understudy.faults.stream_stall import StreamStall
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.words import join, told

Count = Annotated[int, Meta(ge=1)]


class Site(Struct, frozen=True):
    """Where a request stands: which call of its step it is, which of all calls, and which try of that call."""

    workflow: str
    step_id: str | None
    call: int
    overall: int
    attempt: int

    def named(self) -> At:
        """This very site, as a plan names it."""
        number = self.overall if self.step_id is None else self.call
        return At(workflow=self.workflow or None, step_id=self.step_id, call=number, attempt=self.attempt)


class At(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sites at which a fault strikes. What is not told fits all.

    `call` counts the calls of the step, or all calls if no step is told; `attempt` counts the tries of
    a call; both from 1. `chunk` is a place in a stream: how many chunks come before the fault.
    """

    workflow: str | None = None
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
                f"{fault.type} does not strike inside a stream",
                place="chunk",
                hint="use stream_truncate or stream_stall, or leave chunk out",
            )
        if fault.after_chunks not in (0, self.chunk):
            raise InputError(
                f"the site says after {self.chunk} chunks, the fault after {fault.after_chunks}",
                place="chunk",
                hint="tell one of them",
            )
        return PlannedFault(self, replace(fault, after_chunks=self.chunk))

    def covers(self, site: Site) -> bool:
        """Whether `site` is one of these."""
        number = site.overall if self.step_id is None else site.call
        return (
            self.workflow in (None, site.workflow)
            and self.step_id in (None, site.step_id)
            and self.call in (None, number)
            and self.attempt in (None, site.attempt)
        )

    def __str__(self) -> str:
        return join(("step" if name == "step_id" else name, value) for name, value in told(self)) or "everywhere"


class PlannedFault(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a plan: where, and what. Its text can be read by `parse_fault`."""

    at: At
    fault: AnyFault

    def __str__(self) -> str:
        return f"{self.at}: {self.fault.text(without='' if self.at.chunk is None else 'after_chunks')}"
