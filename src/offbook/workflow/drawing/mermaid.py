"""A workflow as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offbook.workflow.drawing.edges import edges_of
from offbook.workflow.graph import Graph
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.step_definition import RouterStep


def draw_mermaid(definition: WorkflowDefinition) -> str:
    """The steps as boxes, routers as diamonds, loops and sub-workflows as frames."""
    return "\n".join(["flowchart TD", *_lines(definition.steps, prefix="s")]) + "\n"


def _lines(steps: Sequence[AnyStep], *, prefix: str) -> Iterator[str]:
    graph = Graph(steps)
    names = {step_id: f"{prefix}{number}" for number, step_id in enumerate(graph.steps)}
    for step_id, step in graph.steps.items():
        yield from (f"    {line}" for line in _node(step, names[step_id]))
    for edge in edges_of(graph):
        arrow = f'-->|"{_escaped(edge.label)}"|' if edge.label else "-->"
        yield f"    {names[edge.source]} {arrow} {names[edge.target]}"


def _node(step: AnyStep, name: str) -> Iterator[str]:
    label = f'"{_escaped(step.id)}<br>{step.type}"'
    if isinstance(step, RouterStep):
        yield f"{name}{{{label}}}"
    elif inner := _inner_steps(step):
        yield f"subgraph {name}[{label}]"
        yield from _lines(inner, prefix=f"{name}_")
        yield "end"
    else:
        yield f"{name}[{label}]"


def _inner_steps(step: AnyStep) -> Sequence[AnyStep]:
    if isinstance(step, LoopStep):
        return step.steps
    return step.workflow.steps if isinstance(step, SubworkflowStep) and step.workflow is not None else ()


def _escaped(text: str) -> str:
    """The text with everything that Mermaid or HTML could read as its own written as a number."""
    return "".join(letter if letter.isalnum() or letter in " _-.,'=" else f"#{ord(letter)};" for letter in text)
