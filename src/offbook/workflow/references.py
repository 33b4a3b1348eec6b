"""What a step reads from the state, and what it writes there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from offbook.workflow.positions import DocumentPath
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep
from offbook.workflow.step_definition import AgentStep, LlmCallStep, RouterStep, ToolStep


class Written(Struct, frozen=True):
    """A text in a step, and where in the step it stands."""

    place: DocumentPath
    text: str


def templates_of(step: AnyStep) -> Iterator[Written]:
    """Every template that a step itself holds."""
    match step:
        case LlmCallStep() | AgentStep():
            yield Written(("system_prompt",), step.system_prompt)
            yield Written(("prompt",), step.prompt)
        case ToolStep():
            yield from _texts(step.args, ("args",))
        case SubworkflowStep():
            yield from _texts(step.input, ("input",))
        case RouterStep() | LoopStep():
            return


def _texts(declared: Any, place: DocumentPath) -> Iterator[Written]:
    if isinstance(declared, str):
        yield Written(place, declared)
    elif isinstance(declared, dict):
        for key, value in declared.items():
            yield from _texts(value, (*place, key))
    elif isinstance(declared, list):
        for at, value in enumerate(declared):
            yield from _texts(value, (*place, at))


def expressions_of(step: AnyStep) -> Iterator[Written]:
    """Every expression that a step evaluates before its own steps, if it has any, run."""
    if isinstance(step, RouterStep):
        for at, condition in enumerate(step.conditions):
            yield Written(("conditions", at, "expression"), condition.expression)
    elif isinstance(step, LoopStep) and step.over is not None:
        yield Written(("over",), step.over)


def writes_of(step: AnyStep) -> Iterator[Written]:
    """Every path of the state that a step writes, also by the steps of an `until` loop."""
    if step.output is not None:
        yield Written(("output",), step.output)
    if isinstance(step, SubworkflowStep):
        for key in step.outputs:
            yield Written(("outputs", key), key)
    if isinstance(step, LoopStep) and step.until is not None:
        for at, inner in enumerate(step.steps):
            for written in writes_of(inner):
                yield Written(("steps", at, *written.place), written.text)


def tools_of(step: AnyStep) -> Iterator[Written]:
    """Every tool that a step may call."""
    match step:
        case ToolStep():
            yield Written(("tool",), step.tool)
        case LlmCallStep() | AgentStep():
            yield from (Written(("tools", at), name) for at, name in enumerate(step.tools))
            if isinstance(step, AgentStep):
                yield from (Written(("terminal_tool", at), name) for at, name in enumerate(step.terminal_tool))
        case _:
            return
