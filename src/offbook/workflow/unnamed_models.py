"""Which steps of a workflow name no model, and nobody names one for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offbook.workflow.config_definition import ConfigDefinition
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.step_definition import ModelFields


def steps_without_model(definition: WorkflowDefinition) -> list[str]:
    """The steps that could not ask a model, by the ids that recordings know them by."""
    return list(_without(definition.steps, definition.config, ""))


def _without(steps: Sequence[AnyStep], config: ConfigDefinition, prefix: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, ModelFields):
            if step.model is None and config.model is None:
                yield f"{prefix}{step.id}"
        elif isinstance(step, LoopStep):
            yield from _without(step.steps, config, prefix)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            inner = step.workflow
            yield from _without(inner.steps, inner.config.inside(config), f"{prefix}{step.id}.")
