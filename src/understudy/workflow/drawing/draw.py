"""Drawing a workflow in one of the formats."""

from __future__ import annotations

from typing import Literal, get_args

from understudy.errors import InputError
from understudy.workflow.drawing.mermaid import draw_mermaid
from understudy.workflow.drawing.svg import draw_svg
from understudy.workflow.drawing.text import draw_text
from understudy.workflow.schema import WorkflowDefinition

DrawingFormat = Literal["mermaid", "text", "svg"]


def draw(definition: WorkflowDefinition, format: DrawingFormat = "text") -> str:
    """A picture of a workflow that was checked: the same workflow gives the same picture.

    Raises:
        InputError: there is no such format.
    """
    match format:
        case "mermaid":
            return draw_mermaid(definition)
        case "text":
            return draw_text(definition)
        case "svg":
            return draw_svg(definition)
    known = ", ".join(get_args(DrawingFormat))
    raise InputError(f"unknown format {format!r}", source="format", hint=f"one of: {known}")
