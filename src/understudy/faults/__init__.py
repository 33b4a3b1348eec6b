"""Faults: one small file each, declared the same way wherever they strike."""

from understudy.faults.catalog import FAULT_TYPES, AnyFault, fault_of, stream_fault_of
from understudy.faults.connection_reset import ConnectionReset
from understudy.faults.fault import Fault, StruckCall
from understudy.faults.http_error import HttpError
from understudy.faults.malformed_response import MalformedResponse
from understudy.faults.stream_truncate import StreamTruncate
from understudy.faults.timeout import Timeout

__all__ = [
    "FAULT_TYPES",
    "AnyFault",
    "ConnectionReset",
    "Fault",
    "HttpError",
    "MalformedResponse",
    "StreamTruncate",
    "StruckCall",
    "Timeout",
    "fault_of",
    "stream_fault_of",
]
