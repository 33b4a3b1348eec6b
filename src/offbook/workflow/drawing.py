"""Draws a workflow as Mermaid, plain text or SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args
from xml.sax.saxutils import escape

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import shorten
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.schema import AnyStep, LoopStep, RouterStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.tree import inner_steps


class Edge(Struct, frozen=True):
    """An arrow from a step to one that runs after it; the label has the conditions if a router decides."""

    source: str
    target: str
    label: str = ""


def edges_of(graph: Graph) -> Iterator[Edge]:
    """Yield every arrow, grouped by its target."""
    for target, sources in graph.dependencies.items():
        for source in sources:
            router = graph.routers.get(source)
            yield Edge(source, target, "" if router is None else _edge_label(router, target))


def _edge_label(router: RouterStep, target: str) -> str:
    conditions = [condition.expression for condition in router.conditions if condition.target == target]
    if router.default == target:
        conditions.append("else")
    return " or ".join(conditions)


def draw_mermaid(definition: WorkflowDefinition) -> str:
    """Draw steps as boxes, routers as diamonds, loops and sub-workflows as frames."""
    return "\n".join(["flowchart TD", *_mermaid_lines(definition.steps, prefix="s")]) + "\n"


def _mermaid_lines(steps: Sequence[AnyStep], *, prefix: str) -> Iterator[str]:
    graph = Graph(steps)
    names = {step_id: f"{prefix}{number}" for number, step_id in enumerate(graph.steps)}
    for step_id, step in graph.steps.items():
        yield from (f"    {line}" for line in _mermaid_node(step, names[step_id]))
    for edge in edges_of(graph):
        arrow = f'-->|"{_escape_mermaid(edge.label)}"|' if edge.label else "-->"
        yield f"    {names[edge.source]} {arrow} {names[edge.target]}"


def _mermaid_node(step: AnyStep, name: str) -> Iterator[str]:
    label = f'"{_escape_mermaid(step.id)}<br>{step.type}"'
    if isinstance(step, RouterStep):
        yield f"{name}{{{label}}}"
    elif inner := inner_steps(step):
        yield f"subgraph {name}[{label}]"
        yield from _mermaid_lines(inner, prefix=f"{name}_")
        yield "end"
    else:
        yield f"{name}[{label}]"


def _escape_mermaid(text: str) -> str:
    """Return the text with all characters that are special in Mermaid or HTML as numeric entities."""
    return "".join(letter if letter.isalnum() or letter in " _-.,'=" else f"#{ord(letter)};" for letter in text)


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
    """The position of a step in the drawing."""

    x: int
    y: int
    width: int

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


def draw_svg(definition: WorkflowDefinition) -> str:
    """Draw the outermost steps, dark on light, with the workflow's name as the title."""
    graph = Graph(definition.steps)
    boxes = _layout(graph)
    width = MARGIN + max(_rows(graph).values(), default=0) + MARGIN
    width = max(width, MARGIN * 2 + len(shorten(definition.name, MAX_LABEL)) * CHAR_WIDTH)
    height = max(box.y for box in boxes.values()) + BOX_HEIGHT + MARGIN
    arrows = [line for edge in edges_of(graph) for line in _svg_arrow(edge, boxes)]
    drawn = [line for step_id, box in boxes.items() for line in _svg_box(step_id, graph.steps[step_id].type, box)]
    return "\n".join([*_svg_frame(definition.name, width, height), *arrows, *drawn, "</svg>"]) + "\n"


def _svg_frame(name: str, width: int, height: int) -> Iterator[str]:
    """Yield the background, the title and the arrow head."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" style="{STYLE}">'
    yield f"<title>{_xml_text(name)}</title>"
    tip = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
    yield f'<defs><marker id="tip" {tip}><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>'
    yield f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    yield f'<text x="{MARGIN}" y="{MARGIN + 8}" font-weight="bold">{_xml_text(shorten(name, MAX_LABEL))}</text>'


def _slots(graph: Graph) -> dict[str, int]:
    """Return the width that each step needs: that of its box, or of the labels on the arrows to it."""
    slots = {step_id: _box_width(step_id) for step_id in graph.order}
    for edge in edges_of(graph):
        slots[edge.target] = max(slots[edge.target], len(shorten(edge.label, MAX_LABEL)) * LABEL_CHAR_WIDTH)
    return slots


def _rows(graph: Graph) -> dict[int, int]:
    """Return the width of each level."""
    slots = _slots(graph)
    return {
        number: sum(slots[step_id] + COLUMN_GAP for step_id in level) - COLUMN_GAP
        for number, level in enumerate(graph.levels)
    }


def _layout(graph: Graph) -> dict[str, Box]:
    """Place the levels in rows from top to bottom, each centred."""
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
    return max(MIN_BOX_WIDTH, (len(shorten(step_id, MAX_LABEL)) + 3) * CHAR_WIDTH)


def _svg_box(step_id: str, kind: str, box: Box) -> Iterator[str]:
    size = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{BOX_HEIGHT}" rx="6"'
    yield f'<g><title>{_xml_text(step_id)}</title><rect {size} fill="{FILLS[kind]}" stroke="#5f6368"/>'
    name = _xml_text(shorten(step_id, MAX_LABEL))
    yield f'<text x="{box.middle}" y="{box.y + 20}" text-anchor="middle" font-weight="bold">{name}</text>'
    yield f'<text x="{box.middle}" y="{box.y + 38}" text-anchor="middle">{kind}</text></g>'


def _svg_arrow(edge: Edge, boxes: dict[str, Box]) -> Iterator[str]:
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
            f'paint-order="stroke" stroke="#ffffff" stroke-width="4"><title>{_xml_text(edge.label)}</title>'
            f"{_xml_text(shorten(edge.label, MAX_LABEL))}</text>"
        )


def _xml_text(text: str) -> str:
    """Return the text as XML, with spaces for control characters."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


INDENT = "    "


def draw_text(definition: WorkflowDefinition) -> str:
    """List the steps, numbered by level: steps with the same number may run at the same time."""
    return "\n".join([_printable(definition.name), *_text_lines(definition.steps)]) + "\n"


def _text_lines(steps: Sequence[AnyStep]) -> Iterator[str]:
    graph = Graph(steps)
    width = max(len(_printable(step_id)) for step_id in graph.steps)
    for number, level in enumerate(graph.levels, start=1):
        for index, step_id in enumerate(level):
            mark = str(number) if index == 0 else ""
            yield f"{mark:>3} {_printable(step_id):<{width}}  {_step_line(graph.steps[step_id], graph)}"
            yield from (INDENT + line for line in _inner_lines(graph.steps[step_id]))


def _step_line(step: AnyStep, graph: Graph) -> str:
    before = graph.dependencies[step.id]
    after = f", after {', '.join(map(_printable, before))}" if before else ""
    output = f" → {step.output}" if step.output else ""
    return f"{step.type}{after}{output}"


def _inner_lines(step: AnyStep) -> Iterator[str]:
    match step:
        case RouterStep():
            yield from (f"  {_printable(rule.expression)} → {_printable(rule.target)}" for rule in step.conditions)
            if step.default is not None:
                yield f"  else → {_printable(step.default)}"
        case LoopStep():
            until = f"until {_printable(step.until)}"
            yield f"  {until if step.over is None else f'{step.variable} in {_printable(step.over)}'}"
        case SubworkflowStep():
            name = step.workflow.name if step.workflow is not None else step.path
            yield f"  {_printable(name)}"
    if inner := inner_steps(step):
        yield from _text_lines(inner)


def _printable(text: str | None) -> str:
    """Return the text in one line, with spaces for control characters, which a terminal could interpret."""
    return "".join(letter if letter.isprintable() else " " for letter in text or "")


DrawingFormat = Literal["mermaid", "text", "svg"]


def draw(definition: WorkflowDefinition, format: DrawingFormat = "text") -> str:
    """Draw a valid workflow. The same workflow always gives the same drawing.

    Raises:
        InputError: the format is unknown.
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
