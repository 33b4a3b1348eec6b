"""What a replayed world must remember of a run: effects that ran, and of which no whole answer arrived."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from offbook.faults.log import FaultLog
from offbook.tools.effects import UNDECLARED, ToolDeclaration

_READING = re.compile(
    r"(?:get|find|list|search|read|fetch|look_?up|check|query|show|status|poll|describe|count|exists|view|load|retrieve|verify)"
    r"(?![a-z])"
)
"""How the names of tools begin that read, as far as nothing is declared."""


class UnseenEffect(Struct, frozen=True):
    """A tool that ran in its `call`-th call, and whose caller got no whole answer; as `call` is counted in a plan."""

    tool: str
    call: int


class World:
    """The effects of one run whose answers were lost, garbled or empty, as `faults` has them.

    Its tools are known by what is declared. A tool that declares nothing reads if its name says so.
    """

    def __init__(self, faults: FaultLog, declarations: Mapping[str, ToolDeclaration]) -> None:
        self._faults, self._declarations = faults, declarations

    def unseen_before(self, tool: str) -> UnseenEffect | None:
        """Return the effect that a call of `tool` would show now, and which is its caller's last unseen one.

        None if there is none, or the tool does not read.
        """
        if not self._faults.fired or not self._reads(tool):
            return None
        unseen = (
            UnseenEffect(line.at.tool, line.at.call or 1)
            for line in reversed(self._faults.fired)
            if line.at.tool is not None
            and line.fault.is_for_tools
            and getattr(line.fault, "runs_tool", False)
            and not {"loses_answer", "breaks_result"}.isdisjoint(line.fault.traits)
            and self._declared(line.at.tool).has_effect
        )
        return next(unseen, None)

    def _reads(self, tool: str) -> bool:
        declared = self._declared(tool)
        if declared == UNDECLARED:
            return _READING.match(tool.rpartition(".")[2].lower()) is not None
        return declared.read_only

    def _declared(self, tool: str) -> ToolDeclaration:
        """Return what a tool declares, which may be known by its name without that of its server."""
        return self._declarations.get(tool, self._declarations.get(tool.rpartition(".")[2], UNDECLARED))


STATELESS = World(FaultLog(), {})
"""The world of runs without faults."""
