"""A workflow as an SVG picture: a row of boxes for each level, arrows between them."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from msgspec import Struct

from offbook.workflow.drawing.edges import Edge, edges_of
from offbook.workflow.graph import Graph
from offbook.workflow.schema import WorkflowDefinition

BOX_HEIGHT, ROW_GAP, COLUMN_GAP, MARGIN, TITLE_HEIGHT = 48, 64, 32, 24, 32
CHAR_WIDTH, LABEL_CHAR_WIDTH, MIN_BOX_WIDTH, MAX_LABEL = 8, 6, 120, 40
FILLS = {
    "llm_call": "#e8f0fe",
    "agent": "#e6f4ea",
    "tool": "#fef7e0",
    "router": "#fce8e6",
    "subworkflow": "#f3e8fd",
    "loop": "#e4f7fb",
}
STYLE = "font-family: sans-serif; font-size: 13px; fill: #202124"


class Box(Struct, frozen=True):
    """Where a step is drawn."""

    x: int
    y: int
    width: int

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


def draw_svg(definition: WorkflowDefinition) -> str:
    """Dark on light, with the workflow's name as its title. What is inside loops and sub-workflows is not drawn."""
    graph = Graph(definition.steps)
    boxes = _layout(graph)
    width = MARGIN + max(_rows(graph).values(), default=0) + MARGIN
    width = max(width, MARGIN * 2 + len(_cut(definition.name)) * CHAR_WIDTH)
    height = max(box.y for box in boxes.values()) + BOX_HEIGHT + MARGIN
    arrows = [line for edge in edges_of(graph) for line in _arrow(edge, boxes)]
    drawn = [line for step_id, box in boxes.items() for line in _box(step_id, graph.steps[step_id].type, box)]
    return "\n".join([*_frame(definition.name, width, height), *arrows, *drawn, "</svg>"]) + "\n"


def _frame(name: str, width: int, height: int) -> Iterator[str]:
    """What comes before the steps: the sheet, the title and the tip of an arrow."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" style="{STYLE}">'
    yield f"<title>{_text(name)}</title>"
    tip = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
    yield f'<defs><marker id="tip" {tip}><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>'
    yield f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    yield f'<text x="{MARGIN}" y="{MARGIN + 8}" font-weight="bold">{_text(_cut(name))}</text>'


def _slots(graph: Graph) -> dict[str, int]:
    """How much room each step needs: its box, or what is written on the arrows to it."""
    slots = {step_id: _box_width(step_id) for step_id in graph.order}
    for edge in edges_of(graph):
        slots[edge.target] = max(slots[edge.target], len(_cut(edge.label)) * LABEL_CHAR_WIDTH)
    return slots


def _rows(graph: Graph) -> dict[int, int]:
    """How wide each level is."""
    slots = _slots(graph)
    return {
        number: sum(slots[step_id] + COLUMN_GAP for step_id in level) - COLUMN_GAP
        for number, level in enumerate(graph.levels)
    }


def _layout(graph: Graph) -> dict[str, Box]:
    """Rows from top to bottom, each in the middle."""
    slots, rows = _slots(graph), _rows(graph)
    boxes: dict[str, Box] = {}
    for number, level in enumerate(graph.levels):
        x = MARGIN + (max(rows.values()) - rows[number]) // 2
        y = MARGIN + TITLE_HEIGHT + number * (BOX_HEIGHT + ROW_GAP)
        for step_id in level:
            width = _box_width(step_id)
            boxes[step_id] = Box(x + (slots[step_id] - width) // 2, y, width)
            x += slots[step_id] + COLUMN_GAP
    return boxes


def _box_width(step_id: str) -> int:
    return max(MIN_BOX_WIDTH, (len(_cut(step_id)) + 3) * CHAR_WIDTH)


def _box(step_id: str, kind: str, box: Box) -> Iterator[str]:
    size = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{BOX_HEIGHT}" rx="6"'
    yield f'<g><title>{_text(step_id)}</title><rect {size} fill="{FILLS[kind]}" stroke="#5f6368"/>'
    name = _text(_cut(step_id))
    yield f'<text x="{box.middle}" y="{box.y + 20}" text-anchor="middle" font-weight="bold">{name}</text>'
    yield f'<text x="{box.middle}" y="{box.y + 38}" text-anchor="middle">{kind}</text></g>'


def _arrow(edge: Edge, boxes: dict[str, Box]) -> Iterator[str]:
    source, target = boxes[edge.source], boxes[edge.target]
    start, end = source.y + BOX_HEIGHT, target.y
    bend = (start + end) // 2
    yield (
        f'<path d="M{source.middle} {start} C{source.middle} {bend} {target.middle} {bend} {target.middle} {end}" '
        'fill="none" stroke="#5f6368" marker-end="url(#tip)"/>'
    )
    if edge.label:
        yield (
            f'<text x="{target.middle}" y="{end - 12}" text-anchor="middle" font-size="11" '
            f'paint-order="stroke" stroke="#ffffff" stroke-width="4"><title>{_text(edge.label)}</title>'
            f"{_text(_cut(edge.label))}</text>"
        )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _text(text: str) -> str:
    """The text as XML, which has no place for control characters."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))
