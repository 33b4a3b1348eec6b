"""The engine that runs a workflow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, TypeAlias

from offbook.agent import Workflow as AgentWorkflow
from offbook.clock import SYSTEM_CLOCK, time_limit
from offbook.errors import InputError, NoProviderError, RecordingMismatchError, StepTimeoutError
from offbook.events import NULL_SINK, Sink, WorkflowEnded, WorkflowStarted, guard_sink
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import Request
from offbook.providers.provider import Provider, run_sync
from offbook.schema_errors import describe_type
from offbook.tools import GivenTools, Toolbox, ToolDef
from offbook.tools.effects import UNDECLARED, ToolDeclaration
from offbook.workflow.engine.mocked import check_mocked, mocked
from offbook.workflow.engine.result import NO_CHECKPOINT, RunStatus, StepCheckpoint, StepResult, WorkflowResult
from offbook.workflow.engine.step_kinds import build_level
from offbook.workflow.engine.step_runner import (
    Environment,
    LevelRun,
    LoadedTools,
    OnText,
    RunContext,
    RunnableLevel,
    Scope,
    initial_state,
)
from offbook.workflow.engine.tool_loader import load_tools
from offbook.workflow.file.load import load_workflow
from offbook.workflow.file.schema import ModelFields, ToolDefinition, WorkflowDefinition
from offbook.workflow.file.tree import check_tools_are_used, walk_steps
from offbook.workflow.file.validate import validate

WrapTools: TypeAlias = Callable[[Mapping[str, ToolDef]], Mapping[str, ToolDef]]


class WorkflowEngine:
    """Runs a workflow: each step as soon as its dependencies have ended, as many at once as its config allows.

    Args:
        workflow: a definition, or the path of its file.
        provider_gateway: calls the models; a provider that is not a gateway is put behind one. What the workflow
            says of `retry` and `restart_streams` comes before the gateway's own rules. A workflow whose config says
            `provider: mock` needs none: each run is answered from its `responses_file`, from the start.
        tools: tools that the workflow calls but does not declare, and replacements for declared tools.
        wrap_tools: wraps all tools, for example with a recorder.
        sink: gets the events of the run and its steps.
        checkpoint: stores the results of steps, and has those of an earlier part of the run.
        on_text: called with the id of a step and each piece of its streamed answers.
        folder: the folder of relative paths in the workflow; by default that of its file.
        declarations: what is declared about tools by name, in addition to what they declare themselves.

    Raises:
        WorkflowError: the workflow is invalid; the error has all problems.
        InputError: a tool cannot be loaded, or is given but never called; a step has no model; an argument
            has the wrong type.
    """

    def __init__(
        self,
        workflow: WorkflowDefinition | str | os.PathLike[str],
        provider_gateway: Provider | None = None,
        *,
        tools: GivenTools = (),
        wrap_tools: WrapTools = dict,
        sink: Sink = NULL_SINK,
        checkpoint: StepCheckpoint = NO_CHECKPOINT,
        on_text: OnText | None = None,
        folder: str | os.PathLike[str] | None = None,
        declarations: Mapping[str, ToolDeclaration] | None = None,
    ) -> None:
        _check_workflow(workflow)
        given = Toolbox(tools)
        if isinstance(workflow, WorkflowDefinition):
            definition = workflow
            validate(definition, tools=given)
        else:
            definition, folder = load_workflow(workflow, tools=given), folder or Path(workflow).parent
        check_tools_are_used(given, definition)
        self.definition = definition
        self._sink = guard_sink(sink)
        if provider_gateway is None:
            check_mocked(definition)
        self._gateway = None if provider_gateway is None else _gateway_of(provider_gateway)
        self._folder, self._wrap_tools = Path(folder or "."), wrap_tools
        self._checkpoint, self._on_text = checkpoint, on_text or (lambda step_id, text: None)
        self._tools = _WorkflowTools(self._folder, given, declarations or {})
        self._level = self._build_level(wrap_tools)

    def using(
        self, provider_gateway: Provider, *, wrap_tools: WrapTools = dict, checkpoint: StepCheckpoint = NO_CHECKPOINT
    ) -> WorkflowEngine:
        """Return an engine for the same workflow with other models, tool wrappers and results of earlier steps.

        The workflow is not validated again, and its tools are not loaded again.
        """
        engine = copy(self)
        vars(engine).update(_gateway=_gateway_of(provider_gateway), _checkpoint=checkpoint)
        vars(engine).update(_level=engine._build_level(wrap_tools))  # noqa: SLF001 - a copy of this
        return engine

    def _build_level(self, wrap_tools: WrapTools) -> RunnableLevel:
        definition = self.definition

        def load(declared: Mapping[str, ToolDefinition]) -> LoadedTools:
            own = self._tools.load(declared)
            return LoadedTools(own, wrap_tools(own))

        loaded = load(definition.tools)
        environment = Environment(
            workflow=definition.name,
            config=definition.config,
            retry=definition.config.retry_policy(),
            toolbox=Toolbox(loaded.wrapped),
            own_tools=loaded.own,
            sink=self._sink,
            checkpoint=self._checkpoint,
            on_text=self._on_text,
            load_tools=load,
        )
        return build_level(definition.steps, environment)

    async def run(self, state: Mapping[str, Any] | None = None) -> WorkflowResult:
        """Run the workflow. `state` overrides keys of the declared state.

        A failed step is in the result, and the workflow has failed, unless the step has `on_failure: continue`.

        Raises:
            RecordingMismatchError: a strict replay has no answer for a step.
            StepTimeoutError: the whole run takes longer than the config's `timeout_s`.
            InputError: `state` has a key that the workflow does not declare, or there is a budget and no price is known
                for a model.
        """
        definition, results = self.definition, dict[str, StepResult]()
        if self._gateway is None:
            async with mocked(definition, self._folder, self._wrap_tools, self._sink) as (gateway, wrap_tools):
                return await self.using(gateway, wrap_tools=wrap_tools, checkpoint=self._checkpoint).run(state)
        run_state = initial_state(definition.state, dict(state or {}), source=definition.name)
        gateway = self._gateway.using(budget_usd=definition.config.budget_usd)
        if gateway.budget.limit_usd is not None:
            # Without a price for each of its models, the budget could not stop the calls.
            for placed in walk_steps(definition):
                if isinstance(placed.step, ModelFields):
                    model = placed.step.model or placed.config.model or ""
                    with suppress(NoProviderError):  # the step raises it, if it runs at all
                        gateway.check_price(Request((), model, step_id=placed.id))
        started_s = SYSTEM_CLOCK.monotonic_s()
        self._sink.emit(WorkflowStarted(definition.name))
        limit_s, ending = definition.config.timeout_s, "failed"
        status: RunStatus
        try:
            async with time_limit(limit_s, lambda limit_s: StepTimeoutError(definition.name, timeout_s=limit_s)):
                failed = await LevelRun(self._level, Scope(RunContext(gateway, results), run_state)).run()
            ending = status = "failed" if failed else "succeeded"
        except RecordingMismatchError:
            ending = "refused"
            raise
        finally:
            latency_s = SYSTEM_CLOCK.monotonic_s() - started_s
            self._sink.emit(WorkflowEnded(definition.name, ending, latency_s))
        return WorkflowResult(
            workflow=definition.name, status=status, state=run_state, steps=results, latency_s=latency_s
        )

    def run_sync(self, state: Mapping[str, Any] | None = None) -> WorkflowResult:
        """Run the workflow like `run`, from code without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `run` there.
        """
        return run_sync(self.run(state))


class _WorkflowTools:
    """The tools of a workflow and its sub-workflows, each declaration loaded once."""

    def __init__(self, folder: Path, given: Mapping[str, ToolDef], declarations: Mapping[str, ToolDeclaration]) -> None:
        self._folder, self._given, self._declarations = folder, given, declarations
        self._loaded: dict[int, dict[str, ToolDef]] = {}

    def load(self, declared: Mapping[str, ToolDefinition]) -> dict[str, ToolDef]:
        if id(declared) not in self._loaded:  # declarations live as long as the definition that has them
            self._loaded[id(declared)] = load_tools(declared, folder=self._folder, given=self._given)
        tools = {**self._loaded[id(declared)], **self._given}
        return {name: tool.declared_as(self._declarations.get(name, UNDECLARED)) for name, tool in tools.items()}


def _check_workflow(workflow: object) -> None:
    if isinstance(workflow, AgentWorkflow):
        hint = "WorkflowRunner(client).run(workflow, message) runs the Workflow of an agent"
    elif isinstance(workflow, Provider):
        hint = "WorkflowEngine(workflow, provider), in this order"
    else:
        hint = "pass a path, or the result of load_workflow(), parse_workflow() or WorkflowBuilder.build()"
    if not isinstance(workflow, WorkflowDefinition | str | os.PathLike):
        reason = f"expected a WorkflowDefinition or the path of one, got {describe_type(workflow)}"
        raise InputError(reason, source="workflow", hint=hint)


def _gateway_of(provider: Provider) -> ProviderGateway:
    if isinstance(provider, ProviderGateway):
        return provider
    if not isinstance(provider, Provider):
        hint = "pass a ProviderGateway or another provider"
        raise InputError(f"expected a provider, got {provider!r}", source="provider_gateway", hint=hint)
    gateway = ProviderGateway()
    gateway.register(provider)
    return gateway
