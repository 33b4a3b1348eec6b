"""Pictures of workflows: Mermaid, plain text and SVG."""

from offbook.workflow.drawing.draw import DrawingFormat, draw

__all__ = ["DrawingFormat", "draw"]
