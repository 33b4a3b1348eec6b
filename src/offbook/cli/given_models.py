"""The models that a run asks: all must be named before it begins."""

from __future__ import annotations

from offbook.errors import InputError
from offbook.workflow.schema import WorkflowDefinition
from offbook.workflow.unnamed_models import steps_without_model


def check_models(definition: WorkflowDefinition, flow: str) -> None:
    """Make sure that every step of the workflow in the file `flow` that asks a model has one.

    Raises:
        InputError: one has none.
    """
    unnamed = steps_without_model(definition)
    if unnamed:
        hint = "config: {model: …} in the file, or offbook run --model NAME"
        raise InputError("no model is named", source=flow, place=f"steps.{unnamed[0]}", hint=hint)
