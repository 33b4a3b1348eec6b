"""The faults that a command line asks for."""

from __future__ import annotations

from understudy.errors import InputError
from understudy.faults import FaultPlan, parse_fault
from understudy.faults.site import At
from understudy.wording import did_you_mean
from understudy.workflow.recorded_steps import recorded_steps
from understudy.workflow.schema import WorkflowDefinition
from understudy.workflow.step_definition import ModelFields


def given_faults(lines: list[str], *, file: str | None, definition: WorkflowDefinition) -> FaultPlan:
    """The plan of the lines, and behind them that of a file, for a run of the workflow.

    Raises:
        InputError: a line or the file cannot be read, or names what asks no model in this workflow.
    """
    plan = FaultPlan() if file is None else FaultPlan.load(file)
    faults = [parse_fault(line) for line in lines]
    for line, planned in zip(lines, faults, strict=True):
        _check(planned.at, definition, source=repr(line), place="")
    for index, planned in enumerate(plan):
        _check(planned.at, definition, source=str(file), place=f"faults[{index}].at.")
    return FaultPlan([*faults, *plan], chaos=plan.chaos)


def _check(at: At, definition: WorkflowDefinition, *, source: str, place: str) -> None:
    """Refuse a site that no call of the workflow can have."""
    if at.workflow not in (None, definition.name):
        reason, hint = f"the workflow is not {at.workflow!r}", f"it is {definition.name!r}"
        raise InputError(reason, source=source, place=f"{place}workflow", hint=hint)
    if at.step_id is None:
        return
    steps = recorded_steps(definition)
    asking = [step_id for step_id, step in steps.items() if isinstance(step, ModelFields)]
    step = steps.get(at.step_id)
    if step is None:
        reason, hint = f"there is no step {at.step_id!r}", did_you_mean(at.step_id, asking, kind="steps")
        raise InputError(reason, source=source, place=f"{place}step", hint=hint)
    if at.step_id not in asking:
        reason = f"the step {at.step_id!r} asks no model: it is a {step.type} step"
        hint = f"a fault strikes calls of models; steps that make some: {', '.join(asking) or 'none'}"
        raise InputError(reason, source=source, place=f"{place}step", hint=hint)
