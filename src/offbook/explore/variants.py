"""The fault variants that an exploration tries, and selecting them by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.sites import ExploredSite
from offbook.faults import (
    AnyFault,
    AnyToolFault,
    ConnectionReset,
    ContentFilter,
    ContextOverflow,
    EmptyResponse,
    HttpError,
    InvalidToolArgs,
    MalformedResponse,
    PartialResponse,
    StreamStall,
    StreamTruncate,
    Timeout,
    ToolEmpty,
    ToolError,
    ToolGarbled,
    ToolLost,
    ToolTimeout,
    UnknownTool,
    WrongContentType,
    WrongShape,
)
from offbook.faults.tools import ToolFault
from offbook.text import did_you_mean

STALL_MS = 60_000.0
"""How long a silent model is silent: longer than any sensible timeout."""


class FaultVariant(Struct, frozen=True):
    """A fault to try, under the name that its column has.

    `is_persistent` ones also strike every try of a call, to see whether and how a run gives up. `needs_stream` and
    `needs_tools` say which calls they can strike.
    """

    name: str
    fault: AnyFault | AnyToolFault
    is_persistent: bool = False
    needs_stream: bool = False
    needs_tools: bool = False

    def fits(self, site: ExploredSite) -> bool:
        """Whether the fault can strike there."""
        if site.is_tool != isinstance(self.fault, ToolFault) or (self.needs_tools and not site.has_tools):
            return False
        return bool(site.positions) or not self.needs_stream


MODEL_VARIANTS = (
    FaultVariant("connection_reset", ConnectionReset(), is_persistent=True),
    FaultVariant("http_error 500", HttpError(500), is_persistent=True),
    FaultVariant("http_error 429", HttpError(429, headers={"retry-after": "7"}), is_persistent=True),
    FaultVariant("timeout", Timeout(after_ms=STALL_MS), is_persistent=True),
    FaultVariant("http_error 401", HttpError(401)),
    FaultVariant("malformed_response", MalformedResponse(raw="<html>Bad Gateway</html>")),
    FaultVariant("wrong_shape", WrongShape()),
    FaultVariant("empty_response", EmptyResponse()),
    FaultVariant("partial_response", PartialResponse()),
    FaultVariant("content_filter", ContentFilter()),
    FaultVariant("context_overflow", ContextOverflow()),
    FaultVariant("unknown_tool", UnknownTool(), needs_tools=True),
    FaultVariant("invalid_tool_args", InvalidToolArgs(), needs_tools=True),
    FaultVariant("stream_truncate reset", StreamTruncate(0, "ConnectionError"), needs_stream=True),
    FaultVariant("stream_truncate clean", StreamTruncate(0, "clean"), needs_stream=True),
    FaultVariant("stream_truncate error_event", StreamTruncate(0, "error_event"), needs_stream=True),
    FaultVariant("stream_stall", StreamStall(0, STALL_MS), needs_stream=True),
)

TOOL_VARIANTS = (
    FaultVariant("tool_error", ToolError()),
    FaultVariant("tool_lost", ToolLost()),
    FaultVariant("tool_timeout", ToolTimeout(after_ms=STALL_MS)),
    FaultVariant("tool_garbled", ToolGarbled()),
    FaultVariant("tool_empty", ToolEmpty()),
)
VARIANTS = MODEL_VARIANTS + TOOL_VARIANTS

_WIRE_RATE_LIMIT = FaultVariant("http_error 429", HttpError(429, headers={"retry-after": "1"}), is_persistent=True)
WIRE_VARIANTS = (
    *(_WIRE_RATE_LIMIT if variant.name == _WIRE_RATE_LIMIT.name else variant for variant in MODEL_VARIANTS),
    FaultVariant("wrong_content_type", WrongContentType()),
    FaultVariant("stream_truncate cut", StreamTruncate(0, "cut"), needs_stream=True),
)
"""What strikes a program over the wire: its tools are its own, and what it waits for takes its time."""


def select_variants(names: Iterable[str] | str, among: Sequence[FaultVariant] = VARIANTS) -> list[FaultVariant]:
    """The dishes of those names, in the menu's order: a dish's own (`http_error 500`), its fault's type, or `all`.

    Raises:
        InputError: there is no such fault.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    wanted = [name.strip() for each in wanted for name in each.split(",") if name.strip()]
    known = {name for variant in among for name in (variant.name, variant.fault.type)}
    for name in wanted:
        if name != "all" and name not in known:
            hint = did_you_mean(name, sorted(known), kind="faults")
            raise InputError(f"there is no fault {name!r} to try", source="faults", hint=hint)
    return [variant for variant in among if "all" in wanted or variant.name in wanted or variant.fault.type in wanted]
