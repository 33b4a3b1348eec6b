"""All faults by their declared names, and the fault that raises an error like a given one.

To add a fault, write its class in one of the modules here and add it to `AnyFault` or `AnyToolFault` below, in the
order of the columns of an exploration. Everything else follows from the class:

- Its fields are its JSON, its text form (`http_error 500 body=busy`) and the hints in error messages.
- `apply` is what it does to a model call, and `apply_to_tool` to a tool call. Over HTTP, what `apply` changes in the
  reply is changed in the recorded bytes, a reply of its own is encoded in the protocol of the call, an error becomes
  the HTTP response that makes a client raise the like, and a wait delays the response. Only a fault that breaks the
  bytes of a response needs a function in `offbook.wire.faults`.
- Texts that it injects go through `add_mark`, so that an exploration recognises them.
- `breaks_response` says whether the answer is lost, although it was made, so that the caller may try again.
- `variants` are the forms that an exploration tries.

Tests check that docs/faults/kinds.md has every fault with all its fields, and that there is a sample of it. If users
are to build it in Python, add its name to the stubs of `offbook.faults` and `offbook`.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, get_args

import orjson
from msgspec.structs import replace

from offbook.clock import VIRTUAL_EPOCH
from offbook.codecs.base import retry_after_s
from offbook.errors import MalformedResponseError, ProviderError, RateLimitError
from offbook.faults.fault import Crash, FaultVariant
from offbook.faults.http import ConnectionReset, ContextOverflow, HttpError, Slow, Timeout, WrongContentType
from offbook.faults.lies import (
    DuplicateItem,
    FieldMissing,
    ToolNoop,
    ToolOther,
    ToolStale,
    TruncatedList,
    ValueChanged,
)
from offbook.faults.order import Cancelled, DeliveredTwice, HeldUntil
from offbook.faults.response import (
    ContentFilter,
    DoubledToolCalls,
    EmptyResponse,
    GarbledContent,
    InvalidToolArgs,
    MalformedResponse,
    OneMoreTool,
    PartialResponse,
    PreviousAnswer,
    Refusal,
    SharedToolId,
    ToolCallFault,
    UnknownTool,
    WrongFields,
    WrongNames,
    WrongShape,
    WrongTypes,
    WrongValues,
)
from offbook.faults.stream import SlowDrip, StreamStall, StreamTruncate, WsClose, WsReorder, WsRepeat
from offbook.faults.tools import (
    InjectedText,
    InputRequiredForever,
    McpError,
    OversizedResult,
    ServerExit,
    SessionGone,
    StdoutNoise,
    TaskStuck,
    ToolEmpty,
    ToolError,
    ToolGarbled,
    ToolLost,
    ToolsChanged,
    ToolTimeout,
    Unauthorized,
)
from offbook.schema_errors import OTHER_FORM, shape_hint, value_at, with_value
from offbook.text import closest_name

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
    | WrongNames
    | GarbledContent
    | WrongFields
    | PreviousAnswer
    | DoubledToolCalls
    | SharedToolId
    | OneMoreTool
    | ToolCallFault
    | StreamTruncate
    | StreamStall
    | SlowDrip
    | WsClose
    | WsReorder
    | WsRepeat
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
    | ToolStale
    | ToolOther
    | ToolNoop
    | FieldMissing
    | ValueChanged
    | DuplicateItem
    | TruncatedList
)

AnyOrderFault: TypeAlias = HeldUntil | DeliveredTwice | Cancelled

FAULT_TYPES: dict[str, type[AnyFault]] = {str(fault.__struct_config__.tag): fault for fault in get_args(AnyFault)}
"""The faults of models."""

TOOL_FAULT_TYPES: dict[str, type[AnyToolFault]] = {
    str(fault.__struct_config__.tag): fault for fault in get_args(AnyToolFault)
}
"""The faults of tools. Only a plan can have them, not a recording."""

ORDER_FAULT_TYPES: dict[str, type[AnyOrderFault]] = {
    str(fault.__struct_config__.tag): fault for fault in get_args(AnyOrderFault)
}
"""The faults of order, at models and tools. Only a plan can have them, not a recording."""

PROCESS_FAULT_TYPES: dict[str, type[Crash]] = {"crash": Crash}
"""The faults of the process of a run. Only a plan of an exploration can have them."""

AnyPlannedFault: TypeAlias = AnyFault | AnyToolFault | AnyOrderFault | Crash
"""The faults of a plan's lines: those of models and tools, of order, and of the process."""

PLANNED_FAULT_TYPES: dict[str, type[AnyPlannedFault]] = {
    **FAULT_TYPES,
    **TOOL_FAULT_TYPES,
    **ORDER_FAULT_TYPES,
    **PROCESS_FAULT_TYPES,
}


def fault_variants(
    types: Iterable[type[AnyPlannedFault]], *, over_http: bool = False, in_real_time: bool = False
) -> tuple[FaultVariant[AnyPlannedFault], ...]:
    """Return the fault variants of an exploration, persistent ones first and HTTP-only ones last."""
    variants: list[FaultVariant[AnyPlannedFault]] = [
        variant
        for fault in types
        for variant in fault.variants()
        if (over_http or not variant.http_only) and not (in_real_time and variant.in_process_only)
    ]
    if in_real_time:
        variants = [replace(variant, fault=variant.http_fault or variant.fault) for variant in variants]
    return tuple(sorted(variants, key=lambda variant: (variant.http_only, not variant.is_persistent)))


def explain_fault_error(
    reason: str, path: str, declared: Any, types: Mapping[str, type[AnyPlannedFault]] = FAULT_TYPES, *, site: str = ""
) -> tuple[str, str]:
    """Return the reason and the hint for a msgspec error at `path` in a declared fault of one of these types.

    The hint has an example of this fault: as JSON, or at a `site` as a line of a plan.
    """
    name = str(declared.get("type", "")) if isinstance(declared, dict) else ""
    if name not in types:
        return reason.replace("Invalid value", "unknown fault type"), fault_type_hint(name, types, site=site)
    kind, fields = types[name], types[name].__struct_encode_fields__
    unknown = re.search(r"unknown field '(.*)'", reason)
    field = closest_name(unknown[1], fields) if unknown else re.split(r"[.\[]", path.lstrip("."))[0]
    is_plain = "is missing" in reason or (reason.startswith("expected") and OTHER_FORM not in reason)
    hint = "" if is_plain else shape_hint(reason, path, kind)
    example = fault_example(kind, field, site=site) if fields else ""
    return with_value(reason, value_at(declared, path)), "; ".join(filter(None, [hint, example]))


def fault_example(kind: type[AnyPlannedFault], field: str = "", *, site: str = "") -> str:
    """Return an example of a fault with `field`: `for example 'call=1: http_error 503'`, or JSON without a site."""
    if site:
        return f"for example '{site}: {kind.example_text(field)}'"
    fields = {"type": str(kind.__struct_config__.tag)} | kind.example(field)
    return f"for example {orjson.dumps(fields).decode()}"


def fault_type_hint(name: str, types: Mapping[str, type[AnyPlannedFault]], *, site: str = "") -> str:
    """Return a hint for a fault type that is not one of `types`: the likely one, or all; or how to use it."""
    if name in ORDER_FAULT_TYPES:
        return f"it is an order fault, for a line of a plan: 'call=2: {name}'"
    if name in TOOL_FAULT_TYPES:
        return f"it is a tool fault, for a line of a plan: 'tool=refund: {name}'"
    if name in PROCESS_FAULT_TYPES:
        return f"it is a process fault, for a line of a plan: 'call=2: {name} before'"
    kinds: dict[str, Mapping[str, object]] = {
        "fault types": FAULT_TYPES,
        "of tools": TOOL_FAULT_TYPES,
        "of order": ORDER_FAULT_TYPES,
        "of processes": PROCESS_FAULT_TYPES,
    }
    if close := closest_name(name, types):
        return f"did you mean {close!r}? {fault_example(types[close], site=site)}"
    listed = {kind: sorted(types.keys() & names.keys()) for kind, names in kinds.items()}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in listed.items() if names)


_TWO_TIMES = (VIRTUAL_EPOCH, VIRTUAL_EPOCH + timedelta(days=1))


def fault_of(error: Exception, *, after_ms: float) -> AnyFault:
    """Return the fault that reproduces `error`, which ended a call before its first event."""
    match error:
        case MalformedResponseError():
            return MalformedResponse(raw=error.raw)
        case TimeoutError():
            return Timeout(after_ms=after_ms)
        case ConnectionError():
            return ConnectionReset()
        case ProviderError(status_code=int(status_code)):
            return HttpError(status_code, headers=_headers_of(error), body=error.body)
        case _:
            return StreamTruncate(0, "error_event")


def _headers_of(error: ProviderError) -> dict[str, str]:
    """Return the error's headers, with the seconds to wait if they have none, or a date."""
    wait_s = error.retry_after_s if isinstance(error, RateLimitError) else None
    if wait_s is None or {retry_after_s(error.headers, now=now) for now in _TWO_TIMES} == {wait_s}:
        return error.headers
    others = {name: text for name, text in error.headers.items() if not name.lower().startswith("retry-after")}
    return others | {"retry-after": repr(wait_s)}


def stream_fault_of(error: BaseException, *, after_chunks: int) -> StreamTruncate:
    """Return the fault that ends a stream like `error`. Other errors mean that the caller stopped reading."""
    match error:
        case TimeoutError():
            return StreamTruncate(after_chunks, "TimeoutError")
        case ConnectionError():
            return StreamTruncate(after_chunks, "ConnectionError")
        case MalformedResponseError():
            return StreamTruncate(after_chunks, "malformed")
        case ProviderError():
            return StreamTruncate(after_chunks, "error_event")
        case _:
            return StreamTruncate(after_chunks, "clean")
