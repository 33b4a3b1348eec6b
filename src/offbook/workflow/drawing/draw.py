"""Drawing a workflow in one of the formats."""

from __future__ import annotations

from typing import Literal, get_args

from offbook.errors import InputError
from offbook.workflow.drawing.mermaid import draw_mermaid
from offbook.workflow.drawing.svg import draw_svg
from offbook.workflow.drawing.text import draw_text
from offbook.workflow.schema import WorkflowDefinition

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
