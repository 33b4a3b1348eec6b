"""Where a fault fires: which call and which attempt a request is, and how a plan names such sites."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from offbook.call_numbers import Site
from offbook.errors import InputError
from offbook.faults.catalog import TOOL_FAULT_TYPES, AnyFault, AnyToolFault
from offbook.faults.stream import StreamStall, StreamTruncate
from offbook.faults.text_fields import field_words, join_words
from offbook.faults.tools import ToolFault

Count = Annotated[int, Meta(ge=1)]

_MODEL_ONLY_FIELDS = ("workflow", "step_id", "attempt", "chunk")


class ToolSite(Struct, frozen=True):
    """Where a call of a tool stands: which of the tool's calls it is."""

    tool: str
    call: int


class At(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sites at which a fault strikes. What is not told fits all.

    `call` counts the calls of the step, or all calls if no step is told; `attempt` counts the tries of
    a call; both from 1. `chunk` is a place in a stream: how many chunks come before the fault.

    With a `tool`, the sites are calls of that tool, and `call` counts those, whoever makes them; nothing else
    is told then. Without one, they are calls of models.
    """

    workflow: str | None = None
    step_id: str | None = None
    tool: str | None = None
    call: Count | None = None
    attempt: Count | None = None
    chunk: Annotated[int, Meta(ge=0)] | None = None

    @classmethod
    def of(cls, site: Site | ToolSite) -> At:
        """Return what names this very site in a plan."""
        if isinstance(site, ToolSite):
            return cls(tool=site.tool, call=site.call)
        number = site.overall if site.step_id is None else site.call
        return cls(workflow=site.workflow or None, step_id=site.step_id, call=number, attempt=site.attempt)

    def fail(self, fault: AnyFault | AnyToolFault) -> PlannedFault:
        """The plan's line that says: here, this.

        Raises:
            InputError: the fault does not strike there: it is one of models and the site of a tool, or the other
                way round, or the site is inside a stream; or a tool's site tells what is not known of calls of tools.
        """
        self._check_kind(fault)
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
                hint="tell one of them" + _stall_hint(fault),
            )
        return PlannedFault(self, replace(fault, after_chunks=self.chunk))

    def covers(self, site: Site | ToolSite) -> bool:
        """Whether `site` is one of these."""
        if isinstance(site, ToolSite):
            return self.tool == site.tool and self.call in (None, site.call)
        number = site.overall if self.step_id is None else site.call
        return (
            self.tool is None
            and self.workflow in (None, site.workflow)
            and self.step_id in (None, site.step_id)
            and self.call in (None, number)
            and self.attempt in (None, site.attempt)
        )

    def _check_kind(self, fault: AnyFault | AnyToolFault) -> None:
        """Refuse a fault of tools at a site of models, and the other way round."""
        is_of_tools = isinstance(fault, ToolFault)
        if self.tool is None and is_of_tools:
            hint = f"tell which tool, like 'tool=refund: {fault.type}'"
            raise InputError(f"{fault.type} strikes tools, and no tool is told", place="tool", hint=hint)
        if self.tool is not None and not is_of_tools:
            hint = f"use one of {', '.join(TOOL_FAULT_TYPES)}, or leave tool out"
            raise InputError(f"{fault.type} strikes models, not tools", place="tool", hint=hint)
        told_too = next((name for name in _MODEL_ONLY_FIELDS if is_of_tools and getattr(self, name) is not None), None)
        if told_too is not None:
            hint = "tell the tool, and maybe which of its calls: 'tool=refund call=2'"
            raise InputError("this is not known of a call of a tool", place=told_too, hint=hint)

    def __str__(self) -> str:
        return (
            join_words(("step" if name == "step_id" else name, value) for name, value in field_words(self))
            or "everywhere"
        )


def _stall_hint(fault: StreamTruncate | StreamStall) -> str:
    """What a count that is too much may have been meant for."""
    return f"; how long it stalls is told by for_ms={fault.after_chunks}" if isinstance(fault, StreamStall) else ""


class PlannedFault(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a plan: where, and what. Its text can be read by `parse_fault`."""

    at: At
    fault: AnyFault | AnyToolFault

    def __str__(self) -> str:
        return f"{self.at}: {self.fault.text(without='' if self.at.chunk is None else 'after_chunks')}"
