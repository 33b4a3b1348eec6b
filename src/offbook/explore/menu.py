"""Which faults are tried: the menu, by the names that users choose from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.site import ExploredSite
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
from offbook.faults.tool_fault import ToolFault
from offbook.wording import did_you_mean

PATIENCE_MS = 60_000.0
"""How long a silent model is silent: longer than any sensible timeout."""


class Dish(Struct, frozen=True):
    """A fault to try, under the name that its column has.

    `is_lasting` ones also strike every try of a call, to see whether and how a run gives up. `needs_stream` and
    `needs_tools` say which calls they can strike.
    """

    name: str
    fault: AnyFault | AnyToolFault
    is_lasting: bool = False
    needs_stream: bool = False
    needs_tools: bool = False

    def fits(self, site: ExploredSite) -> bool:
        """Whether the fault can strike there."""
        if site.is_tool != isinstance(self.fault, ToolFault) or (self.needs_tools and not site.has_tools):
            return False
        return bool(site.positions) or not self.needs_stream


MODEL_FAULTS = (
    Dish("connection_reset", ConnectionReset(), is_lasting=True),
    Dish("http_error 500", HttpError(500), is_lasting=True),
    Dish("http_error 429", HttpError(429, headers={"retry-after": "7"}), is_lasting=True),
    Dish("timeout", Timeout(after_ms=PATIENCE_MS), is_lasting=True),
    Dish("http_error 401", HttpError(401)),
    Dish("malformed_response", MalformedResponse(raw="<html>Bad Gateway</html>")),
    Dish("wrong_shape", WrongShape()),
    Dish("empty_response", EmptyResponse()),
    Dish("partial_response", PartialResponse()),
    Dish("content_filter", ContentFilter()),
    Dish("context_overflow", ContextOverflow()),
    Dish("unknown_tool", UnknownTool(), needs_tools=True),
    Dish("invalid_tool_args", InvalidToolArgs(), needs_tools=True),
    Dish("stream_truncate reset", StreamTruncate(0, "ConnectionError"), needs_stream=True),
    Dish("stream_truncate clean", StreamTruncate(0, "clean"), needs_stream=True),
    Dish("stream_truncate error_event", StreamTruncate(0, "error_event"), needs_stream=True),
    Dish("stream_stall", StreamStall(0, PATIENCE_MS), needs_stream=True),
)

TOOL_FAULTS = (
    Dish("tool_error", ToolError()),
    Dish("tool_lost", ToolLost()),
    Dish("tool_timeout", ToolTimeout(after_ms=PATIENCE_MS)),
    Dish("tool_garbled", ToolGarbled()),
    Dish("tool_empty", ToolEmpty()),
)
MENU = MODEL_FAULTS + TOOL_FAULTS

_WAITS = Dish("http_error 429", HttpError(429, headers={"retry-after": "1"}), is_lasting=True)
WIRE_MENU = (
    *(_WAITS if dish.name == _WAITS.name else dish for dish in MODEL_FAULTS),
    Dish("wrong_content_type", WrongContentType()),
    Dish("stream_truncate cut", StreamTruncate(0, "cut"), needs_stream=True),
)
"""What strikes a program over the wire: its tools are its own, and what it waits for takes its time."""


def chosen(names: Iterable[str] | str, menu: Sequence[Dish] = MENU) -> list[Dish]:
    """The dishes of those names, in the menu's order: a dish's own (`http_error 500`), its fault's type, or `all`.

    Raises:
        InputError: there is no such fault.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    wanted = [name.strip() for each in wanted for name in each.split(",") if name.strip()]
    known = {name for dish in menu for name in (dish.name, dish.fault.type)}
    for name in wanted:
        if name != "all" and name not in known:
            hint = did_you_mean(name, sorted(known), kind="faults")
            raise InputError(f"there is no fault {name!r} to try", source="faults", hint=hint)
    return [dish for dish in menu if "all" in wanted or dish.name in wanted or dish.fault.type in wanted]
