"""The fault of a tool that takes too long."""

from typing import Annotated, ClassVar, NoReturn

from msgspec import Meta

from offbook.errors import ToolTimeoutError
from offbook.faults.tool_fault import ToolFault


class ToolTimeout(ToolFault, frozen=True, tag="tool_timeout"):
    """Waits `after_ms`, then raises a ToolTimeoutError. The tool does not run."""

    runs_tool: ClassVar[bool] = False

    after_ms: Annotated[float, Meta(ge=0)] = 0.0

    @property
    def wait_s(self) -> float:
        return self.after_ms / 1000.0

    def outcome(self, tool: str) -> NoReturn:
        raise ToolTimeoutError(tool=tool, timeout_s=self.wait_s)
