"""Wraps tools so that every call is an event."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import count
from typing import Any

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.events import Sink, ToolCalled, guard_sink
from offbook.tools.definition import ToolDef, wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTools, Toolbox


def observe_tools(tools: GivenTools, sink: Sink, *, clock: Clock = SYSTEM_CLOCK) -> ObservedTools:
    """Wrap tools so that `sink` gets a `ToolCalled` for every call.

    Raises:
        InputError: one cannot be a tool.
    """
    return ObservedTools(Toolbox.of(tools), sink, clock=clock)


class ObservedTools(Toolbox):
    """Tools whose calls are events. The calls of each tool are counted from 1, however often it is wrapped."""

    def __init__(self, tools: Toolbox, sink: Sink, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sink, self._clock = guard_sink(sink), clock
        self._counts: dict[str, Iterator[int]] = {}
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool like the others."""

        def call(**arguments: Any) -> Any:
            observed = _ObservedCall(self._sink, self._clock, tool.name, self._next(tool.name))
            try:
                value = tool.callable(**tool.bind(arguments))
            except BaseException as error:
                observed.end(error)
                raise
            if isinstance(value, Awaitable):
                return observed.wait_for(value)
            observed.end()
            return value

        async def call_and_wait(**arguments: Any) -> Any:
            return await call(**arguments)

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)

    def _next(self, name: str) -> int:
        return next(self._counts.setdefault(name, count(1)))


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
