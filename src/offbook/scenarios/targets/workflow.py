"""Agents that are workflows: run by WorkflowEngine from a file, or by WorkflowRunner from a Workflow."""

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
from offbook.scenarios.targets.target import AGENT_STEP, AgentAnswer, AgentEnvironment
from offbook.tools import GivenTools, ToolDef
from offbook.tools.result_text import result_text
from offbook.workflow import WorkflowBuilder, WorkflowDefinition, WorkflowEngine, load_workflow


class EngineTarget:
    """A workflow that is run once a turn: what the user says goes into its state, what it says comes from there.

    Args:
        workflow: a definition, a builder, or the path of a file.
        input: the key of the state that the user's words go to.
        output: the key that the answer is under.
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

    def begin(self, stage: AgentEnvironment) -> EngineDialogue:
        provider = stage.provider or self._provider
        if provider is None:
            raise InputError("the agent has no provider to ask its models by", source=self.name)

        def mocked(tools: Mapping[str, ToolDef]) -> Mapping[str, ToolDef]:
            return stage.tools.toolbox(tools)

        engine = WorkflowEngine(self._definition, provider, tools=self._tools, wrap_tools=mocked, folder=self._folder)
        return EngineDialogue(engine, self._input, self._output)


class EngineDialogue:
    """One conversation with such an agent: each turn is a run of its own."""

    def __init__(self, engine: WorkflowEngine, input: str, output: str) -> None:
        self._engine, self._input, self._output = engine, input, output

    async def say(self, text: str) -> AgentAnswer:
        result = await self._engine.run({self._input: text})
        if not result.succeeded:
            failed = result.failures[0]
            raise TargetError(f"the workflow failed at {failed.id}: {failed.error}") from StepError(failed.error)
        if self._output not in result.state:
            raise TargetError(f"the workflow wrote no {self._output!r} into its state")
        usage = Usage(total_tokens=result.total_tokens)
        return AgentAnswer(result_text(result.state[self._output]), usage, result.cost_usd)


class RunnerTarget:
    """An agent's Workflow, run by a WorkflowRunner with its tools mocked. Its result is what it says.

    Args:
        provider: where its model is asked; what a conversation gives goes before it.
        prompt_vars: what its system prompt asks for.
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

    def begin(self, stage: AgentEnvironment) -> RunnerDialogue:
        provider = stage.provider or self._provider
        if provider is None:
            raise InputError("the agent has no provider to ask its model by", source=self.name)
        client = ProviderClient(provider, self._model, step_id=AGENT_STEP)
        runner = WorkflowRunner(client, policy=self._policy, max_iterations=self._max_iterations)
        rules = self._workflow.rules
        mocked = Workflow(
            self._workflow.name,
            self._workflow.description,
            tools=stage.tools.toolbox(self._workflow.tools),
            required_steps=rules.required_steps,
            terminal_tool=rules.terminal_tools,
            system_prompt_template=self._workflow.system_prompt_template,
        )
        return RunnerDialogue(runner, mocked, self._prompt_vars or {})


class RunnerDialogue:
    """One conversation with such an agent: each turn goes on with the transcript of the one before."""

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
