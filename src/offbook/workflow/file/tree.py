"""Walks over all steps of a workflow, in loops and sub-workflows too: ids, models, tools, state keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.text import did_you_mean
from offbook.vendors import MockableProviderName
from offbook.workflow.file.problems import DocumentPath
from offbook.workflow.file.schema import (
    AgentStep,
    AnyStep,
    ConfigDefinition,
    LlmCallStep,
    LoopStep,
    ModelFields,
    RouterStep,
    SubworkflowStep,
    ToolStep,
    WorkflowDefinition,
)


def steps_by_id(definition: WorkflowDefinition) -> dict[str, AnyStep]:
    """Every step by its id: that of a loop's step is its own, that of a sub-workflow's has the step's before it."""
    return dict(_steps_with_ids(definition.steps, ""))


def _steps_with_ids(steps: Sequence[AnyStep], prefix: str) -> Iterator[tuple[str, AnyStep]]:
    for step in steps:
        step_id = f"{prefix}{step.id}"
        yield step_id, step
        if isinstance(step, LoopStep):
            yield from _steps_with_ids(step.steps, prefix)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _steps_with_ids(step.workflow.steps, f"{step_id}.")


def steps_without_model(definition: WorkflowDefinition) -> list[str]:
    """The steps that could not ask a model, by the ids that recordings know them by."""
    return list(_ids_without_model(definition.steps, definition.config, ""))


def _ids_without_model(steps: Sequence[AnyStep], config: ConfigDefinition, prefix: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ModelFields):
            if step.model is None and config.model is None:
                yield f"{prefix}{step.id}"
        elif isinstance(step, LoopStep):
            yield from _ids_without_model(step.steps, config, prefix)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            inner = step.workflow
            yield from _ids_without_model(inner.steps, inner.config.inside(config), f"{prefix}{step.id}.")


class Endpoint(Struct, frozen=True):
    """Where models are asked. Without a `base_url` it is the vendor's own."""

    provider: MockableProviderName | None
    base_url: str | None = None


def endpoints_of(definition: WorkflowDefinition) -> dict[Endpoint, list[str]]:
    """The models that the steps of a workflow ask at each endpoint, in the order of the file."""
    asked: dict[Endpoint, list[str]] = {}
    for endpoint, model in _models_by_endpoint(definition.steps, definition.config):
        models = asked.setdefault(endpoint, [])
        if model is not None and model not in models:
            models.append(model)
    return asked


def _models_by_endpoint(steps: Sequence[AnyStep], config: ConfigDefinition) -> Iterator[tuple[Endpoint, str | None]]:
    for step in steps:
        if isinstance(step, ModelFields):
            yield _endpoint_of(step, config), step.model or config.model
        elif isinstance(step, LoopStep):
            yield from _models_by_endpoint(step.steps, config)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _models_by_endpoint(step.workflow.steps, step.workflow.config.inside(config))


def _endpoint_of(step: ModelFields, config: ConfigDefinition) -> Endpoint:
    """The address in the config is that of its own provider alone."""
    if step.provider in (None, config.provider):
        return Endpoint(config.provider, config.base_url)
    return Endpoint(step.provider)


class StepReference(Struct, frozen=True):
    """A text in a step, and where in the step it stands."""

    place: DocumentPath
    text: str


def templates_of(step: AnyStep) -> Iterator[StepReference]:
    """Every template that a step itself holds."""
    match step:
        case LlmCallStep() | AgentStep():
            yield StepReference(("system_prompt",), step.system_prompt)
            yield StepReference(("prompt",), step.prompt)
        case ToolStep():
            yield from _texts(step.args, ("args",))
        case SubworkflowStep():
            yield from _texts(step.input, ("input",))
        case RouterStep() | LoopStep():
            return


def _texts(declared: Any, place: DocumentPath) -> Iterator[StepReference]:
    if isinstance(declared, str):
        yield StepReference(place, declared)
    elif isinstance(declared, dict):
        for key, value in declared.items():
            yield from _texts(value, (*place, key))
    elif isinstance(declared, list):
        for at, value in enumerate(declared):
            yield from _texts(value, (*place, at))


def expressions_of(step: AnyStep) -> Iterator[StepReference]:
    """Every expression that a step evaluates before its own steps, if it has any, run."""
    if isinstance(step, RouterStep):
        for at, condition in enumerate(step.conditions):
            yield StepReference(("conditions", at, "expression"), condition.expression)
    elif isinstance(step, LoopStep) and step.over is not None:
        yield StepReference(("over",), step.over)


def writes_of(step: AnyStep) -> Iterator[StepReference]:
    """Every path of the state that a step writes, also by the steps of an `until` loop."""
    if step.output is not None:
        yield StepReference(("output",), step.output)
    if isinstance(step, SubworkflowStep):
        for key in step.outputs:
            yield StepReference(("outputs", key), key)
    if isinstance(step, LoopStep) and step.until is not None:
        for at, inner in enumerate(step.steps):
            for written in writes_of(inner):
                yield StepReference(("steps", at, *written.place), written.text)


def tools_of(step: AnyStep) -> Iterator[StepReference]:
    """Every tool that a step may call."""
    match step:
        case ToolStep():
            yield StepReference(("tool",), step.tool)
        case LlmCallStep() | AgentStep():
            yield from (StepReference(("tools", at), name) for at, name in enumerate(step.tools))
            if isinstance(step, AgentStep):
                yield from (StepReference(("terminal_tool", at), name) for at, name in enumerate(step.terminal_tool))
        case _:
            return


def check_tools_are_used(given: Iterable[str], definition: WorkflowDefinition) -> None:
    """Pass if each tool is declared or called, by the workflow or one inside it.

    Raises:
        InputError: one is not, so that it would stand in for nothing.
    """
    known = set(_all_tools(definition))
    for name in given:
        if name not in known:
            reason = f"no step of {definition.name} calls {name!r}, nor is it declared there"
            raise InputError(reason, source="tools", hint=did_you_mean(name, known, kind="its tools"))


def _all_tools(definition: WorkflowDefinition) -> Iterator[str]:
    yield from definition.tools
    yield from _called_tools(definition.steps)


def _called_tools(steps: Iterable[AnyStep]) -> Iterator[str]:
    for step in steps:
        yield from (named.text for named in tools_of(step))
        if isinstance(step, LoopStep):
            yield from _called_tools(step.steps)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _all_tools(step.workflow)
