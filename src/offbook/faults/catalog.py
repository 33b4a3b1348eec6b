"""All faults by the names under which they are declared."""

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from offbook.faults.http import ConnectionReset, ContextOverflow, HttpError, Timeout, WrongContentType
from offbook.faults.response import (
    ContentFilter,
    EmptyResponse,
    InvalidToolArgs,
    MalformedResponse,
    PartialResponse,
    ToolCallFault,
    UnknownTool,
    WrongShape,
)
from offbook.faults.stream import SlowDrip, StreamStall, StreamTruncate
from offbook.faults.tools import ToolEmpty, ToolError, ToolGarbled, ToolLost, ToolTimeout
from offbook.schema_errors import shape_hint
from offbook.text import did_you_mean, suggestion

AnyFault: TypeAlias = (
    ConnectionReset
    | ContentFilter
    | ContextOverflow
    | EmptyResponse
    | HttpError
    | InvalidToolArgs
    | MalformedResponse
    | PartialResponse
    | SlowDrip
    | StreamStall
    | StreamTruncate
    | Timeout
    | ToolCallFault
    | UnknownTool
    | WrongContentType
    | WrongShape
)

AnyToolFault: TypeAlias = ToolEmpty | ToolError | ToolGarbled | ToolLost | ToolTimeout

FAULT_TYPES: dict[str, type[AnyFault]] = {str(fault.__struct_config__.tag): fault for fault in get_args(AnyFault)}
"""Those that strike models."""

TOOL_FAULT_TYPES: dict[str, type[AnyToolFault]] = {
    str(fault.__struct_config__.tag): fault for fault in get_args(AnyToolFault)
}
"""Those that strike tools, which only a plan can have."""

PLANNED_FAULT_TYPES: dict[str, type[AnyFault | AnyToolFault]] = {**FAULT_TYPES, **TOOL_FAULT_TYPES}


def explain_fault_error(
    reason: str, path: str, declared: Any, types: Mapping[str, type[AnyFault | AnyToolFault]] = FAULT_TYPES
) -> tuple[str, str]:
    """The reason and the hint for a msgspec error at `path` in a declared fault of one of these types."""
    name = str(declared.get("type", "")) if isinstance(declared, dict) else ""
    if name in types:
        return reason, shape_hint(reason, path, types[name])
    return reason.replace("Invalid value", "unknown fault type"), fault_type_hint(name, types)


def fault_type_hint(name: str, types: Mapping[str, type[AnyFault | AnyToolFault]]) -> str:
    """A hint for a fault type that is not one of `types`: which they are, and whether it is one of tools."""
    if name in TOOL_FAULT_TYPES:
        return f"it strikes a tool, by a line of a plan: 'tool=refund: {name}'"
    of_tools = sorted(types.keys() & TOOL_FAULT_TYPES)
    listed = suggestion("", types.keys() - TOOL_FAULT_TYPES, kind="fault types")
    hint = " ".join(filter(None, [did_you_mean(name, types), listed]))
    return f"{hint}; of tools: {', '.join(of_tools)}" if of_tools else hint
