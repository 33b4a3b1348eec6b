"""Faults of tools: the base class, and the ways in which a tool call can fail."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

from msgspec import Struct

from offbook.errors import ToolFaultError, ToolTimeoutError
from offbook.faults.fault import UNANSWERED_MS, DeclaredFault, FaultTrait, FaultVariant, Milliseconds, add_mark
from offbook.messages import JsonObject

if TYPE_CHECKING:
    from offbook.clock import Clock


class FaultedToolCall(Struct, frozen=True):
    """The tool call at which a fault fires. `run` runs the tool and returns its result.

    In an exploration, every text that the fault injects carries the `mark`; elsewhere it is empty.
    """

    name: str
    arguments: JsonObject
    run: Callable[[], Awaitable[object]]
    clock: "Clock"
    mark: str = ""


class ToolFault(DeclaredFault, frozen=True):
    """A way for a tool to fail. `runs_tool` says whether the tool runs nevertheless."""

    is_for_tools: ClassVar[bool] = True
    runs_tool: ClassVar[bool] = True

    @property
    def wait_s(self) -> float:
        """How long the caller waits before the call fails."""
        return 0.0

    @abstractmethod
    def outcome(self, tool: str, mark: str = "", result: object = None) -> object:
        """Raise the error of a call of `tool`, or return a result that is wrong. Their texts carry the `mark`.

        `result` is what the tool returned, if it has run.
        """

    async def apply_to_tool(self, call: FaultedToolCall) -> object:
        """Make `call` fail. An error of the tool itself is raised."""
        await call.clock.sleep_s(self.wait_s)
        result = await call.run() if self.runs_tool else None
        return self.outcome(call.name, call.mark, result)


class ToolEmpty(ToolFault, frozen=True, tag="tool_empty"):
    """Runs the tool, and returns None instead of its result."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"breaks_result", "may_be_true"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("tool_empty", cls(), is_persistent=True),)

    def outcome(self, tool: str, mark: str = "", result: object = None) -> None:
        return None


class ToolError(ToolFault, frozen=True, tag="tool_error"):
    """Raises a ToolFaultError: `error`. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    error: str = "the tool failed"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("tool_error", cls(), is_persistent=True),)

    def outcome(self, tool: str, mark: str = "", result: object = None) -> NoReturn:
        raise ToolFaultError(add_mark(self.error, mark), tool=tool)


class ToolGarbled(ToolFault, frozen=True, tag="tool_garbled"):
    """Runs the tool, and returns `result` instead of its result: by default, JSON that breaks off."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"breaks_result"})

    result: str = '{"status": "ok", "resu'

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("tool_garbled", cls(), is_persistent=True),)

    def outcome(self, tool: str, mark: str = "", result: object = None) -> str:
        return add_mark(self.result, mark)


class ToolLost(ToolFault, frozen=True, tag="tool_lost"):
    """Runs the tool, loses its result, and raises a ToolFaultError: `error`."""

    error: str = "the connection broke, and the result was lost"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("tool_lost", cls(), is_persistent=True),)

    def outcome(self, tool: str, mark: str = "", result: object = None) -> NoReturn:
        raise ToolFaultError(add_mark(self.error, mark), tool=tool)


class ToolTimeout(ToolFault, frozen=True, tag="tool_timeout"):
    """Waits `after_ms`, then raises a ToolTimeoutError. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    after_ms: Milliseconds = 0.0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("tool_timeout", cls(after_ms=UNANSWERED_MS), is_persistent=True),)

    @property
    def wait_s(self) -> float:
        return self.after_ms / 1000.0

    def outcome(self, tool: str, mark: str = "", result: object = None) -> NoReturn:
        raise ToolTimeoutError(tool=tool, timeout_s=self.wait_s)
