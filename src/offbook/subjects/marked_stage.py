"""A stage on which further tools are known to do harm when they run twice."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from offbook.explore.stage import Stage
from offbook.providers.provider import Provider
from offbook.tools import ToolDef


class MarkedStage:
    """The stand-ins of a stage, with the tools of these names marked as having side effects."""

    def __init__(self, stage: Stage, side_effects: Collection[str]) -> None:
        self._stage, self._side_effects = stage, side_effects

    @property
    def provider(self) -> Provider:
        return self._stage.provider

    def wrap(self, tool: ToolDef) -> ToolDef:
        """The tool, answered, watched and struck by faults as the stage has it."""
        marked = replace(tool, side_effect=True) if tool.name in self._side_effects else tool
        return self._stage.wrap(marked)
