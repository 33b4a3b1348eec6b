"""Faults: the ways in which a model or a tool can fail, and the plans that say where."""

from offbook.call_numbers import Site
from offbook.faults.catalog import FAULT_TYPES, TOOL_FAULT_TYPES, AnyFault, AnyToolFault
from offbook.faults.fault import Fault, FaultedCall
from offbook.faults.from_error import fault_of, stream_fault_of
from offbook.faults.http import ConnectionReset, ContextOverflow, HttpError, Timeout, WrongContentType
from offbook.faults.injector import FaultInjector, FaultLog, FaultyTools, inject_tools
from offbook.faults.plan import Chaos, FaultPlan, chaos
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
from offbook.faults.site import At, PlannedFault, ToolSite
from offbook.faults.stream import SlowDrip, StreamStall, StreamTruncate
from offbook.faults.text_form import parse_fault
from offbook.faults.tools import FaultedToolCall, ToolEmpty, ToolError, ToolFault, ToolGarbled, ToolLost, ToolTimeout

__all__ = [
    "FAULT_TYPES",
    "TOOL_FAULT_TYPES",
    "AnyFault",
    "AnyToolFault",
    "At",
    "Chaos",
    "ConnectionReset",
    "ContentFilter",
    "ContextOverflow",
    "EmptyResponse",
    "Fault",
    "FaultInjector",
    "FaultLog",
    "FaultPlan",
    "FaultedCall",
    "FaultedToolCall",
    "FaultyTools",
    "HttpError",
    "InvalidToolArgs",
    "MalformedResponse",
    "PartialResponse",
    "PlannedFault",
    "Site",
    "SlowDrip",
    "StreamStall",
    "StreamTruncate",
    "Timeout",
    "ToolCallFault",
    "ToolEmpty",
    "ToolError",
    "ToolFault",
    "ToolGarbled",
    "ToolLost",
    "ToolSite",
    "ToolTimeout",
    "UnknownTool",
    "WrongContentType",
    "WrongShape",
    "chaos",
    "fault_of",
    "inject_tools",
    "parse_fault",
    "stream_fault_of",
]
