"""Which models a workflow asks, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from offbook.workflow.config_definition import ConfigDefinition, ProviderName
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.step_definition import ModelFields


class Endpoint(Struct, frozen=True):
    """Where models are asked. Without a `base_url` it is the vendor's own."""

    provider: ProviderName | None
    base_url: str | None = None


def endpoints_of(definition: WorkflowDefinition) -> dict[Endpoint, list[str]]:
    """The models that the steps of a workflow ask at each endpoint, in the order of the file."""
    asked: dict[Endpoint, list[str]] = {}
    for endpoint, model in _asked(definition.steps, definition.config):
        models = asked.setdefault(endpoint, [])
        if model is not None and model not in models:
            models.append(model)
    return asked


def _asked(steps: Sequence[AnyStep], config: ConfigDefinition) -> Iterator[tuple[Endpoint, str | None]]:
    for step in steps:
        if isinstance(step, ModelFields):
            yield _endpoint(step, config), step.model or config.model
        elif isinstance(step, LoopStep):
            yield from _asked(step.steps, config)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _asked(step.workflow.steps, step.workflow.config.inside(config))


def _endpoint(step: ModelFields, config: ConfigDefinition) -> Endpoint:
    """The address in the config is that of its own provider alone."""
    if step.provider in (None, config.provider):
        return Endpoint(config.provider, config.base_url)
    return Endpoint(step.provider)
