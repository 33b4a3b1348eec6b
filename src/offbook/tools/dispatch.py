"""Runs tool calls: checks arguments, applies timeouts, returns an outcome for each, and reports each as an event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import count
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock, time_limit
from offbook.errors import (
    EventLoopError,
    MockError,
    RecordingMismatchError,
    RecordingWriteError,
    ToolResolutionError,
    ToolTimeoutError,
)
from offbook.events import Sink, ToolCalled, guard_sink
from offbook.messages import JsonObject, ToolCall, plain_str, result_text
from offbook.tools.definition import ToolDef, is_async, wrap_tool
from offbook.tools.parameters import arguments_error
from offbook.tools.toolbox import GivenTools, Toolbox

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """Runs each piece of work in its own daemon thread.

    Unlike in a pool, endless work blocks neither other work nor the end of an event loop or of the program.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        Thread(target=_run_into_future, args=(future, fn, args, kwargs), daemon=True).start()
        return future


DAEMON_THREADS = DaemonThreads()


def _run_into_future(
    future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        future.set_result(function(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)


class ToolOutcome(Struct, frozen=True):
    """The outcome of a tool call: the `value` that the tool returned, or its `error`. The model gets `text`."""

    call: ToolCall
    value: object
    error: Exception | None
    text: str

    @classmethod
    def of_value(cls, call: ToolCall, value: object) -> ToolOutcome:
        return cls(call, value, None, result_text(value))

    @classmethod
    def of_error(cls, call: ToolCall, error: Exception) -> ToolOutcome:
        return cls(call, None, error, error_text(error))


def error_text(error: Exception) -> str:
    """Return the text that a model gets for an error."""
    if isinstance(error, ToolResolutionError):
        return f"[ToolResolutionError] {plain_str(error)}"
    message = plain_str(error)
    return f"[ToolError] {type(error).__name__}: {message}" if message else f"[ToolError] {type(error).__name__}"


TEST_ERRORS = (RecordingMismatchError, RecordingWriteError, MockError, EventLoopError)
"""Errors of the test, not of the tool. No model gets them, because it could continue as if nothing had happened."""


_is_awaited: ContextVar[bool] = ContextVar("_is_awaited", default=False)


def is_awaited() -> bool:
    """Return whether the synchronous tool being called may return an awaitable.

    `run_tool` awaits its result. A direct caller of a tool does not.
    """
    return _is_awaited.get()


@contextmanager
def awaiting(*, awaits: bool) -> Iterator[None]:
    """Make `is_awaited` return this for tools called in the block."""
    token = _is_awaited.set(awaits)
    try:
        yield
    finally:
        _is_awaited.reset(token)


async def run_tool(tool: ToolDef, call: ToolCall) -> ToolOutcome:
    """Run one call: check its arguments, call the tool, and await its result if that is awaitable.

    Without a `timeout_s`, a synchronous tool is called in this thread; with one, in its own thread, in the same
    context. A thread cannot be stopped, only abandoned: a tool that timed out may still have its effect later.

    Every `Exception` becomes an outcome, except errors of the test.

    Raises:
        RecordingMismatchError, RecordingWriteError, MockError, EventLoopError: raised by the tool, alone or in a group.
    """
    try:
        args = _bind_arguments(tool, call)
        if tool.timeout_s is not None:
            value = await _value_in_time(tool, args, tool.timeout_s)
        else:
            value = _call_tool(tool, args)
            if hasattr(type(value), "__await__"):
                value = await value
    except Exception as error:
        if is_test_error(error):
            raise
        return ToolOutcome.of_error(call, error)
    return ToolOutcome.of_value(call, value)


async def run_tools(toolbox: Toolbox, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
    """Run calls concurrently, and return their outcomes in the order of the calls.

    The outcome of an unknown tool is a `ToolResolutionError`. If one of the calls raises, the others are cancelled
    before this raises.

    Raises:
        RecordingMismatchError, RecordingWriteError, MockError, EventLoopError: as `run_tool` does.
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
        known = f"there are: {', '.join(toolbox)}" if toolbox else "there are no tools at all"
        return ToolOutcome.of_error(call, ToolResolutionError(f"there is no tool {call.tool!r}; {known}"))
    return await run_tool(tool, call)


_running_tool: ContextVar[str] = ContextVar("_running_tool", default="")


def running_tool() -> str:
    """Return the tool whose function now runs in this thread, for example below a signal handler, or ""."""
    return _running_tool.get()


def _call_tool(tool: ToolDef, args: JsonObject) -> Any:
    token = _running_tool.set(tool.name)
    try:
        with awaiting(awaits=True):
            return tool.callable(**args)
    finally:
        _running_tool.reset(token)


def _bind_arguments(tool: ToolDef, call: ToolCall) -> JsonObject:
    call.raise_for_fault()
    if call.raw_arguments is not None:
        raise arguments_error([f"expected a JSON object, got {call.raw_arguments}"], tool=call.tool)
    return tool.bind(call.args)


async def _value_in_time(tool: ToolDef, args: JsonObject, timeout_s: float) -> object:
    async with time_limit(timeout_s, lambda limit_s: ToolTimeoutError(tool=tool.name, timeout_s=limit_s)):
        value = tool.callable(**args) if is_async(tool.callable) else await _value_from_thread(tool, args)
        return await value if hasattr(type(value), "__await__") else value


async def _value_from_thread(tool: ToolDef, args: JsonObject) -> Any:
    def work() -> tuple[object, Exception | None]:
        try:
            return _call_tool(tool, args), None
        except Exception as error:  # as a value: a future cannot hold a StopIteration
            return None, error

    loop = asyncio.get_running_loop()
    value, error = await loop.run_in_executor(DAEMON_THREADS, copy_context().run, work)
    if error is not None:
        raise error
    return value


def is_test_error(error: Exception) -> bool:
    """Return whether the error is one of the test, alone or in a group."""
    if isinstance(error, ExceptionGroup):
        return error.subgroup(TEST_ERRORS) is not None
    return isinstance(error, TEST_ERRORS)


def observe_tools(tools: GivenTools, sink: Sink, *, clock: Clock = SYSTEM_CLOCK) -> ObservedTools:
    """Wrap tools so that `sink` gets a `ToolCalled` for every call.

    Raises:
        InputError: one cannot be a tool.
    """
    return ObservedTools(Toolbox.of(tools), sink, clock=clock)


class ObservedTools(Toolbox):
    """Tools whose calls are events. Each tool's calls are counted from 1, however often it is wrapped."""

    def __init__(self, tools: Toolbox, sink: Sink, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sink, self._clock = guard_sink(sink), clock
        self._counts: dict[str, Iterator[int]] = {}
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool."""

        def call(**arguments: Any) -> Any:
            number = next(self._counts.setdefault(tool.name, count(1)))
            observed = _ObservedCall(self._sink, self._clock, tool.name, number)
            try:
                value = tool.callable(**tool.bind(arguments))
            except BaseException as error:
                observed.end(error)
                raise
            if isinstance(value, Awaitable):
                return observed.wait_for(value)
            observed.end()
            return value

        return wrap_tool(tool, call, timeout_s=tool.timeout_s)


class _ObservedCall:
    """One call of a tool, from its start."""

    def __init__(self, sink: Sink, clock: Clock, tool: str, number: int) -> None:
        self._sink, self._clock, self._tool, self._number = sink, clock, tool, number
        self._started_s = clock.monotonic_s()

    def end(self, error: BaseException | None = None) -> None:
        latency_s = self._clock.monotonic_s() - self._started_s
        failure = None if error is None else type(error).__name__
        self._sink.emit(ToolCalled(self._tool, latency_s, failure, self._number))

    async def wait_for(self, value: Awaitable[Any]) -> Any:
        try:
            result = await value
        except BaseException as error:
            self.end(error)
            raise
        self.end()
        return result
