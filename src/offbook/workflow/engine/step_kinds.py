"""Runs each type of step (llm_call, agent, tool, router, loop, sub-workflow), and builds the runner of a definition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import orjson
from msgspec.structs import asdict, replace

from offbook.agent import Message, ProviderClient, Workflow, WorkflowRunner
from offbook.agent.clients import ChunkType, StreamChunk
from offbook.agent.message import MessageMeta, MessageRole, MessageType, opening_messages
from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, StepError, ToolArgumentsError, ToolRefusalError, ToolResolutionError
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import JsonObject, Request, Response, StreamEnd, StreamRestart, TextDelta, ToolCall
from offbook.text import shorten
from offbook.tools import Toolbox, ToolDef, run_tool
from offbook.workflow.builtin_tools import fill_command, runs_commands
from offbook.workflow.engine.step_runner import Environment, RunnableLevel, Scope, StepRunner, initial_state, set_path
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.schema import (
    AgentStep,
    AnyStep,
    LlmCallStep,
    LoopStep,
    ModelFields,
    RouterStep,
    SubworkflowStep,
    ToolStep,
    WorkflowDefinition,
)
from offbook.workflow.file.template import Template, fill, follow_path, value_at

MAX_SHOWN_CHARS = 80
NO_RETRY = RetryPolicy(max_retries=0)
NOT_RETRYABLE = (ToolArgumentsError, ToolRefusalError, ToolResolutionError)


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


SCHEMA_REQUEST = "Answer only with JSON that fits this JSON schema:"
MAX_PROBLEM_CHARS = 500
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", re.DOTALL)


class LlmCallStepRunner(ModelStepRunner[LlmCallStep]):
    """Calls a model. Its text is the output, or with `json` or a `response_schema` the parsed value.

    An answer that does not fit the schema goes back to the model with what is wrong.
    """

    def __init__(self, definition: LlmCallStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        schema = definition.response_schema
        self._validator = None
        if schema is not None:
            from offbook.tools.schema_parameters import validator_of  # noqa: PLC0415 - jsonschema loads slowly

            self._validator = validator_of(schema, source=f"steps.{self.step_id}", place="response_schema")

    def opening(self, scope: Scope) -> list[Message]:
        messages, schema = super().opening(scope), self.definition.response_schema
        if schema is not None:
            asked = f"{messages[-1].content}\n\n{SCHEMA_REQUEST} {orjson.dumps(schema).decode()}"
            messages[-1] = replace(messages[-1], content=asked)
        return messages

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        transcript = self.opening(scope)
        ask = self._with_tools if self.definition.tools else self._once
        retries = 0 if self._validator is None else self.definition.max_retries_per_step
        while True:
            text, transcript = await ask(transcript, gateway)
            try:
                return self._value(text)
            except StepError as error:
                if not retries:
                    raise
                retries -= 1
                nudge = f"{error}. {SCHEMA_REQUEST} {orjson.dumps(self.definition.response_schema).decode()}"
                transcript.append(Message(MessageRole.USER, nudge, MessageMeta(MessageType.RETRY_NUDGE)))

    def _value(self, text: str) -> Any:
        """Return the output for an answer. Raises StepError if it is not the JSON that it should be."""
        if self._validator is None:
            return _parse_json(text) if self.definition.parse_json else text
        from offbook.tools.schema_parameters import value_problems  # noqa: PLC0415 - as above

        value = _parse_json(text)
        if problems := value_problems(self._validator, value):
            raise StepError(f"the answer does not fit the schema: {shorten('; '.join(problems), MAX_PROBLEM_CHARS)}")
        return value

    async def _once(self, transcript: list[Message], gateway: ProviderGateway) -> tuple[str, list[Message]]:
        """Return the answer, and the transcript with it."""
        text = await self._text(transcript, gateway)
        answered = Message(MessageRole.ASSISTANT, text, MessageMeta(MessageType.TEXT_RESPONSE))
        return text, [*transcript, answered]

    async def _text(self, transcript: Sequence[Message], gateway: ProviderGateway) -> str:
        reply = await gateway.send(self._request(transcript))
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

    def _request(self, transcript: Sequence[Message]) -> Request:
        return Request(
            tuple(message.to_dict() for message in transcript),
            self.model,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stream=self.stream,
            step_id=self.step_id,
            workflow=self.environment.workflow,
        )

    async def _with_tools(self, transcript: list[Message], gateway: ProviderGateway) -> tuple[str, list[Message]]:
        """Return the answer after the last tool, and the transcript with it."""
        toolbox = self.environment.toolbox
        runner = WorkflowRunner(
            self.client(gateway),
            max_iterations=self.definition.max_tool_iterations + 1,
            stream=self.stream,
            on_chunk=self.forward_chunk,
        )
        agent = Workflow(self.step_id, tools=Toolbox([toolbox[name] for name in self.definition.tools]))
        done = await runner.run_in_full(agent, "", initial_messages=transcript)
        return done.result, list(done.messages)


def _answer_text(response: Response) -> str:
    """Return the model's text. Raises StepError if a step without tools gets only tool calls."""
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


class ToolStepRunner(StepRunner[ToolStep]):
    """Calls a tool. Its result is the output. A failure is retried if the step or the config has a `retry`.

    The config's `retry` applies to every step, and therefore only to tools declared read-only or idempotent: a failed
    call may have had its effect. The tool's own declaration decides, not a wrapper's, which may be stricter: a run
    under test makes the same attempts as a real one.
    """

    def __init__(self, definition: ToolStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        self._tool = environment.toolbox[definition.tool]
        declared = environment.own_tools[definition.tool].declaration
        is_asked = definition.retry is not None or declared.read_only or bool(declared.idempotent)
        self._retry = (self.retry if is_asked else None) or NO_RETRY
        own = environment.own_tools[definition.tool]
        self._runs_commands = "command" in definition.args and runs_commands(own)

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        place = f"steps.{self.definition.id}.args"
        arguments = deepcopy(fill(self.definition.args, scope.names, place=place))
        if self._runs_commands:
            arguments["command"] = fill_command(self.definition.args["command"], scope.names, place=place)
        call = ToolCall(self._tool.name, arguments)
        attempt = 1
        while True:
            outcome = await run_tool(self._tool, call)
            if outcome.error is None:
                return outcome.value
            if attempt > self._retry.max_retries or isinstance(outcome.error, NOT_RETRYABLE):
                raise outcome.error
            request = Request((), "", step_id=self.definition.id, workflow=self.environment.workflow)
            await SYSTEM_CLOCK.sleep_s(self._retry.pause_s(request, attempt))
            attempt += 1


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
        definition, collected = self.definition, []
        elements = None if self._over is None else self._over.elements(scope.names)
        for index in range(definition.max_iterations if elements is None else len(elements)):
            inner = self._inner(scope, index, elements)
            await self._level.run(inner)
            path = definition.collect
            collected.append(path and value_at(("state", *path.split(".")), {"state": inner.state}, "collect"))
            if self._until is not None and self._until.is_true(inner.names):
                break
        else:
            if elements is None:
                raise StepError(f"{definition.until!r} is not true after {definition.max_iterations} rounds")
        return len(collected) if definition.collect is None else collected

    def _inner(self, scope: Scope, index: int, elements: list[Any] | None) -> Scope:
        """Return the values visible to a round's steps: with `over`, a copy of the state and an element."""
        state, variables = scope.state, {**scope.variables, "index": index}
        if elements is not None:
            state, variables[self.definition.variable] = dict(scope.state), elements[index]
        return Scope(scope.run, state, variables, f"{scope.place}{self.definition.id}[{index}].")


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
