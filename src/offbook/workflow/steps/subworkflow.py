"""A step that runs another workflow on a state of its own."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.errors import InputError
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import JsonObject
from offbook.tools import Toolbox
from offbook.workflow.schema import SubworkflowStep, WorkflowDefinition
from offbook.workflow.state import opened, put
from offbook.workflow.steps.runnable_level import RunnableLevel
from offbook.workflow.steps.step import Environment, Scope, Step
from offbook.workflow.template import fill, value_at


class Subworkflow(Step[SubworkflowStep]):
    """Gives the state that the other workflow ended with; `outputs` of it go into ours.

    The ids of its steps have this step's before them in recordings and results. What its `config` does
    not say, ours does.
    """

    def __init__(self, definition: SubworkflowStep, environment: Environment, level: RunnableLevel) -> None:
        super().__init__(definition, environment)
        self._workflow, self._level = loaded(definition), level

    async def run(self, scope: Scope, gateway: ProviderGateway) -> JsonObject:
        definition = self.definition
        given = fill(definition.input, scope.names, place=f"steps.{definition.id}.input")
        state = opened(self._workflow.state, given, source=self._workflow.name)
        await self._level.run(Scope(scope.run, state, place=f"{scope.place}{definition.id}."))
        for target, path in definition.outputs.items():
            put(scope.state, target, value_at(("state", *path.split(".")), {"state": state}, definition.id))
        return state


def loaded(definition: SubworkflowStep) -> WorkflowDefinition:
    """The workflow that a step runs.

    Raises:
        InputError: it is in a file that was not loaded with the workflow around it.
    """
    if definition.workflow is None:
        hint = "load_workflow(path) loads the files that a workflow includes"
        raise InputError(f"{definition.path} was not loaded", place=f"steps.{definition.id}.path", hint=hint)
    return definition.workflow


def in_subworkflow(environment: Environment, definition: SubworkflowStep) -> Environment:
    """What the steps of a sub-workflow have in common."""
    workflow = loaded(definition)
    return replace(
        environment,
        config=workflow.config.inside(environment.config),
        toolbox=Toolbox({**environment.toolbox, **environment.load_tools(workflow.tools)}),
        names=("state",),
        prefix=f"{environment.prefix}{definition.id}.",
    )
