"""A workflow as plain text: its steps by level, with what each waits for and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offbook.workflow.graph import Graph
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.step_definition import RouterStep

INDENT = "    "


def draw_text(definition: WorkflowDefinition) -> str:
    """The steps, numbered by level: those with the same number may run at the same time."""
    return "\n".join([_shown(definition.name), *_lines(definition.steps)]) + "\n"


def _lines(steps: Sequence[AnyStep]) -> Iterator[str]:
    graph = Graph(steps)
    width = max(len(_shown(step_id)) for step_id in graph.steps)
    for number, level in enumerate(graph.levels, start=1):
        for at, step_id in enumerate(level):
            mark = str(number) if at == 0 else ""
            yield f"{mark:>3} {_shown(step_id):<{width}}  {_told(graph.steps[step_id], graph)}"
            yield from (INDENT + line for line in _inside(graph.steps[step_id]))


def _told(step: AnyStep, graph: Graph) -> str:
    before = graph.dependencies[step.id]
    after = f", after {', '.join(map(_shown, before))}" if before else ""
    output = f" → {step.output}" if step.output else ""
    return f"{step.type}{after}{output}"


def _inside(step: AnyStep) -> Iterator[str]:
    match step:
        case RouterStep():
            yield from (f"  {_shown(rule.expression)} → {_shown(rule.target)}" for rule in step.conditions)
            if step.default is not None:
                yield f"  else → {_shown(step.default)}"
        case LoopStep():
            yield f"  until {_shown(step.until)}" if step.over is None else f"  {step.variable} in {_shown(step.over)}"
            yield from _lines(step.steps)
        case SubworkflowStep():
            name = step.workflow.name if step.workflow is not None else step.path
            yield f"  {_shown(name)}"
            yield from _lines(step.workflow.steps) if step.workflow is not None else ()
        case _:
            return


def _shown(text: str | None) -> str:
    """A text in one line, without what a terminal could take for a command."""
    return "".join(letter if letter.isprintable() else " " for letter in text or "")
