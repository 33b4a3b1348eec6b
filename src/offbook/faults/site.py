"""The sites of a run: the call and attempt of a request, their names in plans, and the mark of a fault there."""

from __future__ import annotations

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


class At(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sites at which a fault fires. A field that is None matches every site.

    `call` counts the calls of the step, or all calls without a step; `since` is the call with that number and all that
    follow. `attempt` counts the attempts of a call. All start at 1. `chunk` is a position in a stream: the number of
    chunks before the fault.

    With a `tool`, the sites are that tool's calls, counted by `call` and `since`; no other field is allowed. Without
    one, they are model calls.
    """

    workflow: str | None = None
    step_id: str | None = None
    tool: str | None = None
    call: CallNumber | None = None
    since: CallNumber | None = None
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
                it cannot fire inside a stream; the site of a tool has a field that tool calls lack; or it
                has both a call and the first of many.
        """
        self._check_kind(fault)
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
        """Return whether `site` is one of these."""
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
        return self.call in (None, number) and (self.since is None or number >= self.since)

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
