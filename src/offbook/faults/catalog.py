"""All faults by the names under which they are declared.

To add a fault, write its class in one of the modules here and add it to `AnyFault` or `AnyToolFault` below, in the
order of the columns of an exploration. Everything else follows from the class:

- Its fields are its JSON, its text form (`http_error 500 body=busy`) and the hints in error messages.
- `apply` is what it does to a model call, and `apply_to_tool` to a tool call. Over HTTP, what `apply` changes in the
  reply is changed in the recorded bytes, a reply of its own is encoded in the protocol of the call, an error becomes
  the HTTP response that makes a client raise the like, and a wait delays the response. Only a fault that breaks the
  bytes of a response needs a function in `offbook.wire.faults`.
- Texts that it injects go through `add_mark`, so that an exploration recognises them.
- `breaks_response` says whether a client may retry although the status is 200.
- `variants` are the forms that an exploration tries.

Tests check that the table in docs/faults.md has every fault with all its fields, and that there is a sample of it. If
users are to build it in Python, add its name to the stubs of `offbook.faults` and `offbook`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from offbook.faults.fault import FaultVariant
from offbook.faults.http import ConnectionReset, ContextOverflow, HttpError, Slow, Timeout, WrongContentType
from offbook.faults.mcp import (
    InjectedText,
    InputRequiredForever,
    McpError,
    OversizedResult,
    ServerExit,
    SessionGone,
    StdoutNoise,
    TaskStuck,
    ToolsChanged,
    Unauthorized,
)
from offbook.faults.response import (
    ContentFilter,
    EmptyResponse,
    MalformedResponse,
    PartialResponse,
    Refusal,
    WrongShape,
)
from offbook.faults.stream import SlowDrip, StreamStall, StreamTruncate
from offbook.faults.tool_calls import (
    DoubledToolCalls,
    InvalidToolArgs,
    OneMoreTool,
    ToolCallFault,
    UnknownTool,
    WrongTypes,
    WrongValues,
)
from offbook.faults.tools import ToolEmpty, ToolError, ToolGarbled, ToolLost, ToolTimeout
from offbook.schema_errors import shape_hint
from offbook.text import did_you_mean

AnyFault: TypeAlias = (
    ConnectionReset
    | HttpError
    | Timeout
    | Slow
    | MalformedResponse
    | WrongShape
    | WrongContentType
    | EmptyResponse
    | PartialResponse
    | ContentFilter
    | Refusal
    | ContextOverflow
    | UnknownTool
    | InvalidToolArgs
    | WrongTypes
    | WrongValues
    | DoubledToolCalls
    | OneMoreTool
    | ToolCallFault
    | StreamTruncate
    | StreamStall
    | SlowDrip
)

AnyToolFault: TypeAlias = (
    ToolError
    | ToolLost
    | ToolTimeout
    | ToolGarbled
    | ToolEmpty
    | McpError
    | ServerExit
    | StdoutNoise
    | Unauthorized
    | SessionGone
    | ToolsChanged
    | InputRequiredForever
    | TaskStuck
    | OversizedResult
    | InjectedText
)

FAULT_TYPES: dict[str, type[AnyFault]] = {str(fault.__struct_config__.tag): fault for fault in get_args(AnyFault)}
"""The faults of models."""

TOOL_FAULT_TYPES: dict[str, type[AnyToolFault]] = {
    str(fault.__struct_config__.tag): fault for fault in get_args(AnyToolFault)
}
"""The faults of tools. Only a plan can have them, not a recording."""

PLANNED_FAULT_TYPES: dict[str, type[AnyFault | AnyToolFault]] = {**FAULT_TYPES, **TOOL_FAULT_TYPES}


def fault_variants(
    types: Iterable[type[AnyFault | AnyToolFault]], *, over_http: bool = False
) -> tuple[FaultVariant[AnyFault | AnyToolFault], ...]:
    """Return the variants of faults that an exploration tries, persistent ones first and those of HTTP alone last."""
    variants: list[FaultVariant[AnyFault | AnyToolFault]] = [
        variant for fault in types for variant in fault.variants() if over_http or not variant.http_only
    ]
    if over_http:
        variants = [replace(variant, fault=variant.http_fault or variant.fault) for variant in variants]
    return tuple(sorted(variants, key=lambda variant: (variant.http_only, not variant.is_persistent)))


def explain_fault_error(
    reason: str, path: str, declared: Any, types: Mapping[str, type[AnyFault | AnyToolFault]] = FAULT_TYPES
) -> tuple[str, str]:
    """Return the reason and the hint for a msgspec error at `path` in a declared fault of one of these types."""
    name = str(declared.get("type", "")) if isinstance(declared, dict) else ""
    if name in types:
        return reason, shape_hint(reason, path, types[name])
    return reason.replace("Invalid value", "unknown fault type"), fault_type_hint(name, types)


def fault_type_hint(name: str, types: Mapping[str, type[AnyFault | AnyToolFault]]) -> str:
    """Return a hint for a fault type that is not one of `types`: the types, or how to use one of tools."""
    if name in TOOL_FAULT_TYPES:
        return f"it is a fault of tools, for a line of a plan: 'tool=refund: {name}'"
    of_tools = sorted(types.keys() & TOOL_FAULT_TYPES)
    listed = f"fault types: {', '.join(sorted(types.keys() - TOOL_FAULT_TYPES))}"
    hint = " ".join(filter(None, [did_you_mean(name, types), listed]))
    return f"{hint}; of tools: {', '.join(of_tools)}" if of_tools else hint
