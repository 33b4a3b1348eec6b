"""Agents under test that are workflows: run by WorkflowEngine from a file, or by WorkflowRunner from a Workflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offbook.agent import (
    AgentRun,
    GuardPolicy,
    Message,
    MessageMeta,
    MessageRole,
    MessageType,
    ProviderClient,
    Workflow,
    WorkflowRunner,
)
from offbook.errors import AgentError, InputError, StepError, TargetError
from offbook.messages import Usage
from offbook.providers.provider import Provider
from offbook.scenarios.targets import AGENT_STEP, AgentAnswer, AgentEnvironment
from offbook.tools import GivenTools, ToolDef
from offbook.tools.result_text import result_text
from offbook.workflow import WorkflowBuilder, WorkflowDefinition, WorkflowEngine, load_workflow


class EngineTarget:
    """A workflow that runs once per turn, with the user message in its state; its answer is read from the state.

    Args:
        workflow: a definition, a builder, or the path of a file.
        input: the state key for the user message.
        output: the state key of the answer.

    Raises:
        InputError: the state has no key `input`.
        WorkflowError: the file cannot be read, or is not a valid workflow.
    """

    def __init__(
        self,
        name: str,
        workflow: WorkflowDefinition | WorkflowBuilder | str | os.PathLike[str],
        *,
        provider: Provider | None = None,
        input: str = "user_input",
        output: str = "response",
    ) -> None:
        self.name, self._provider, self._input, self._output = name, provider, input, output
        self._tools: GivenTools = ()
        self._folder: Path | None = None
        if isinstance(workflow, WorkflowBuilder):
            self._definition, self._tools = workflow.build(), workflow.toolbox
        elif isinstance(workflow, WorkflowDefinition):
            self._definition = workflow
        else:
            self._definition, self._folder = load_workflow(workflow), Path(workflow).parent
        if input not in self._definition.state:
            raise InputError(f"the workflow's state has no key {input!r}", source=name, place="input")

    def begin(self, environment: AgentEnvironment) -> EngineDialogue:
        provider = environment.provider or self._provider
        if provider is None:
            raise InputError("the agent has no provider for its model calls", source=self.name)

        def mocked(tools: Mapping[str, ToolDef]) -> Mapping[str, ToolDef]:
            return environment.tools.toolbox(tools)

        engine = WorkflowEngine(self._definition, provider, tools=self._tools, wrap_tools=mocked, folder=self._folder)
        return EngineDialogue(engine, self._input, self._output)


class EngineDialogue:
    """A conversation with a workflow file: every turn is a separate run."""

    def __init__(self, engine: WorkflowEngine, input: str, output: str) -> None:
        self._engine, self._input, self._output = engine, input, output

    async def say(self, text: str) -> AgentAnswer:
        result = await self._engine.run({self._input: text})
        if not result.succeeded:
            failed = result.failures[0]
            raise TargetError(f"the workflow failed at {failed.id}: {failed.error}") from StepError(failed.error)
        if self._output not in result.state:
            raise TargetError(f"the workflow did not set {self._output!r} in its state")
        usage = Usage(total_tokens=result.total_tokens)
        return AgentAnswer(result_text(result.state[self._output]), usage, result.cost_usd)


class RunnerTarget:
    """A Workflow that a WorkflowRunner runs with mocked tools. The result of the run is the answer.

    Args:
        provider: serves the model calls, unless the conversation has a provider of its own.
        prompt_vars: the variables of the system prompt.
    """

    def __init__(
        self,
        name: str,
        workflow: Workflow,
        model: str,
        *,
        provider: Provider | None = None,
        prompt_vars: Mapping[str, Any] | None = None,
        policy: GuardPolicy | None = None,
        max_iterations: int = 10,
    ) -> None:
        self.name, self._workflow, self._model, self._provider = name, workflow, model, provider
        self._prompt_vars, self._policy, self._max_iterations = prompt_vars, policy or GuardPolicy(), max_iterations

    def begin(self, environment: AgentEnvironment) -> RunnerDialogue:
        provider = environment.provider or self._provider
        if provider is None:
            raise InputError("the agent has no provider for its model calls", source=self.name)
        client = ProviderClient(provider, self._model, step_id=AGENT_STEP)
        runner = WorkflowRunner(client, policy=self._policy, max_iterations=self._max_iterations)
        rules = self._workflow.rules
        mocked = Workflow(
            self._workflow.name,
            self._workflow.description,
            tools=environment.tools.toolbox(self._workflow.tools),
            required_steps=rules.required_steps,
            terminal_tool=rules.terminal_tools,
            system_prompt_template=self._workflow.system_prompt_template,
        )
        return RunnerDialogue(runner, mocked, self._prompt_vars or {})


class RunnerDialogue:
    """A conversation with a Workflow: every turn continues the transcript of the previous one."""

    def __init__(self, runner: WorkflowRunner, workflow: Workflow, prompt_vars: Mapping[str, Any]) -> None:
        self._runner, self._workflow, self._prompt_vars = runner, workflow, prompt_vars
        self._transcript: list[Message] = []

    async def say(self, text: str) -> AgentAnswer:
        seed = [*self._transcript, Message(MessageRole.USER, text, MessageMeta(MessageType.USER_INPUT))]
        try:
            run: AgentRun = await self._runner.run_in_full(
                self._workflow,
                text,
                prompt_vars=self._prompt_vars,
                initial_messages=seed if self._transcript else None,
            )
        except AgentError as error:
            raise TargetError(f"the agent's run ended without a result: {error}") from error
        self._transcript = list(run.messages)
        return AgentAnswer(result_text(run.result), Usage(total_tokens=run.total_tokens), run.cost_usd)
