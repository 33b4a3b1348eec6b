"""The witness of tools: sees every call that an agent makes, and whether the tool itself has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any

from offbook.explore.run import ToolRun
from offbook.explore.scrubbing import scrubbed
from offbook.messages import JsonObject
from offbook.recording.json_form import json_arguments
from offbook.tools import ToolDef
from offbook.tools.dispatch import is_async
from offbook.tools.result_text import result_text
from offbook.tools.wrapped import wrapped


class _Call:
    """A call under way."""

    def __init__(self, tool: ToolDef, number: int, arguments: JsonObject) -> None:
        self.tool, self.number, self.arguments = tool, number, arguments
        self.has_run = False
        self.result = ""
        self.error: str | None = None

    def ended(self) -> ToolRun:
        return ToolRun(
            tool=self.tool.name,
            call=self.number,
            arguments=self.arguments,
            result=self.result,
            error=self.error,
            has_run=self.has_run,
            side_effect=self.tool.side_effect,
        )


_under_way: ContextVar[_Call | None] = ContextVar("_under_way", default=None)


class ToolWitness:
    """Puts itself around the tools of one run: `outside` sees what the agent calls, `inside` what has really run."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._calls: list[_Call] = []

    @property
    def runs(self) -> tuple[ToolRun, ...]:
        """The calls so far, in the order in which they were made."""
        return tuple(call.ended() for call in self._calls)

    def outside(self, tool: ToolDef) -> ToolDef:
        """The tool as the agent has it."""

        def call(**arguments: Any) -> Any:
            return self._told(self._begin(tool, arguments), tool, arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            value = self._told(self._begin(tool, arguments), tool, arguments)
            return await value if isinstance(value, Awaitable) else value

        return wrapped(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)

    def inside(self, tool: ToolDef) -> ToolDef:
        """The tool where nothing stands between the call and itself."""

        def call(**arguments: Any) -> Any:
            _mark()
            return tool.callable(**arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            _mark()
            return await tool.callable(**arguments)

        return wrapped(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=None)

    def _begin(self, tool: ToolDef, arguments: JsonObject) -> _Call:
        self._counts[tool.name] += 1
        call = _Call(tool, self._counts[tool.name], json_arguments(arguments))
        self._calls.append(call)
        return call

    def _told(self, call: _Call, tool: ToolDef, arguments: JsonObject) -> Any:
        token = _under_way.set(call)
        try:
            value = tool.callable(**arguments)
            if isinstance(value, Awaitable):
                return self._awaited(call, value)
            call.result = result_text(value)
        except Exception as error:
            call.error = scrubbed(f"{type(error).__name__}: {error}")
            raise
        else:
            return value
        finally:
            _under_way.reset(token)

    async def _awaited(self, call: _Call, value: Awaitable[Any]) -> Any:
        token = _under_way.set(call)
        try:
            result = await value
        except Exception as error:
            call.error = scrubbed(f"{type(error).__name__}: {error}")
            raise
        finally:
            _under_way.reset(token)
        call.result = result_text(result)
        return result


def _mark() -> None:
    call = _under_way.get()
    if call is not None:
        call.has_run = True
