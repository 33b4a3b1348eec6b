"""Faults: one small file each, declared the same way wherever they strike."""

from understudy.faults.catalog import FAULT_TYPES, TOOL_FAULT_TYPES, AnyFault, AnyToolFault
from understudy.faults.chaos import Chaos
from understudy.faults.connection_reset import ConnectionReset
from understudy.faults.content_filter import ContentFilter
from understudy.faults.context_overflow import ContextOverflow
from understudy.faults.empty_response import EmptyResponse
from understudy.faults.fault import Fault, StruckCall
from understudy.faults.from_error import fault_of, stream_fault_of
from understudy.faults.http_error import HttpError
from understudy.faults.injector import FaultInjector
from understudy.faults.invalid_tool_args import InvalidToolArgs
from understudy.faults.malformed_response import MalformedResponse
from understudy.faults.partial_response import PartialResponse
from understudy.faults.plan import FaultPlan, chaos
from understudy.faults.site import At, PlannedFault, Site, ToolSite
from understudy.faults.slow_drip import SlowDrip
from understudy.faults.stream_stall import StreamStall
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.strikes import Strikes
from understudy.faults.text_form import parse_fault
from understudy.faults.timeout import Timeout
from understudy.faults.tool_call_fault import ToolCallFault
from understudy.faults.tool_empty import ToolEmpty
from understudy.faults.tool_error import ToolError
from understudy.faults.tool_fault import StruckTool, ToolFault
from understudy.faults.tool_garbled import ToolGarbled
from understudy.faults.tool_injector import FaultyTools, inject_tools
from understudy.faults.tool_lost import ToolLost
from understudy.faults.tool_timeout import ToolTimeout
from understudy.faults.unknown_tool import UnknownTool
from understudy.faults.wrong_content_type import WrongContentType
from understudy.faults.wrong_shape import WrongShape

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
