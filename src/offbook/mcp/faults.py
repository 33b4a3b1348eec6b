"""Applies a fault to the answer of an MCP server: what the client gets instead, on either transport."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from msgspec import Struct
from msgspec.structs import replace

from offbook.faults.catalog import AnyToolFault
from offbook.faults.fault import add_mark
from offbook.faults.tools import ToolEmpty, ToolError, ToolFault, ToolGarbled, ToolLost, ToolTimeout
from offbook.mcp.answer import McpAnswer, error_answer, fit_result, result_answer
from offbook.mcp.message import Message, result_message, text_result
from offbook.messages import JsonObject

REQUEST_TIMEOUT = -32001


class FaultedCall(Struct, frozen=True):
    """The call at which a fault fires. `clean` returns its answer without the fault: the server has done it then.

    In an exploration, every text that the fault injects carries the `mark`; elsewhere it is empty.
    """

    request: Message
    clean: Callable[[], McpAnswer]
    mark: str = ""

    def marked(self, text: str) -> str:
        return add_mark(text, self.mark)

    def with_result(self, result: JsonObject) -> McpAnswer:
        """Return the clean answer with another result."""
        clean = self.clean()
        at_ms = clean.messages[-1][0] if clean.messages else 0.0
        raw = result_message(self.request.id, fit_result(result, self.request))
        return replace(clean, messages=(*clean.messages[:-1], (at_ms, raw)))


@singledispatch
def apply_fault(fault: ToolFault, call: FaultedCall) -> McpAnswer:
    """Return the answer that the client gets if `fault` applies to its call."""
    raise TypeError(f"{fault.type} has no form over MCP")


@apply_fault.register
def _(fault: ToolError, call: FaultedCall) -> McpAnswer:
    return result_answer(call.request, text_result(call.marked(fault.error), is_error=True))


@apply_fault.register
def _(fault: ToolLost, call: FaultedCall) -> McpAnswer:
    clean = call.clean()
    return replace(clean, messages=clean.messages[:-1], ending="cut")


@apply_fault.register
def _(fault: ToolTimeout, call: FaultedCall) -> McpAnswer:
    if not fault.after_ms:
        return McpAnswer(ending="silence", end_ms=float("inf"))
    late = error_answer(call.request, REQUEST_TIMEOUT, call.marked("Request timed out"))
    return McpAnswer(messages=tuple((fault.after_ms, raw) for _, raw in late.messages), end_ms=fault.after_ms)


@apply_fault.register
def _(fault: ToolGarbled, call: FaultedCall) -> McpAnswer:
    return call.with_result(text_result(call.marked(fault.result)))


@apply_fault.register
def _(fault: ToolEmpty, call: FaultedCall) -> McpAnswer:
    return call.with_result({"content": []})


def spoils_call(fault: AnyToolFault) -> bool:
    """Return whether the client may send the call again after the fault: its recorded answer stays for that."""
    return not isinstance(fault, ToolEmpty | ToolGarbled)
