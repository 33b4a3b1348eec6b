"""A step that asks a model, once or as often as it calls tools."""

from __future__ import annotations

import re
from typing import Any

import orjson

from offbook.agent import Workflow, WorkflowRunner
from offbook.errors import StepError
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import JsonObject, Request, Response, StreamEnd, StreamRestart, TextDelta
from offbook.tools import Toolbox
from offbook.workflow.step_definition import LlmCallStep
from offbook.workflow.steps.asking import AskingStep
from offbook.workflow.steps.step import Scope

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", re.DOTALL)


class LlmCall(AskingStep[LlmCallStep]):
    """Gives the model's answer: its text, or with `json` the value that the text is."""

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        text = await (self._with_tools(scope, gateway) if self.definition.tools else self._once(scope, gateway))
        return _parsed(text) if self.definition.parse_json else text

    async def _once(self, scope: Scope, gateway: ProviderGateway) -> str:
        reply = await gateway.send(self._request(scope))
        if not self.definition.stream:
            return _text(await reply.collect())
        text = ""
        try:
            async for event in reply:
                match event:
                    case TextDelta(piece):
                        self.environment.on_text(self.step_id, piece)
                    case StreamEnd(response):
                        text = _text(response)
                    case StreamRestart():
                        self.environment.on_text(self.step_id, "\n")
        finally:
            await reply.aclose()
        return text

    def _request(self, scope: Scope) -> Request:
        system, prompt = self.prompts(scope)
        asked: JsonObject = {"role": "user", "content": prompt}
        return Request(
            ({"role": "system", "content": system}, asked) if system else (asked,),
            self.model,
            self.temperature,
            self.max_tokens,
            stream=self.definition.stream,
            step_id=self.step_id,
            workflow=self.environment.workflow,
        )

    async def _with_tools(self, scope: Scope, gateway: ProviderGateway) -> str:
        toolbox = self.environment.toolbox
        runner = WorkflowRunner(
            self.client(gateway),
            max_iterations=self.definition.max_tool_iterations + 1,
            stream=self.definition.stream,
            on_chunk=self.tell_chunk,
        )
        agent = Workflow(self.step_id, tools=Toolbox([toolbox[name] for name in self.definition.tools]))
        answer: str = await runner.run(agent, "", initial_messages=self.opening(scope))
        return answer


def _text(response: Response) -> str:
    """What the model says. A step without tools has no use for a call of one."""
    if response.tool_calls and not response.content.strip():
        names = ", ".join(repr(call.tool) for call in response.tool_calls)
        raise StepError(f"the model asks for {names} and says nothing, but the step has no tools")
    return response.content


def _parsed(text: str) -> Any:
    fenced = _FENCED.fullmatch(text)
    try:
        return orjson.loads(fenced[1] if fenced else text)
    except orjson.JSONDecodeError as error:
        raise StepError(f"the answer is no JSON: {error}; it begins with {text[:60]!r}") from None
