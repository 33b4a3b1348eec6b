"""Runs the steps that call a model: llm_call and agent."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import orjson
from msgspec.structs import asdict, replace

from offbook.agent import Message, ProviderClient, Workflow, WorkflowRunner
from offbook.agent.clients import ChunkType, StreamChunk
from offbook.agent.message import opening_messages
from offbook.errors import InputError, StepError
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import JsonObject, Request, Response, StreamEnd, StreamRestart, TextDelta
from offbook.tools import Toolbox, ToolDef
from offbook.workflow.engine.step_runner import Environment, Scope, StepRunner
from offbook.workflow.file.schema import AgentStep, LlmCallStep, ModelFields
from offbook.workflow.file.template import Template

M = TypeVar("M", bound=ModelFields)


class ModelStepRunner(StepRunner[M]):
    """A step with a prompt, a system prompt and a model."""

    def __init__(self, definition: M, environment: Environment) -> None:
        super().__init__(definition, environment)
        config = environment.config
        self._prompt = Template.parse(definition.prompt)
        self._system_prompt = Template.parse(definition.system_prompt)
        self.model = _model_name(definition, environment)
        self.temperature = config.temperature if definition.temperature is None else definition.temperature
        self.max_tokens = definition.max_tokens or config.max_tokens
        self.stream = bool(config.stream if definition.stream is None else definition.stream)
        self.step_id = f"{environment.prefix}{definition.id}"

    def prompts(self, scope: Scope) -> tuple[str, str]:
        """Return the system prompt and the prompt, filled in."""
        names, place = scope.names, f"steps.{self.step_id}"
        return (
            self._system_prompt.render(names, place=f"{place}.system_prompt"),
            self._prompt.render(names, place=f"{place}.prompt"),
        )

    def opening(self, scope: Scope) -> list[Message]:
        """Return the prompts as the first messages of a transcript."""
        return opening_messages(*self.prompts(scope))

    def client(self, gateway: ProviderGateway) -> ProviderClient:
        return ProviderClient(
            gateway,
            self.model,
            step_id=self.step_id,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            workflow=self.environment.workflow,
        )

    def forward_chunk(self, chunk: StreamChunk) -> None:
        """Pass the text of a stream on to `on_text`."""
        if chunk.type is ChunkType.TEXT_DELTA:
            self.environment.on_text(self.step_id, chunk.content)


def _model_name(definition: ModelFields, environment: Environment) -> str:
    model = definition.model or environment.config.model
    if model is None:
        raise InputError(
            "the step has no model",
            source=environment.workflow,
            place=f"steps.{definition.id}",
            hint="config: {model: …}",
        )
    return model


_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", re.DOTALL)


class LlmCallStepRunner(ModelStepRunner[LlmCallStep]):
    """Calls a model; its text, or with `json` the parsed value, is the output."""

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        text = await (self._with_tools(scope, gateway) if self.definition.tools else self._once(scope, gateway))
        return _parse_json(text) if self.definition.parse_json else text

    async def _once(self, scope: Scope, gateway: ProviderGateway) -> str:
        reply = await gateway.send(self._request(scope))
        if not self.stream:
            return _answer_text(await reply.collect())
        text = ""
        try:
            async for event in reply:
                match event:
                    case TextDelta(piece):
                        self.environment.on_text(self.step_id, piece)
                    case StreamEnd(response):
                        text = _answer_text(response)
                    case StreamRestart():
                        self.environment.on_text(self.step_id, "\n")
        finally:
            await reply.aclose()
        return text

    def _request(self, scope: Scope) -> Request:
        system, prompt = self.prompts(scope)
        user: JsonObject = {"role": "user", "content": prompt}
        return Request(
            ({"role": "system", "content": system}, user) if system else (user,),
            self.model,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stream=self.stream,
            step_id=self.step_id,
            workflow=self.environment.workflow,
        )

    async def _with_tools(self, scope: Scope, gateway: ProviderGateway) -> str:
        toolbox = self.environment.toolbox
        runner = WorkflowRunner(
            self.client(gateway),
            max_iterations=self.definition.max_tool_iterations + 1,
            stream=self.stream,
            on_chunk=self.forward_chunk,
        )
        agent = Workflow(self.step_id, tools=Toolbox([toolbox[name] for name in self.definition.tools]))
        answer: str = await runner.run(agent, "", initial_messages=self.opening(scope))
        return answer


def _answer_text(response: Response) -> str:
    """Return the text of the model. Raises StepError if a step without tools gets nothing but tool calls."""
    if response.tool_calls and not response.content.strip():
        names = ", ".join(repr(call.tool) for call in response.tool_calls)
        raise StepError(f"the model calls {names} and returns no text, but the step has no tools")
    return response.content


def _parse_json(text: str) -> Any:
    fenced = _FENCED.fullmatch(text)
    try:
        return orjson.loads(fenced[1] if fenced else text)
    except orjson.JSONDecodeError as error:
        raise StepError(f"the answer is not JSON: {error}; it begins with {text[:60]!r}") from None


class AgentStepRunner(ModelStepRunner[AgentStep]):
    """Runs an agent; the result of its terminal tool is the output."""

    def __init__(self, definition: AgentStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        try:
            self._agent = self._build_agent()
        except InputError as error:
            source = f"steps.{self.step_id}: {error.source}"
            raise InputError(error.reason, source=source, place=error.place, hint=error.hint) from error

    def _build_agent(self) -> Workflow:
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
            stream=self.stream,
            on_chunk=self.forward_chunk,
        )
        return await runner.run(self._agent, "", initial_messages=self.opening(scope))

    def _tool(self, name: str) -> ToolDef:
        """Return the tool with the prerequisites that the step declares for it added to its own."""
        tool = self.environment.toolbox[name]
        declared = self.definition.prerequisites.get(name, ())
        if not declared:
            return tool
        needed = [need.tool if need.match_arg is None else asdict(need) for need in declared]
        return replace(tool, prerequisites=[*tool.prerequisites, *needed])
