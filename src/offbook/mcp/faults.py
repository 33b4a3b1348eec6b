"""Applies a fault to an MCP server's answer, on either transport."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.faults.catalog import AnyOrderFault, AnyToolFault
from offbook.faults.fault import add_mark
from offbook.faults.lies import Lie
from offbook.faults.order import DeliveredTwice, OrderFault
from offbook.faults.tools import (
    NEW_ARGUMENT,
    ChangedText,
    EndedCall,
    InputRequiredForever,
    McpError,
    ServerExit,
    SessionGone,
    StdoutNoise,
    TaskStuck,
    ToolEmpty,
    ToolError,
    ToolFault,
    ToolGarbled,
    ToolLost,
    ToolsChanged,
    ToolTimeout,
    Unauthorized,
)
from offbook.mcp.answer import McpAnswer, error_answer, fit_result, model_text, result_answer
from offbook.mcp.message import INVALID_PARAMS, McpMessage, encode, result_message, text_result
from offbook.messages import JsonObject, result_text

REQUEST_TIMEOUT = SESSION_NOT_FOUND = UNAUTHORIZED = -32001
FOREVER, STUCK = "offbook-asks-forever", "offbook-stuck-task"


class FaultedMcpCall(Struct, frozen=True):
    """The call at which a fault fires. `clean` returns its answer without the fault: the server has then acted.

    In an exploration, every injected text carries the `mark`; elsewhere it is empty. `tool` is its name in the
    recording, and `spoil` returns what a lie makes of its result.
    """

    request: McpMessage
    clean: Callable[[], McpAnswer]
    mark: str = ""
    tool: str = ""
    spoil: Callable[[ToolFault, EndedCall], object] = lambda fault, ended: fault.outcome(ended)

    def marked(self, text: str) -> str:
        return add_mark(text, self.mark)

    def with_result(self, result: JsonObject) -> McpAnswer:
        """Return the clean answer with another result."""
        clean = self.clean()
        at_ms = clean.messages[-1][0] if clean.messages else 0.0
        raw = result_message(self.request.id, fit_result(result, self.request))
        return replace(clean, messages=(*clean.messages[:-1], (at_ms, raw)))


@singledispatch
def apply_fault(fault: ToolFault | OrderFault, call: FaultedMcpCall) -> McpAnswer:
    """Return the answer that the client gets if `fault` applies to its call."""
    raise TypeError(f"{fault.type} has no form over MCP")


@apply_fault.register
def _(fault: OrderFault, call: FaultedMcpCall) -> McpAnswer:
    return call.clean()  # when it is sent is up to the session


@apply_fault.register
def _(fault: DeliveredTwice, call: FaultedMcpCall) -> McpAnswer:
    clean = call.clean()
    return replace(clean, messages=(*clean.messages, *clean.messages[-1:]))


@apply_fault.register
def _(fault: ToolError, call: FaultedMcpCall) -> McpAnswer:
    return result_answer(call.request, text_result(call.marked(fault.failure(call.request.tool)), is_error=True))


@apply_fault.register
def _(fault: ToolLost, call: FaultedMcpCall) -> McpAnswer:
    clean = call.clean()
    return replace(clean, messages=clean.messages[:-1], ending="cut")


@apply_fault.register
def _(fault: ToolTimeout, call: FaultedMcpCall) -> McpAnswer:
    if not fault.after_ms:
        return McpAnswer(ending="silence", end_ms=float("inf"))
    late = error_answer(call.request, REQUEST_TIMEOUT, call.marked(fault.message))
    return McpAnswer(messages=tuple((fault.after_ms, raw) for _, raw in late.messages), end_ms=fault.after_ms)


@apply_fault.register
def _(fault: ToolGarbled, call: FaultedMcpCall) -> McpAnswer:
    text = fault.changed("", call.mark)  # instead of all that the result has, whereas others change one text of it
    structured = _structured_text(call.clean().response.get("result"), lambda _: text)
    return call.with_result(text_result(text) | structured)


@apply_fault.register
def _(fault: ToolEmpty, call: FaultedMcpCall) -> McpAnswer:
    return call.with_result({"content": []})


@apply_fault.register
def _(fault: McpError, call: FaultedMcpCall) -> McpAnswer:
    return error_answer(call.request, fault.code, call.marked(fault.failure(call.request.tool)))


@apply_fault.register
def _(fault: ServerExit, call: FaultedMcpCall) -> McpAnswer:
    return McpAnswer(ending="exit", exit_code=fault.code)


@apply_fault.register
def _(fault: StdoutNoise, call: FaultedMcpCall) -> McpAnswer:
    return replace(call.clean(), noise=" ".join(call.marked(fault.line).split()).encode())


@apply_fault.register
def _(fault: Unauthorized, call: FaultedMcpCall) -> McpAnswer:
    answer = error_answer(call.request, UNAUTHORIZED, call.marked(fault.failure(call.request.tool)), status=401)
    return replace(answer, headers={"www-authenticate": 'Bearer error="invalid_token"'})


@apply_fault.register
def _(fault: SessionGone, call: FaultedMcpCall) -> McpAnswer:
    answer = error_answer(call.request, SESSION_NOT_FOUND, call.marked(fault.failure(call.request.tool)), status=404)
    return replace(answer, forgets_session=True)


@apply_fault.register
def _(fault: ToolsChanged, call: FaultedMcpCall) -> McpAnswer:
    changed = encode({"method": "notifications/tools/list_changed"})
    refusal = _refuse_changed(fault, call.request, call.mark)
    return replace(refusal, messages=((0.0, changed), *refusal.messages))


def _refuse_changed(fault: ToolsChanged, request: McpMessage, mark: str = "") -> McpAnswer:
    return error_answer(request, INVALID_PARAMS, add_mark(fault.failure(request.tool), mark))


@apply_fault.register
def _(fault: InputRequiredForever, call: FaultedMcpCall) -> McpAnswer:
    schema = {"type": "object", "properties": {"confirmed": {"type": "boolean"}}}
    asked = {"mode": "form", "message": call.marked(fault.message), "requestedSchema": schema}
    if call.request.era == "modern":
        wanted = {"confirm": {"method": "elicitation/create", "params": asked}}
        result = {"resultType": "input_required", "inputRequests": wanted, "requestState": FOREVER}
        return result_answer(call.request, result)
    raw = encode({"id": f"{FOREVER}-{call.request.id}", "method": "elicitation/create", "params": asked})
    return McpAnswer(messages=((0.0, raw),), ending="silence", end_ms=float("inf"))


@apply_fault.register
def _(fault: TaskStuck, call: FaultedMcpCall) -> McpAnswer:
    task = _stuck_task(call.request)
    return result_answer(
        call.request, {"resultType": "task"} | task if call.request.era == "modern" else {"task": task}
    )


def _stuck_task(request: McpMessage) -> JsonObject:
    """Return a working task in the shape of the client's era."""
    moment = "2026-01-01T00:00:00Z"
    task = {"taskId": STUCK, "status": "working", "createdAt": moment, "lastUpdatedAt": moment}
    is_modern = request.era == "modern"
    return task | ({"ttlMs": None, "pollIntervalMs": 100} if is_modern else {"ttl": None, "pollInterval": 100})


@apply_fault.register
def _(fault: ChangedText, call: FaultedMcpCall) -> McpAnswer:
    """Return the clean answer with its first text changed, or with an added text."""

    def change(text: str) -> str:
        return fault.changed(text, call.mark)

    result = call.clean().response.get("result")
    if not isinstance(result, dict):
        return call.clean()
    content = result.get("content")
    blocks = list(content) if isinstance(content, list) else []
    place = next((index for index, block in enumerate(blocks) if _is_text(block)), None)
    if place is None:
        blocks.append({"type": "text", "text": change("")})
    else:
        blocks[place] = blocks[place] | {"text": change(blocks[place]["text"])}
    return call.with_result(result | {"content": blocks} | _structured_text(result, change))


def _structured_text(result: object, change: Callable[[str], str]) -> JsonObject:
    """Return the structured content of a single-text result, with the text changed, because clients check it against
    its schema.
    """
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    if not isinstance(structured, dict) or list(structured) != ["result"] or not isinstance(structured["result"], str):
        return {}
    return {"structuredContent": {"result": change(structured["result"])}}


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


@apply_fault.register
def _(fault: Lie, call: FaultedMcpCall) -> McpAnswer:
    """Return the clean answer with the lie as its only text, and as its structured content if it has some."""
    result = call.clean().response.get("result")
    if not isinstance(result, dict) or result.get("isError") is True:
        return call.clean()
    seen, structured = model_text(result), result.get("structuredContent")
    told = call.spoil(fault, EndedCall(call.tool, call.request.params.get("arguments", {}), seen, call.mark))
    if told is seen:
        return call.clean()
    text = result_text(told)
    if structured is None:
        return call.with_result(text_result(text))
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    is_wrapped = list(structured) == ["result"] and not (isinstance(value, dict) and list(value) == ["result"])
    return call.with_result(text_result(text) | {"structuredContent": {"result": value} if is_wrapped else value})


class LastingFaults:
    """Lasting changes that faults make to a server in a session: to its tools and its waits."""

    def __init__(self) -> None:
        self._changed: dict[str, ToolsChanged] = {}
        self._asking: dict[str, InputRequiredForever] = {}

    def note(self, fault: AnyToolFault | AnyOrderFault, tool: str) -> None:
        """Note that a fault fires at a call of a tool."""
        if isinstance(fault, ToolsChanged):
            self._changed[tool] = fault
        elif isinstance(fault, InputRequiredForever):
            self._asking[tool] = fault

    def concern(self, request: McpMessage) -> bool:
        """Return whether the answer of a real server is changed."""
        return bool(self._changed) and request.method == "tools/list"

    def answer(self, request: McpMessage) -> McpAnswer | None:
        """Return the answer to a request affected by an earlier fault, or None."""
        if request.params.get("taskId") == STUCK:
            return result_answer(request, {} if request.method == "tasks/update" else _stuck_task(request))
        changed = self._changed.get(request.tool)
        if changed is not None and (
            changed.change == "gone" or NEW_ARGUMENT not in request.params.get("arguments", {})
        ):
            return _refuse_changed(changed, request)
        if request.tool in self._asking and request.params.get("requestState") == FOREVER:
            return apply_fault(self._asking[request.tool], FaultedMcpCall(request, McpAnswer))
        return None

    def listed(self, request: McpMessage, answer: McpAnswer) -> McpAnswer:
        """Return a list of tools after earlier faults, or any other answer unchanged."""
        result = answer.response.get("result") if self.concern(request) else None
        if not isinstance(result, dict):
            return answer
        tools = [self._tool(tool) for tool in result.get("tools", []) if not self._is_gone(tool)]
        return FaultedMcpCall(request, lambda: answer).with_result(result | {"tools": tools})

    def _is_gone(self, tool: JsonObject) -> bool:
        changed = self._changed.get(tool.get("name", ""))
        return changed is not None and changed.change == "gone"

    def _tool(self, tool: JsonObject) -> JsonObject:
        if tool.get("name", "") not in self._changed:
            return tool
        schema = tool.get("inputSchema") or {}
        properties = schema.get("properties", {}) | {NEW_ARGUMENT: {"type": "boolean"}}
        required = [*schema.get("required", []), NEW_ARGUMENT]
        return tool | {"inputSchema": schema | {"properties": properties, "required": required}}
