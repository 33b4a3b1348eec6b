"""The sites of a run: the call and attempt of a request, their names in plans, and the mark of a fault there."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.faults.catalog import FAULT_TYPES, TOOL_FAULT_TYPES, AnyPlannedFault
from offbook.faults.fault import MAX_COUNT, Count, field_words, join_words
from offbook.faults.stream import StreamStall

Step: TypeAlias = tuple[str, str | None]
"""The name of a workflow and of a step in it. Calls are counted by step."""


class Site(Struct, frozen=True):
    """The place of a request in a run.

    `call` counts the calls of its step and `overall` those of the run; `attempt` counts the attempts of the call. All
    count from 1.
    """

    workflow: str
    step_id: str | None
    call: int
    overall: int
    attempt: int


CallNumber: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_COUNT)]

_STREAM_FIELD = "after_chunks"
_MODEL_ONLY_FIELDS = ("workflow", "step_id", "attempt", "chunk")


class ToolSite(Struct, frozen=True):
    """The site of a tool call: its number among the calls of the tool."""

    tool: str
    call: int


_MOMENT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _call_or_time(moment: str | None) -> tuple[int | None, float | None]:
    """Return the number of a call, or the seconds of a time; None for what it is not."""
    found = None if moment is None else _MOMENT.fullmatch(moment)
    if found is None:
        return None, None
    return (int(found[1]), None) if found[2] is None else (None, float(found[1]) * _SECONDS[found[2]])


class At(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """The sites at which a fault fires. A field that is None matches every site.

    `call` counts the calls of the step, or all calls without a step; `since` is the call with that number and all that
    follow. An outage lasts `from` a call or a time like `30s` `until` another one, which is not a part of it: times are
    those since the first call of the run, on its clock. `attempt` counts the attempts of a call. All start at 1.
    `chunk` is a position in a stream: the number of chunks before the fault.

    With a `tool`, the sites are that tool's calls, counted by `call`, `since`, `from` and `until`; no other field is
    allowed. Without one, they are model calls.
    """

    workflow: str | None = None
    step_id: str | None = None
    tool: str | None = None
    call: CallNumber | None = None
    since: CallNumber | None = None
    from_: str | None = None
    until: str | None = None
    attempt: CallNumber | None = None
    chunk: Count | None = None

    @classmethod
    def of(cls, site: Site | ToolSite) -> At:
        """Return the exact site in a plan."""
        if isinstance(site, ToolSite):
            return cls(tool=site.tool, call=site.call)
        number = site.overall if site.step_id is None else site.call
        return cls(workflow=site.workflow or None, step_id=site.step_id, call=number, attempt=site.attempt)

    def fail(self, fault: AnyPlannedFault) -> PlannedFault:
        """Return the plan line that fires `fault` at these sites.

        Raises:
            InputError: the fault cannot fire there: it is a model fault and the site a tool's, or vice versa;
                it cannot fire inside a stream; the site of a tool has a field that tool calls lack; it has both a
                call and the first of many; or its outage is neither one of calls nor of times.
        """
        self._check_kind(fault)
        for name, moment in (("from", self.from_), ("until", self.until)):
            if moment is not None and (not _MOMENT.fullmatch(moment) or moment == "0"):
                raise InputError(f"expected a call or a time, got {moment!r}", place=name, hint="like 3, or 30s, 5m")
        if self.call is not None and self.since is not None:
            raise InputError(f"the site says call={self.call} too", place="since", hint="write one of them")
        if self.chunk is None:
            return PlannedFault(self, fault)
        after_chunks = getattr(fault, _STREAM_FIELD, None)
        if after_chunks is None:
            names = [name for name, kind in FAULT_TYPES.items() if _STREAM_FIELD in kind.__struct_fields__]
            hint = f"use {', '.join(names[:-1])} or {names[-1]}, or leave chunk out"
            raise InputError(f"{fault.type} does not fire inside a stream", place="chunk", hint=hint)
        if after_chunks not in (0, self.chunk):
            reason = f"the site says after {self.chunk} chunks, the fault after {after_chunks}"
            hint = "write one of them"
            if isinstance(fault, StreamStall):
                hint += f"; for_ms={after_chunks} is how long it stalls"
            raise InputError(reason, place="chunk", hint=hint)
        return PlannedFault(self, replace(fault, **{_STREAM_FIELD: self.chunk}))

    def covers(self, site: Site | ToolSite) -> bool:
        """Return whether `site` is one of these, at any time."""
        if isinstance(site, ToolSite):
            return self.tool == site.tool and self._counts(site.call)
        number = site.overall if self.step_id is None else site.call
        return (
            self.tool is None
            and self.workflow in (None, site.workflow)
            and self.step_id in (None, site.step_id)
            and self._counts(number)
            and self.attempt in (None, site.attempt)
        )

    def _counts(self, number: int) -> bool:
        """Return whether the call with this number is one of these."""
        first, end = _call_or_time(self.from_)[0], _call_or_time(self.until)[0]
        is_during = (first is None or number >= first) and (end is None or number < end)
        return is_during and self.call in (None, number) and (self.since is None or number >= self.since)

    @property
    def has_times(self) -> bool:
        """Whether the time decides."""
        return (_call_or_time(self.from_)[1], _call_or_time(self.until)[1]) != (None, None)

    def is_on(self, elapsed_s: float) -> bool:
        """Return whether it holds so long after the first call."""
        start_s, end_s = _call_or_time(self.from_)[1], _call_or_time(self.until)[1]
        return (start_s is None or elapsed_s >= start_s) and (end_s is None or elapsed_s < end_s)

    def _check_kind(self, fault: AnyPlannedFault) -> None:
        """Raise InputError for a fault of tools at a site of models, and vice versa."""
        if self.tool is None and fault.is_for_tools:
            hint = f"add the tool, like 'tool=refund: {fault.type}'"
            raise InputError(f"{fault.type} is a tool fault, and the site has no tool", place="tool", hint=hint)
        if self.tool is not None and not (fault.is_for_tools or fault.fits_any_call):
            hint = f"use one of {', '.join(sorted(TOOL_FAULT_TYPES))}, or leave tool out"
            raise InputError(f"{fault.type} is a model fault, not a tool fault", place="tool", hint=hint)
        field = next((name for name in _MODEL_ONLY_FIELDS if getattr(self, name) is not None), None)
        if self.tool is not None and field is not None:
            hint = "write the tool, and maybe which of its calls: 'tool=refund call=2'"
            raise InputError("a tool call does not have this", place=field, hint=hint)

    def __str__(self) -> str:
        return (
            join_words(("step" if name == "step_id" else name, value) for name, value in field_words(self))
            or "everywhere"
        )


class PlannedFault(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a plan: the sites, and the fault. `parse_fault` parses its text."""

    at: At
    fault: AnyPlannedFault

    def __str__(self) -> str:
        return f"{self.at}: {self.fault.text(without='' if self.at.chunk is None else _STREAM_FIELD)}"


_DIGITS = 6

MARK_LETTERS = "bcdfghjklmnpqrst"
"""The letters of marks. An agent that looks for a number, or for a word, must not find it in a mark."""

_TO_LETTERS = str.maketrans("0123456789abcdef", MARK_LETTERS)


def mark_of(*lines: PlannedFault, kind: str = "") -> str:
    """Return the mark of a plan's lines, like `fault-qgtdbc`, equal for equal lines.

    By default its kind is the first fault's.
    """
    text = "; ".join(str(line) for line in lines)
    kind = kind or lines[0].fault.mark_kind
    digits = sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{kind}-{digits.translate(_TO_LETTERS)}"
