"""Walks over all steps of a workflow, including loops and sub-workflows: ids, models, tools, files, state keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
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


class PlacedStep(Struct, frozen=True, kw_only=True):
    """A step of a workflow, or of a loop or sub-workflow in it.

    `id` is its id in recordings: a sub-workflow adds its own id as a prefix (`sub.step`), a loop adds none.
    `config` is the config that applies to it. `includes` are the paths of the files that lead to it, each relative
    to the file before; empty for a step of the workflow's own file.
    """

    step: AnyStep
    id: str
    config: ConfigDefinition
    includes: tuple[str, ...]


def walk_steps(definition: WorkflowDefinition) -> Iterator[PlacedStep]:
    """Yield every step, depth first in file order: a loop or sub-workflow comes before its own steps."""
    return _walk(definition.steps, definition.config, prefix="", includes=())


def _walk(
    steps: Sequence[AnyStep], config: ConfigDefinition, *, prefix: str, includes: tuple[str, ...]
) -> Iterator[PlacedStep]:
    for step in steps:
        step_id = f"{prefix}{step.id}"
        yield PlacedStep(step=step, id=step_id, config=config, includes=includes)
        if isinstance(step, LoopStep):
            yield from _walk(step.steps, config, prefix=prefix, includes=includes)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            inner_config = step.workflow.config.inside(config)
            inner_includes = includes if step.path is None else (*includes, step.path)
            yield from _walk(step.workflow.steps, inner_config, prefix=f"{step_id}.", includes=inner_includes)


def inner_steps(step: AnyStep) -> Sequence[AnyStep]:
    """Return the steps of a loop or of a loaded sub-workflow; empty for other steps."""
    if isinstance(step, LoopStep):
        return step.steps
    return step.workflow.steps if isinstance(step, SubworkflowStep) and step.workflow is not None else ()


def steps_by_id(definition: WorkflowDefinition) -> dict[str, AnyStep]:
    """Return every step by its id in recordings."""
    return {placed.id: placed.step for placed in walk_steps(definition)}


def steps_without_model(definition: WorkflowDefinition) -> list[str]:
    """Return the ids, in recordings, of the steps that call a model but name none."""
    return [
        placed.id
        for placed in walk_steps(definition)
        if isinstance(placed.step, ModelFields) and placed.step.model is None and placed.config.model is None
    ]


class Endpoint(Struct, frozen=True):
    """An API that serves models. The default `base_url` is the vendor's."""

    provider: MockableProviderName | None
    base_url: str | None = None


def endpoints_of(definition: WorkflowDefinition) -> dict[Endpoint, list[str]]:
    """Return the endpoints that the steps of a workflow call, each with its models, in file order."""
    models_by_endpoint: dict[Endpoint, list[str]] = {}
    for placed in walk_steps(definition):
        if isinstance(placed.step, ModelFields):
            models = models_by_endpoint.setdefault(_endpoint_of(placed.step, placed.config), [])
            model = placed.step.model or placed.config.model
            if model is not None and model not in models:
                models.append(model)
    return models_by_endpoint


def _endpoint_of(step: ModelFields, config: ConfigDefinition) -> Endpoint:
    """Return the endpoint of a step; the config's base URL applies to the config's provider only."""
    if step.provider in (None, config.provider):
        return Endpoint(config.provider, config.base_url)
    return Endpoint(step.provider)


def included_files(definition: WorkflowDefinition, folder: Path) -> Iterator[Path]:
    """Yield the resolved paths of the files that a workflow in `folder` includes."""
    for placed in walk_steps(definition):
        if isinstance(placed.step, SubworkflowStep) and placed.step.path is not None:
            including = folder
            for path in placed.includes:
                including = (including / path).resolve().parent
            yield (including / placed.step.path).resolve()


def check_tools_are_used(given: Iterable[str], definition: WorkflowDefinition) -> None:
    """Check that the workflow, or one inside it, declares or calls each of the given tools.

    Raises:
        InputError: a tool is neither declared nor called.
    """
    known = set(definition.tools)
    for placed in walk_steps(definition):
        known.update(reference.text for reference in tools_of(placed.step))
        if isinstance(placed.step, SubworkflowStep) and placed.step.workflow is not None:
            known.update(placed.step.workflow.tools)
    for name in given:
        if name not in known:
            reason = f"no step of {definition.name} calls {name!r}, and no workflow declares it"
            raise InputError(reason, source="tools", hint=did_you_mean(name, known, kind="its tools"))


class StepReference(Struct, frozen=True):
    """A string in a step, such as a template or a tool name, and its place in the step."""

    place: DocumentPath
    text: str


def templates_of(step: AnyStep) -> Iterator[StepReference]:
    """Yield every template of a step, without those of its inner steps."""
    match step:
        case LlmCallStep() | AgentStep():
            yield StepReference(("system_prompt",), step.system_prompt)
            yield StepReference(("prompt",), step.prompt)
        case ToolStep():
            yield from _strings(step.args, ("args",))
        case SubworkflowStep():
            yield from _strings(step.input, ("input",))
        case RouterStep() | LoopStep():
            return


def _strings(declared: Any, place: DocumentPath) -> Iterator[StepReference]:
    if isinstance(declared, str):
        yield StepReference(place, declared)
    elif isinstance(declared, dict):
        for key, value in declared.items():
            yield from _strings(value, (*place, key))
    elif isinstance(declared, list):
        for index, value in enumerate(declared):
            yield from _strings(value, (*place, index))


def expressions_of(step: AnyStep) -> Iterator[StepReference]:
    """Yield every expression that a step evaluates before its inner steps run."""
    if isinstance(step, RouterStep):
        for index, condition in enumerate(step.conditions):
            yield StepReference(("conditions", index, "expression"), condition.expression)
    elif isinstance(step, LoopStep) and step.over is not None:
        yield StepReference(("over",), step.over)


def writes_of(step: AnyStep) -> Iterator[StepReference]:
    """Yield every state path that a step writes, including those of the steps of an `until` loop."""
    if step.output is not None:
        yield StepReference(("output",), step.output)
    if isinstance(step, SubworkflowStep):
        for key in step.outputs:
            yield StepReference(("outputs", key), key)
    if isinstance(step, LoopStep) and step.until is not None:
        for index, inner in enumerate(step.steps):
            for reference in writes_of(inner):
                yield StepReference(("steps", index, *reference.place), reference.text)


def tools_of(step: AnyStep) -> Iterator[StepReference]:
    """Yield every tool that a step may call."""
    match step:
        case ToolStep():
            yield StepReference(("tool",), step.tool)
        case LlmCallStep() | AgentStep():
            yield from (StepReference(("tools", index), name) for index, name in enumerate(step.tools))
            if isinstance(step, AgentStep):
                for index, name in enumerate(step.terminal_tool):
                    yield StepReference(("terminal_tool", index), name)
        case _:
            return
