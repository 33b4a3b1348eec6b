"""Faults: one small file each, declared the same way wherever they strike."""

from offbook.faults.catalog import FAULT_TYPES, TOOL_FAULT_TYPES, AnyFault, AnyToolFault
from offbook.faults.chaos import Chaos
from offbook.faults.connection_reset import ConnectionReset
from offbook.faults.content_filter import ContentFilter
from offbook.faults.context_overflow import ContextOverflow
from offbook.faults.empty_response import EmptyResponse
from offbook.faults.fault import Fault, StruckCall
from offbook.faults.from_error import fault_of, stream_fault_of
from offbook.faults.http_error import HttpError
from offbook.faults.injector import FaultInjector
from offbook.faults.invalid_tool_args import InvalidToolArgs
from offbook.faults.malformed_response import MalformedResponse
from offbook.faults.partial_response import PartialResponse
from offbook.faults.plan import FaultPlan, chaos
from offbook.faults.site import At, PlannedFault, Site, ToolSite
from offbook.faults.slow_drip import SlowDrip
from offbook.faults.stream_stall import StreamStall
from offbook.faults.stream_truncate import StreamTruncate
from offbook.faults.strikes import Strikes
from offbook.faults.text_form import parse_fault
from offbook.faults.timeout import Timeout
from offbook.faults.tool_call_fault import ToolCallFault
from offbook.faults.tool_empty import ToolEmpty
from offbook.faults.tool_error import ToolError
from offbook.faults.tool_fault import StruckTool, ToolFault
from offbook.faults.tool_garbled import ToolGarbled
from offbook.faults.tool_injector import FaultyTools, inject_tools
from offbook.faults.tool_lost import ToolLost
from offbook.faults.tool_timeout import ToolTimeout
from offbook.faults.unknown_tool import UnknownTool
from offbook.faults.wrong_content_type import WrongContentType
from offbook.faults.wrong_shape import WrongShape

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
    "FaultPlan",
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
    "Strikes",
    "StruckCall",
    "StruckTool",
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
