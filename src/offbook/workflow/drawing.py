"""Draws a workflow as Mermaid, plain text or SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args
from xml.sax.saxutils import escape

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.text import printable_line, shorten
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.schema import AnyStep, LoopStep, RouterStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.tree import inner_steps


class Edge(Struct, frozen=True):
    """An arrow from a step to a later one. Its label holds a router's conditions."""

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


def _mermaid_lines(steps: Sequence[AnyStep], *, prefix: str) -> Iterator[str]:
    """Yield steps as boxes, routers as diamonds, loops and sub-workflows as frames."""
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


BOX_HEIGHT, ROW_GAP, COLUMN_GAP, MARGIN, TITLE_HEIGHT, PADDING = 48, 64, 32, 24, 32, 16
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
    height: int = BOX_HEIGHT

    @property
    def middle(self) -> int:
        return self.x + self.width // 2

    @property
    def bottom(self) -> int:
        return self.y + self.height


class Picture(Struct, frozen=True):
    """Steps with their positions from the top left corner, and the pictures of those that have steps inside."""

    graph: Graph
    inner: dict[str, Picture]
    boxes: dict[str, Box]

    @property
    def width(self) -> int:
        return max(box.x + box.width for box in self.boxes.values())

    @property
    def height(self) -> int:
        return max(box.bottom for box in self.boxes.values())


def draw_svg(definition: WorkflowDefinition) -> str:
    """Draw the steps, with loops and sub-workflows as boxes, and the workflow's name as the title."""
    picture = _picture(definition.steps)
    width = max(picture.width, len(shorten(definition.name, MAX_LABEL)) * CHAR_WIDTH) + MARGIN * 2
    height = picture.height + MARGIN * 2 + TITLE_HEIGHT
    drawn = _svg_picture(picture, x=MARGIN, y=MARGIN + TITLE_HEIGHT)
    return "\n".join([*_svg_frame(definition.name, width, height), *drawn, "</svg>"]) + "\n"


def _picture(steps: Sequence[AnyStep]) -> Picture:
    graph = Graph(steps)
    inner = {step_id: _picture(found) for step_id, step in graph.steps.items() if (found := inner_steps(step))}
    return Picture(
        graph, inner, _layout(graph, {step_id: _size(step_id, inner.get(step_id)) for step_id in graph.steps})
    )


def _size(step_id: str, inner: Picture | None) -> tuple[int, int]:
    """Return the width and the height of the box of a step."""
    width = max(MIN_BOX_WIDTH, (len(shorten(step_id, MAX_LABEL)) + 3) * CHAR_WIDTH)
    if inner is None:
        return width, BOX_HEIGHT
    return max(width, inner.width + 2 * PADDING), BOX_HEIGHT + inner.height + PADDING


def _svg_picture(picture: Picture, *, x: int, y: int) -> Iterator[str]:
    """Yield the arrows and boxes of a picture, with its corner at this place."""
    boxes = {step_id: replace(box, x=box.x + x, y=box.y + y) for step_id, box in picture.boxes.items()}
    for edge in edges_of(picture.graph):
        yield from _svg_arrow(edge, boxes)
    for step_id, box in boxes.items():
        kind = picture.graph.steps[step_id].type
        size = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"'
        yield f'<g><title>{_xml_text(step_id)}</title><rect {size} fill="{FILLS[kind]}" stroke="#5f6368"/>'
        name = _xml_text(shorten(step_id, MAX_LABEL))
        yield f'<text x="{box.middle}" y="{box.y + 20}" text-anchor="middle" font-weight="bold">{name}</text>'
        yield f'<text x="{box.middle}" y="{box.y + 38}" text-anchor="middle">{kind}</text></g>'
        inner = picture.inner.get(step_id)
        if inner is not None:
            yield from _svg_picture(inner, x=box.x + (box.width - inner.width) // 2, y=box.y + BOX_HEIGHT)


def _svg_frame(name: str, width: int, height: int) -> Iterator[str]:
    """Yield the background, the title and the arrow head."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" style="{STYLE}">'
    yield f"<title>{_xml_text(name)}</title>"
    tip = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"'
    yield f'<defs><marker id="tip" {tip}><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>'
    yield f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    yield f'<text x="{MARGIN}" y="{MARGIN + 8}" font-weight="bold">{_xml_text(shorten(name, MAX_LABEL))}</text>'


def _layout(graph: Graph, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Box]:
    """Place the levels in rows from top to bottom, each centred."""
    slots = {step_id: sizes[step_id][0] for step_id in graph.order}
    for edge in edges_of(graph):
        slots[edge.target] = max(slots[edge.target], len(shorten(edge.label, MAX_LABEL)) * LABEL_CHAR_WIDTH)
    rows = [sum(slots[step_id] + COLUMN_GAP for step_id in level) - COLUMN_GAP for level in graph.levels]
    boxes, y = dict[str, Box](), 0
    for row, level in zip(rows, graph.levels, strict=True):
        x = (max(rows) - row) // 2
        for step_id in level:
            width, height = sizes[step_id]
            boxes[step_id] = Box(x + (slots[step_id] - width) // 2, y, width, height)
            x += slots[step_id] + COLUMN_GAP
        y += max(sizes[step_id][1] for step_id in level) + ROW_GAP
    return boxes


def _svg_arrow(edge: Edge, boxes: dict[str, Box]) -> Iterator[str]:
    source, target = boxes[edge.source], boxes[edge.target]
    start, end = source.bottom, target.y
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
    return escape(printable_line(text))


INDENT = "    "


def _text_lines(steps: Sequence[AnyStep]) -> Iterator[str]:
    """Yield the steps with their level number: steps of one level may run concurrently."""
    graph = Graph(steps)
    width = max(len(printable_line(step_id)) for step_id in graph.steps)
    for number, level in enumerate(graph.levels, start=1):
        for index, step_id in enumerate(level):
            mark = str(number) if index == 0 else ""
            yield f"{mark:>3} {printable_line(step_id):<{width}}  {_step_line(graph.steps[step_id], graph)}"
            yield from (INDENT + line for line in _inner_lines(graph.steps[step_id]))


def _step_line(step: AnyStep, graph: Graph) -> str:
    before = graph.dependencies[step.id]
    after = f", after {', '.join(map(printable_line, before))}" if before else ""
    output = f" → {step.output}" if step.output else ""
    return f"{step.type}{after}{output}"


def _inner_lines(step: AnyStep) -> Iterator[str]:
    match step:
        case RouterStep():
            yield from (
                f"  {printable_line(rule.expression)} → {printable_line(rule.target)}" for rule in step.conditions
            )
            if step.default is not None:
                yield f"  else → {printable_line(step.default)}"
        case LoopStep():
            over = f"until {step.until}" if step.over is None else f"{step.variable} in {step.over}"
            yield f"  {printable_line(over)}"
        case SubworkflowStep():
            name = step.workflow.name if step.workflow is not None else step.path
            yield f"  {printable_line(name or '')}"
    if inner := inner_steps(step):
        yield from _text_lines(inner)


DrawingFormat = Literal["mermaid", "text", "svg"]


def draw(definition: WorkflowDefinition, format: DrawingFormat = "text") -> str:
    """Draw a valid workflow. The same workflow always gives the same drawing.

    Raises:
        InputError: the format is unknown.
    """
    match format:
        case "mermaid":
            return "\n".join(["flowchart TD", *_mermaid_lines(definition.steps, prefix="s")]) + "\n"
        case "text":
            return "\n".join([printable_line(definition.name), *_text_lines(definition.steps)]) + "\n"
        case "svg":
            return draw_svg(definition)
    known = ", ".join(get_args(DrawingFormat))
    raise InputError(f"unknown format {format!r}", source="format", hint=f"one of: {known}")
