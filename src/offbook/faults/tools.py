"""Faults of tools: the base class, and the ways in which a tool call can fail."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, NoReturn

from msgspec import Meta, Struct

from offbook.clock import Clock
from offbook.errors import ToolFaultError, ToolTimeoutError
from offbook.faults.fault import DeclaredFault
from offbook.messages import JsonObject


class FaultedToolCall(Struct, frozen=True):
    """The call of a tool that a fault strikes. `run` runs the tool, and gives what it returns."""

    name: str
    arguments: JsonObject
    run: Callable[[], Awaitable[object]]
    clock: Clock


class ToolFault(DeclaredFault, frozen=True):
    """A way for a tool to fail. `runs_tool` says whether the tool does its work all the same."""

    runs_tool: ClassVar[bool] = True

    @property
    def wait_s(self) -> float:
        """How long the caller waits before anything comes of the call."""
        return 0.0

    @abstractmethod
    def outcome(self, tool: str) -> object:
        """What a call of `tool` comes to in the end: raises, or gives a result that is wrong."""

    async def apply_to_tool(self, call: FaultedToolCall) -> object:
        """Do to `call` what this fault does. What the tool itself raises comes through."""
        await call.clock.sleep_s(self.wait_s)
        if self.runs_tool:
            await call.run()
        return self.outcome(call.name)


class ToolEmpty(ToolFault, frozen=True, tag="tool_empty"):
    """Runs the tool, and gives None instead of what it returns."""

    def outcome(self, tool: str) -> None:
        return None


class ToolError(ToolFault, frozen=True, tag="tool_error"):
    """Raises a ToolFaultError: `error`. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    error: str = "the tool failed"

    def outcome(self, tool: str) -> NoReturn:
        raise ToolFaultError(self.error, tool=tool)


class ToolGarbled(ToolFault, frozen=True, tag="tool_garbled"):
    """Runs the tool, and gives `result` instead of what it returns: by default, JSON that breaks off."""

    result: str = '{"status": "ok", "resu'

    def outcome(self, tool: str) -> str:
        return self.result


class ToolLost(ToolFault, frozen=True, tag="tool_lost"):
    """Runs the tool, loses its result, and raises a ToolFaultError: `error`."""

    error: str = "the connection broke, and the result was lost"

    def outcome(self, tool: str) -> NoReturn:
        raise ToolFaultError(self.error, tool=tool)


class ToolTimeout(ToolFault, frozen=True, tag="tool_timeout"):
    """Waits `after_ms`, then raises a ToolTimeoutError. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    @property
    def wait_s(self) -> float:
        return self.after_ms / 1000.0

    def outcome(self, tool: str) -> NoReturn:
        raise ToolTimeoutError(tool=tool, timeout_s=self.wait_s)
