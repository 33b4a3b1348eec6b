"""Agents that are run by our own guarded loop."""

from __future__ import annotations

from collections.abc import Mapping
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
from offbook.errors import AgentError, InputError, TargetError
from offbook.messages import Usage
from offbook.providers.provider import Provider
from offbook.scenarios.target.target import AGENT_STEP, AgentAnswer, Stage
from offbook.tools.result_text import result_text


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

    def begin(self, stage: Stage) -> RunnerDialogue:
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
