"""The faults that a command line asks for."""

from __future__ import annotations

from collections.abc import Mapping

from offbook.errors import InputError
from offbook.faults import FaultPlan, parse_fault
from offbook.faults.site import At
from offbook.wording import did_you_mean
from offbook.workflow.recorded_steps import recorded_steps
from offbook.workflow.references import tools_of
from offbook.workflow.schema import AnyStep, WorkflowDefinition
from offbook.workflow.step_definition import ModelFields, ToolStep


def given_faults(lines: list[str], *, file: str | None, definition: WorkflowDefinition) -> FaultPlan:
    """The plan of the lines, and behind them that of a file, for a run of the workflow.

    Raises:
        InputError: a line or the file cannot be read, or names what asks no model, or a tool that no step
            calls, in this workflow.
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
    try:
        _check_workflow(at, definition)
        _check_tool(at, recorded_steps(definition))
        _check_step(at, recorded_steps(definition))
    except InputError as error:
        raise InputError(error.reason, source=source, place=f"{place}{error.place}", hint=error.hint) from None


def _check_workflow(at: At, definition: WorkflowDefinition) -> None:
    if at.workflow not in (None, definition.name):
        raise InputError(f"the workflow is not {at.workflow!r}", place="workflow", hint=f"it is {definition.name!r}")


def _check_tool(at: At, steps: Mapping[str, AnyStep]) -> None:
    called = {named.text for step in steps.values() for named in tools_of(step)}
    if at.tool is not None and at.tool not in called:
        raise InputError(
            f"no step calls a tool {at.tool!r}", place="tool", hint=did_you_mean(at.tool, called, kind="tools")
        )


def _check_step(at: At, steps: Mapping[str, AnyStep]) -> None:
    if at.step_id is None:
        return
    asking = [step_id for step_id, step in steps.items() if isinstance(step, ModelFields)]
    step = steps.get(at.step_id)
    if step is None:
        hint = did_you_mean(at.step_id, asking, kind="steps")
        raise InputError(f"there is no step {at.step_id!r}", place="step", hint=hint)
    if at.step_id not in asking:
        its_tool = f"'tool={step.tool}: tool_error' strikes its tool; " if isinstance(step, ToolStep) else ""
        hint = f"{its_tool}steps that ask a model: {', '.join(asking) or 'none'}"
        reason = f"the step {at.step_id!r} asks no model: it is a {step.type} step"
        raise InputError(reason, place="step", hint=hint)
