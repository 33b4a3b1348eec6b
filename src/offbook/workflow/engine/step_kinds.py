"""Runs tool, router, loop and sub-workflow steps, and builds the runner for any step definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, StepError, ToolArgumentsError, ToolRefusalError, ToolResolutionError
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import JsonObject, Request, ToolCall
from offbook.text import shorten
from offbook.tools import Toolbox, ToolDef, run_tool
from offbook.workflow.engine.level_run import RunnableLevel
from offbook.workflow.engine.model_steps import AgentStepRunner, LlmCallStepRunner
from offbook.workflow.engine.step_runner import Environment, Scope, StepRunner, initial_state, set_path
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.schema import (
    AgentStep,
    AnyStep,
    LlmCallStep,
    LoopStep,
    RouterStep,
    SubworkflowStep,
    ToolStep,
    WorkflowDefinition,
)
from offbook.workflow.file.template import fill, follow_path, value_at

MAX_SHOWN_CHARS = 80
NO_RETRY = RetryPolicy(max_retries=0)
NOT_RETRYABLE = (ToolArgumentsError, ToolRefusalError, ToolResolutionError)


class ToolStepRunner(StepRunner[ToolStep]):
    """Calls a tool; its result is the output. A failure is retried if the step, or the config, has a `retry`.

    The config's is for every step, so it reaches only tools that are declared read-only or idempotent: what failed may
    have happened all the same. The tool's own declaration decides, not that of a wrapper, which may be stricter: a run
    under test takes the same attempts as a real one.
    """

    def __init__(self, definition: ToolStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        self._tool = environment.toolbox[definition.tool]
        is_asked = definition.retry is not None or _may_run_twice(environment.own_tools[definition.tool])
        self._retry = (self.retry if is_asked else None) or NO_RETRY

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        place = f"steps.{self.definition.id}.args"
        call = ToolCall(self._tool.name, deepcopy(fill(self.definition.args, scope.names, place=place)))
        attempt = 1
        while True:
            outcome = await run_tool(self._tool, call)
            if outcome.error is None:
                return outcome.value
            if attempt > self._retry.max_retries or isinstance(outcome.error, NOT_RETRYABLE):
                raise outcome.error
            await SYSTEM_CLOCK.sleep_s(self._pause_s(attempt))
            attempt += 1

    def _pause_s(self, attempt: int) -> float:
        request = Request((), "", step_id=self.definition.id, workflow=self.environment.workflow)
        return self._retry.pause_s(request, attempt)


def _may_run_twice(tool: ToolDef) -> bool:
    return tool.declaration.read_only or bool(tool.declaration.idempotent)


class RouterStepRunner(StepRunner[RouterStep]):
    """Chooses the target of the first condition that is true, otherwise the default; its id is the output."""

    def __init__(self, definition: RouterStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        self._conditions = [
            (Expression.parse(condition.expression, names=environment.names), condition.target)
            for condition in definition.conditions
        ]

    async def run(self, scope: Scope, gateway: ProviderGateway) -> str:
        names = scope.names
        for expression, target in self._conditions:
            if expression.is_true(names):
                return target
        if self.definition.default is None:
            raise StepError(f"no condition is true, and there is no default: {self._describe_values(names)}")
        return self.definition.default

    def _describe_values(self, names: Mapping[str, Any]) -> str:
        paths = dict.fromkeys(path for expression, _ in self._conditions for path in expression.paths)
        return ", ".join(f"{'.'.join(path)} is {_describe_value(path, names)}" for path in paths)


def _describe_value(path: tuple[str, ...], names: Mapping[str, Any]) -> str:
    value, depth = follow_path(path, names)
    return shorten(repr(value), MAX_SHOWN_CHARS) if depth == len(path) else "not set"


def loop_environment(environment: Environment, definition: LoopStep) -> Environment:
    """Return the environment of a loop's steps, whose expressions may use its variables."""
    variables = ("index",) if definition.over is None else (definition.variable, "index")
    return replace(environment, names=tuple(dict.fromkeys((*environment.names, *variables))))


class LoopStepRunner(StepRunner[LoopStep]):
    """Runs its steps in rounds; the collected values, or without `collect` the number of rounds, are the output.

    The calls of all rounds are recorded under the ids of the steps, one after another.
    """

    def __init__(self, definition: LoopStep, environment: Environment, level: RunnableLevel) -> None:
        super().__init__(definition, environment)
        self._level = level
        inner = level.environment.names
        self._over = None if definition.over is None else Expression.parse(definition.over, names=environment.names)
        self._until = None if definition.until is None else Expression.parse(definition.until, names=inner)

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        if self._over is not None:
            return await self._over_elements(self._over.elements(scope.names), scope)
        return await self._until_true(scope)

    async def _over_elements(self, elements: list[Any], scope: Scope) -> Any:
        collected = []
        for index, element in enumerate(elements):
            state = dict(scope.state)
            variables = {**scope.variables, self.definition.variable: element, "index": index}
            await self._level.run(Scope(scope.run, state, variables, self._place(scope, index)))
            collected.append(self._collect(state))
        return len(collected) if self.definition.collect is None else collected

    async def _until_true(self, scope: Scope) -> Any:
        collected = []
        for index in range(self.definition.max_iterations):
            variables = {**scope.variables, "index": index}
            inner = Scope(scope.run, scope.state, variables, self._place(scope, index))
            await self._level.run(inner)
            collected.append(self._collect(scope.state))
            if self._until is not None and self._until.is_true(inner.names):
                return len(collected) if self.definition.collect is None else collected
        raise StepError(f"{self.definition.until!r} is not true after {self.definition.max_iterations} rounds")

    def _place(self, scope: Scope, index: int) -> str:
        return f"{scope.place}{self.definition.id}[{index}]."

    def _collect(self, state: dict[str, Any]) -> Any:
        path = self.definition.collect
        return None if path is None else value_at(("state", *path.split(".")), {"state": state}, "collect")


class SubworkflowStepRunner(StepRunner[SubworkflowStep]):
    """Runs another workflow; its final state is the output, and `outputs` of it are copied to the outer state.

    In recordings and results, the ids of its steps are prefixed with the id of this step. It inherits the config
    fields that it does not set.
    """

    def __init__(self, definition: SubworkflowStep, environment: Environment, level: RunnableLevel) -> None:
        super().__init__(definition, environment)
        self._workflow, self._level = loaded_workflow(definition), level

    async def run(self, scope: Scope, gateway: ProviderGateway) -> JsonObject:
        definition = self.definition
        given = fill(definition.input, scope.names, place=f"steps.{definition.id}.input")
        state = initial_state(self._workflow.state, given, source=self._workflow.name)
        await self._level.run(Scope(scope.run, state, place=f"{scope.place}{definition.id}."))
        for target, path in definition.outputs.items():
            set_path(scope.state, target, value_at(("state", *path.split(".")), {"state": state}, definition.id))
        return state


def loaded_workflow(definition: SubworkflowStep) -> WorkflowDefinition:
    """Return the workflow that a step runs.

    Raises:
        InputError: its file was not loaded.
    """
    if definition.workflow is None:
        hint = "load_workflow(path) loads the files that a workflow includes"
        raise InputError(f"{definition.path} is not loaded", place=f"steps.{definition.id}.path", hint=hint)
    return definition.workflow


def subworkflow_environment(environment: Environment, definition: SubworkflowStep) -> Environment:
    """Return the environment of a sub-workflow's steps."""
    workflow = loaded_workflow(definition)
    config = workflow.config.inside(environment.config)
    loaded = environment.load_tools(workflow.tools)
    return replace(
        environment,
        config=config,
        retry=config.retry_policy(),
        toolbox=Toolbox({**environment.toolbox, **loaded.wrapped}),
        own_tools={**environment.own_tools, **loaded.own},
        names=("state",),
        prefix=f"{environment.prefix}{definition.id}.",
    )


def build_level(steps: Sequence[AnyStep], environment: Environment) -> RunnableLevel:
    """Return the runners for the steps of a level.

    Raises:
        InputError: a step lacks something that the config must provide, such as a model.
    """
    return RunnableLevel(Graph(steps), {step.id: build_step(step, environment) for step in steps}, environment)


def build_step(definition: AnyStep, environment: Environment) -> StepRunner[Any]:
    match definition:
        case LlmCallStep():
            return LlmCallStepRunner(definition, environment)
        case AgentStep():
            return AgentStepRunner(definition, environment)
        case ToolStep():
            return ToolStepRunner(definition, environment)
        case RouterStep():
            return RouterStepRunner(definition, environment)
        case SubworkflowStep():
            inner = subworkflow_environment(environment, definition)
            return SubworkflowStepRunner(definition, environment, build_level(loaded_workflow(definition).steps, inner))
        case LoopStep():
            return LoopStepRunner(
                definition, environment, build_level(definition.steps, loop_environment(environment, definition))
            )
