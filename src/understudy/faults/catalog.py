"""All faults, by the names under which they are declared."""

from typing import TypeAlias, get_args

from understudy.faults.connection_reset import ConnectionReset
from understudy.faults.content_filter import ContentFilter
from understudy.faults.context_overflow import ContextOverflow
from understudy.faults.empty_response import EmptyResponse
from understudy.faults.http_error import HttpError
from understudy.faults.invalid_tool_args import InvalidToolArgs
from understudy.faults.malformed_response import MalformedResponse
from understudy.faults.partial_response import PartialResponse
from understudy.faults.slow_drip import SlowDrip
from understudy.faults.stream_stall import StreamStall
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.timeout import Timeout
from understudy.faults.tool_call_fault import ToolCallFault
from understudy.faults.tool_empty import ToolEmpty
from understudy.faults.tool_error import ToolError
from understudy.faults.tool_garbled import ToolGarbled
from understudy.faults.tool_lost import ToolLost
from understudy.faults.tool_timeout import ToolTimeout
from understudy.faults.unknown_tool import UnknownTool
from understudy.faults.wrong_content_type import WrongContentType
from understudy.faults.wrong_shape import WrongShape

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
