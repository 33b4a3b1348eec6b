"""Faults: one small file each, declared the same way wherever they strike."""

from understudy.faults.catalog import FAULT_TYPES, AnyFault
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
from understudy.faults.site import At, PlannedFault, Site
from understudy.faults.slow_drip import SlowDrip
from understudy.faults.stream_stall import StreamStall
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.text_form import parse_fault
from understudy.faults.timeout import Timeout
from understudy.faults.tool_call_fault import ToolCallFault
from understudy.faults.unknown_tool import UnknownTool
from understudy.faults.wrong_content_type import WrongContentType
from understudy.faults.wrong_shape import WrongShape

__all__ = [
    "FAULT_TYPES",
    "AnyFault",
    "At",
    "Chaos",
    "ConnectionReset",
    "ContentFilter",
    "ContextOverflow",
    "EmptyResponse",
    "Fault",
    "FaultInjector",
    "FaultPlan",
    "HttpError",
    "InvalidToolArgs",
    "MalformedResponse",
    "PartialResponse",
    "PlannedFault",
    "Site",
    "SlowDrip",
    "StreamStall",
    "StreamTruncate",
    "StruckCall",
    "Timeout",
    "ToolCallFault",
    "UnknownTool",
    "WrongContentType",
    "WrongShape",
    "chaos",
    "fault_of",
    "parse_fault",
    "stream_fault_of",
]
