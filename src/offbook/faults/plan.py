"""A fault plan: which fault fires at which call, from a list, a JSON file, or seeded chaos."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from offbook.atomic_file import read_file, write_output
from offbook.call_numbers import Site
from offbook.errors import InputError
from offbook.faults.catalog import FAULT_TYPES, PLANNED_FAULT_TYPES, AnyFault, AnyToolFault, explain_fault_error
from offbook.faults.site import At, PlannedFault, ToolSite
from offbook.faults.tools import ToolFault
from offbook.schema_errors import check_keys, explain_json_error, explain_msgspec_error, json_value_at, shape_hint


class Chaos(Struct, frozen=True, forbid_unknown_fields=True):
    """Makes the share `rate` of all attempts fail, each with one of `faults`; `seed` decides which.

    What is drawn for a site depends on the seed and the site alone, not on what else happens.
    """

    seed: int
    rate: Annotated[float, Meta(ge=0.0, le=1.0)]
    faults: Annotated[tuple[AnyFault, ...], Meta(min_length=1)]

    def draw(self, site: Site) -> AnyFault | None:
        """Return the fault that fires at `site`, if any."""
        place = (self.seed, site.workflow, site.step_id, site.call, site.attempt)
        generator = random.Random(repr(place))  # noqa: S311 - not a secret
        return generator.choice(self.faults) if generator.random() < self.rate else None

    def __str__(self) -> str:
        return f"chaos seed={self.seed} rate={self.rate!r}: {' | '.join(str(fault) for fault in self.faults)}"


_EXAMPLE = '{"faults": [{"at": {"step_id": "answer", "attempt": 1}, "fault": {"type": "timeout", "after_ms": 5000}}]}'


class FaultPlan:
    """Decides which fault fires at a site: that of the first line that covers the site, else what chaos draws.

    Chaos concerns model calls only. A plan is immutable; it can be printed, saved to a file and loaded.

    Raises:
        InputError: a line or the chaos is invalid.
    """

    def __init__(self, faults: Iterable[PlannedFault] = (), *, chaos: Chaos | None = None) -> None:
        declared = _decode(_encode(_PlanFile(tuple(faults), chaos)), source="")
        self.faults, self.chaos = declared.faults, declared.chaos

    def fault_at(self, site: Site) -> AnyFault | None:
        """Return the fault that fires at `site`, if any."""
        planned = self.line_at(site)
        if planned is not None and not isinstance(planned.fault, ToolFault):
            return planned.fault
        return None if self.chaos is None else self.chaos.draw(site)

    def tool_fault_at(self, site: ToolSite) -> AnyToolFault | None:
        """Return the fault that fires at the site of a tool call, if any."""
        planned = self.line_at(site)
        return planned.fault if planned is not None and isinstance(planned.fault, ToolFault) else None

    def line_at(self, site: Site | ToolSite) -> PlannedFault | None:
        """Return the line that covers `site`, if any."""
        return next((planned for planned in self.faults if planned.at.covers(site)), None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a JSON file.

        Raises:
            InputError: the file cannot be written.
        """
        data = _encode(_PlanFile(self.faults, self.chaos))
        try:
            write_output(path, msgspec.json.format(data, indent=2) + b"\n")
        except OSError as error:
            raise InputError(error.strerror or str(error), source=os.fspath(path)) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FaultPlan:
        """Load a plan from a JSON file.

        Raises:
            InputError: the file is not a plan; with the file, the place in it and the reason.
        """
        source = os.fspath(path)
        try:
            data = read_file(path)
        except OSError as error:
            raise InputError(error.strerror or str(error), source=source, hint="write one with plan.save()") from None
        declared = _decode(data, source=source)
        return cls(declared.faults, chaos=declared.chaos)

    def __iter__(self) -> Iterator[PlannedFault]:
        return iter(self.faults)

    def __repr__(self) -> str:
        return f"FaultPlan({list(self.faults)!r}, chaos={self.chaos!r})"

    def __str__(self) -> str:
        lines = [str(planned) for planned in self.faults]
        return "\n".join(lines if self.chaos is None else [*lines, str(self.chaos)]) or "no faults"


def chaos(*, seed: int, rate: float, faults: Iterable[AnyFault]) -> FaultPlan:
    """Return a plan by which the share `rate` of all attempts fails, the same ones for the same `seed`."""
    return FaultPlan(chaos=Chaos(seed, rate, tuple(faults)))


class _PlanFile(Struct, forbid_unknown_fields=True, omit_defaults=True):
    faults: tuple[PlannedFault, ...] = ()
    chaos: Chaos | None = None


def _encode(plan: _PlanFile) -> bytes:
    try:
        return msgspec.json.encode(plan)
    except (TypeError, ValueError) as error:
        raise InputError(f"the plan cannot be written as JSON: {error}", hint=_EXAMPLE) from None


def _decode(data: bytes, *, source: str) -> _PlanFile:
    try:
        data.decode()
        msgspec.json.decode(data, type=msgspec.Raw)  # the syntax comes before the shape
        if source:
            check_keys(data)
        plan = msgspec.json.decode(data, type=_PlanFile)
    except msgspec.ValidationError as error:
        raise _shape_error(data, error, source) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, place = explain_json_error(data, error)
        raise InputError(reason, source=source, place=place, hint=f"a plan is like {_EXAMPLE}") from None
    return _PlanFile(
        tuple(_check_line(planned, index, source) for index, planned in enumerate(plan.faults)), plan.chaos
    )


def _check_line(planned: PlannedFault, index: int, source: str) -> PlannedFault:
    try:
        return planned.at.fail(planned.fault)
    except InputError as error:
        place = f"faults[{index}].at.{error.place}"
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from None


def _shape_error(data: bytes, error: Exception, source: str) -> InputError:
    reason, path = explain_msgspec_error(error)
    hint = f"a plan is like {_EXAMPLE}"
    if found := re.match(r"(\.faults\[\d+\]\.fault|\.chaos\.faults\[\d+\])(.*)", path):
        types = FAULT_TYPES if path.startswith(".chaos") else PLANNED_FAULT_TYPES
        reason, hint = explain_fault_error(reason, found[2], json_value_at(data, found[1]), types)
    elif "unknown field" in reason:
        hint = shape_hint(reason, "", _shape_at(path))
    return InputError(reason, source=source, place=path.removeprefix("."), hint=hint)


def _shape_at(path: str) -> type[Struct]:
    """Return the type of the object at `path`."""
    if path.endswith(".at"):
        return At
    if path.startswith(".faults"):
        return PlannedFault
    return Chaos if path.startswith(".chaos") else _PlanFile
