"""Tools that are given for a workflow: whether it has any use for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offbook.errors import InputError
from offbook.wording import did_you_mean
from offbook.workflow.references import tools_of
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition


def check_given(given: Iterable[str], definition: WorkflowDefinition) -> None:
    """Pass if each tool is declared or called, by the workflow or one inside it.

    Raises:
        InputError: one is not, so that it would stand in for nothing.
    """
    known = set(_tools_of(definition))
    for name in given:
        if name not in known:
            reason = f"no step of {definition.name} calls {name!r}, nor is it declared there"
            raise InputError(reason, source="tools", hint=did_you_mean(name, known, kind="its tools"))


def _tools_of(definition: WorkflowDefinition) -> Iterator[str]:
    yield from definition.tools
    yield from _called(definition.steps)


def _called(steps: Iterable[AnyStep]) -> Iterator[str]:
    for step in steps:
        yield from (named.text for named in tools_of(step))
        if isinstance(step, LoopStep):
            yield from _called(step.steps)
        elif isinstance(step, SubworkflowStep) and step.workflow is not None:
            yield from _tools_of(step.workflow)
