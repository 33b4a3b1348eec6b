"""A step that calls a tool."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import ToolArgumentsError, ToolResolutionError
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import Request, ToolCall
from offbook.tools import run_tool
from offbook.workflow.step_definition import ToolStep
from offbook.workflow.steps.step import Environment, Scope, Step
from offbook.workflow.template import fill

NO_RETRY = RetryPolicy(max_retries=0)
NOT_WORTH_A_RETRY = (ToolArgumentsError, ToolResolutionError)


class ToolUse(Step[ToolStep]):
    """Gives what the tool returned. A failure is tried again if the step has a `retry`, as that says."""

    def __init__(self, definition: ToolStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        self._tool = environment.toolbox[definition.tool]
        self._retry = self.retry or NO_RETRY

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        place = f"steps.{self.definition.id}.args"
        call = ToolCall(self._tool.name, deepcopy(fill(self.definition.args, scope.names, place=place)))
        attempt = 1
        while True:
            outcome = await run_tool(self._tool, call)
            if outcome.error is None:
                return outcome.value
            if attempt > self._retry.max_retries or isinstance(outcome.error, NOT_WORTH_A_RETRY):
                raise outcome.error
            await SYSTEM_CLOCK.sleep_s(self._pause_s(attempt))
            attempt += 1

    def _pause_s(self, attempt: int) -> float:
        asked = Request((), "", step_id=self.definition.id, workflow=self.environment.workflow)
        return self._retry.pause_s(asked, attempt)
