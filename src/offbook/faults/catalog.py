"""All faults, by the names under which they are declared."""

from typing import TypeAlias, get_args

from offbook.faults.connection_reset import ConnectionReset
from offbook.faults.content_filter import ContentFilter
from offbook.faults.context_overflow import ContextOverflow
from offbook.faults.empty_response import EmptyResponse
from offbook.faults.http_error import HttpError
from offbook.faults.invalid_tool_args import InvalidToolArgs
from offbook.faults.malformed_response import MalformedResponse
from offbook.faults.partial_response import PartialResponse
from offbook.faults.slow_drip import SlowDrip
from offbook.faults.stream_stall import StreamStall
from offbook.faults.stream_truncate import StreamTruncate
from offbook.faults.timeout import Timeout
from offbook.faults.tool_call_fault import ToolCallFault
from offbook.faults.tool_empty import ToolEmpty
from offbook.faults.tool_error import ToolError
from offbook.faults.tool_garbled import ToolGarbled
from offbook.faults.tool_lost import ToolLost
from offbook.faults.tool_timeout import ToolTimeout
from offbook.faults.unknown_tool import UnknownTool
from offbook.faults.wrong_content_type import WrongContentType
from offbook.faults.wrong_shape import WrongShape

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
