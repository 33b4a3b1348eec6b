"""A step that lets a model call tools, guarded, until it calls a terminal one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from offbook.agent import Workflow, WorkflowRunner
from offbook.errors import InputError
from offbook.gateway.gateway import ProviderGateway
from offbook.tools import Toolbox, ToolDef
from offbook.workflow.step_definition import AgentStep
from offbook.workflow.steps.asking import AskingStep
from offbook.workflow.steps.step import Environment, Scope


class AgentLoop(AskingStep[AgentStep]):
    """Gives what the terminal tool returned."""

    def __init__(self, definition: AgentStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        try:
            self._agent = self._made()
        except InputError as error:
            source = f"steps.{self.step_id}: {error.source}"
            raise InputError(error.reason, source=source, place=error.place, hint=error.hint) from error

    def _made(self) -> Workflow:
        definition = self.definition
        names = dict.fromkeys([*definition.tools, *definition.terminal_tool])
        return Workflow(
            self.step_id,
            definition.description,
            tools=Toolbox([self._tool(name) for name in names]),
            required_steps=definition.required_steps,
            terminal_tool=definition.terminal_tool,
        )

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        definition = self.definition
        runner = WorkflowRunner(
            self.client(gateway),
            max_iterations=definition.max_iterations,
            max_retries_per_step=definition.max_retries_per_step,
            max_tool_errors=definition.max_tool_errors,
            stream=definition.stream,
            on_chunk=self.tell_chunk,
        )
        return await runner.run(self._agent, "", initial_messages=self.opening(scope))

    def _tool(self, name: str) -> ToolDef:
        """The tool with the prerequisites that the step declares for it, beside its own."""
        tool = self.environment.toolbox[name]
        declared = self.definition.prerequisites.get(name, ())
        if not declared:
            return tool
        needed = [need.tool if need.match_arg is None else need.model_dump() for need in declared]
        return replace(tool, prerequisites=[*tool.prerequisites, *needed])
