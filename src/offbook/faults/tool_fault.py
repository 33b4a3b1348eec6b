"""What a tool's fault is: a declared way to fail, and what it does to a call of a tool."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar

from msgspec import Struct

from offbook.clock import Clock
from offbook.faults.declared_fault import DeclaredFault
from offbook.messages import JsonObject


class StruckTool(Struct, frozen=True):
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

    async def strike_tool(self, call: StruckTool) -> object:
        """Do to `call` what this fault does. What the tool itself raises comes through."""
        await call.clock.sleep_s(self.wait_s)
        if self.runs_tool:
            await call.run()
        return self.outcome(call.name)
