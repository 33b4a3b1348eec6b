"""Agents that are workflows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from offbook.errors import InputError, StepError, TargetError
from offbook.messages import Usage
from offbook.providers.provider import Provider
from offbook.scenarios.target.target import AgentAnswer, Stage
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

    def begin(self, stage: Stage) -> EngineDialogue:
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
