"""The ids under which recordings and faults know the steps of a workflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition


def recorded_steps(definition: WorkflowDefinition) -> dict[str, AnyStep]:
    """Every step by its id: that of a loop's step is its own, that of a sub-workflow's has the step's before it."""
    return dict(_placed(definition.steps, ""))


def _placed(steps: Sequence[AnyStep], prefix: str) -> Iterator[tuple[str, AnyStep]]:
    for step in steps:
        step_id = f"{prefix}{step.id}"
        yield step_id, step
        if isinstance(step, LoopStep):
            yield from _placed(step.steps, prefix)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _placed(step.workflow.steps, f"{step_id}.")
