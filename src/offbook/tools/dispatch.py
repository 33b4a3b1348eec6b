"""Running tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from inspect import iscoroutinefunction
from typing import Any

from offbook.errors import (
    EventLoopError,
    MockError,
    RecordingMismatchError,
    ToolResolutionError,
    ToolTimeoutError,
)
from offbook.messages import JsonObject, ToolCall
from offbook.tools.argument_problem import arguments_error
from offbook.tools.daemon_threads import DAEMON_THREADS
from offbook.tools.definition import ToolDef
from offbook.tools.outcome import ToolOutcome
from offbook.tools.toolbox import Toolbox

NEVER_TOLD = (RecordingMismatchError, MockError, EventLoopError)
"""Errors of the test, not of the tool: a model that were told of them could go on as if nothing had happened."""


async def run_tool(tool: ToolDef, call: ToolCall) -> ToolOutcome:
    """Run one call: check its arguments, call the tool, and wait for what it returns if that can be waited for.

    Without a `timeout_s` a synchronous tool is called right here; with one it runs in a thread of its
    own, in the same context. A thread cannot be stopped, only abandoned: a tool that is late may still
    do what it was about to do.

    Every `Exception` becomes an outcome that tells it, except those that no model may be told.

    Raises:
        RecordingMismatchError, MockError, EventLoopError: raised by the tool, alone or in a group.
    """
    try:
        args = _bound(tool, call)
        if tool.timeout_s is not None:
            value = await _value_in_time(tool, args, tool.timeout_s)
        else:
            value = tool.callable(**args)
            if hasattr(type(value), "__await__"):
                value = await value
    except Exception as error:
        if is_never_told(error):
            raise
        return ToolOutcome.of_error(call, error)
    return ToolOutcome.of_value(call, value)


async def run_tools(toolbox: Toolbox, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
    """Run calls concurrently; the outcomes come in the order of the calls.

    A call of a tool that is not in the toolbox is told so, as a `ToolResolutionError`. If one of the
    calls raises, the others are cancelled, and have ended when this does.

    Raises:
        RecordingMismatchError, MockError, EventLoopError: as `run_tool` does.
    """
    if len(calls) == 1:
        return (await _run_from(toolbox, calls[0]),)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_from(toolbox, call)) for call in calls]
    except ExceptionGroup as failed:
        first = failed.exceptions[0]
    else:
        return tuple(task.result() for task in tasks)
    raise first


async def _run_from(toolbox: Toolbox, call: ToolCall) -> ToolOutcome:
    tool = toolbox.get(call.tool)
    if tool is None:
        there_are = f"there are: {', '.join(toolbox)}" if toolbox else "there are no tools at all"
        return ToolOutcome.of_error(call, ToolResolutionError(f"there is no tool {call.tool!r}; {there_are}"))
    return await run_tool(tool, call)


def _bound(tool: ToolDef, call: ToolCall) -> JsonObject:
    call.raise_for_fault()
    if call.raw_arguments is not None:
        raise arguments_error([f"expected a JSON object, got {call.raw_arguments}"], tool=call.tool)
    return tool.bind(call.args)


async def _value_in_time(tool: ToolDef, args: JsonObject, timeout_s: float) -> object:
    try:
        async with asyncio.timeout(timeout_s) as limit:
            value = tool.callable(**args) if is_async(tool.callable) else await _value_from_thread(tool, args)
            return await value if hasattr(type(value), "__await__") else value
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolTimeoutError(tool=tool.name, timeout_s=timeout_s) from None


async def _value_from_thread(tool: ToolDef, args: JsonObject) -> Any:
    def work() -> tuple[object, Exception | None]:
        try:
            return tool.callable(**args), None
        except Exception as error:  # as a value: a future that is given a StopIteration never ends
            return None, error

    loop = asyncio.get_running_loop()
    value, error = await loop.run_in_executor(DAEMON_THREADS, copy_context().run, work)
    if error is not None:
        raise error
    return value


def is_async(function: object) -> bool:
    """Whether calling it gives something to wait for, as far as that can be told beforehand."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def is_never_told(error: Exception) -> bool:
    """Whether the error is one of the test, alone or in a group."""
    if isinstance(error, ExceptionGroup):
        return error.subgroup(NEVER_TOLD) is not None
    return isinstance(error, NEVER_TOLD)
