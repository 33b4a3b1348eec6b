"""Agents under test: the Target protocol, and targets for functions, HTTP endpoints, workflow files and agents."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from inspect import isawaitable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import replace

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
from offbook.codecs.base import convert_request
from offbook.codecs.chat_message import ChatMessage
from offbook.errors import AgentError, InputError, OffbookError, ProviderError, StepError, TargetError
from offbook.messages import JsonObject, Request, Response, ToolCall, Usage, result_text
from offbook.messages import Message as WireMessage
from offbook.providers.provider import Provider
from offbook.scenarios.mocks import MockedTools
from offbook.tools import GivenTools, ToolDef
from offbook.tools.definition import is_async
from offbook.tools.dispatch import DAEMON_THREADS
from offbook.workflow import WorkflowBuilder, WorkflowDefinition, WorkflowEngine, load_workflow

AGENT_STEP = "agent"
"""The step id under which an agent's model calls are recorded, after the prefix of its conversation."""
MAX_ROUNDS = 25


class AgentAnswer(Struct, frozen=True):
    """An agent's answer in one turn, with the usage and cost of its model calls where they are known."""

    text: str
    usage: Usage = Usage()
    cost_usd: float = 0.0


class McpServer(Protocol):
    """A stand-in for an MCP server, as the agent of a conversation reaches it.

    `config` is its entry in the `mcpServers` of a client, and `path` a config file with all servers of the agent.
    """

    config: JsonObject
    path: str

    @property
    def url(self) -> str:
        """The address over HTTP."""
        ...

    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Return a transport for clients of the `mcp` SDK on this event loop."""
        ...


class AgentMcpServers(Protocol):
    """Stands in for the MCP servers of an agent."""

    def begin(self, conversation: str, tools: MockedTools) -> Mapping[str, McpServer]:
        """Return the servers by name for a new conversation, such as `books a room/billing/1`.

        Their tool calls, and unanswered calls, are added to `tools` before the agent gets the answer.
        """
        ...


class AgentEnvironment(Struct, frozen=True):
    """The tools, provider and MCP servers that a conversation provides to its agent.

    `tools` answers the agent's tool calls. `provider` serves its model calls, which are recorded and replayed with
    the conversation, and so are the calls of its MCP servers, which `mcp` has by name.
    """

    tools: MockedTools
    provider: Provider | None = None
    mcp: Mapping[str, McpServer] = {}


class AgentDialogue(Protocol):
    """An agent in one conversation."""

    async def say(self, text: str) -> AgentAnswer:
        """Send a user message to the agent and return its answer.

        Raises:
            TargetError: the agent failed, or returned something that is not an answer.
        """
        ...


class Target(Protocol):
    """An agent under test. Its conversations share no state."""

    @property
    def name(self) -> str: ...

    def begin(self, environment: AgentEnvironment) -> AgentDialogue:
        """Start a new conversation."""
        ...


SendMessages: TypeAlias = Callable[[list[JsonObject]], Awaitable[Response]]


class ToolLoop:
    """A conversation with an agent that returns its tool calls: mocks answer them until the agent answers in text."""

    def __init__(self, send: SendMessages, tools: MockedTools) -> None:
        self._send, self._tools = send, tools
        self._messages: list[JsonObject] = []

    async def say(self, text: str) -> AgentAnswer:
        self._messages.append({"role": "user", "content": text})
        prompt_tokens = completion_tokens = 0
        cost_usd = 0.0
        for _ in range(MAX_ROUNDS):
            response = await self._send(list(self._messages))
            prompt_tokens += response.usage.prompt_tokens
            completion_tokens += response.usage.completion_tokens
            cost_usd += response.cost_usd
            calls = _with_ids(response.tool_calls, len(self._messages))
            self._messages.append(WireMessage("assistant", response.content or None, tool_calls=calls).to_dict())
            if not calls:
                return AgentAnswer(response.content, Usage.of(prompt_tokens, completion_tokens), cost_usd)
            for call in calls:
                self._messages.append(await self._result(call))
        raise TargetError(f"the agent called tools {MAX_ROUNDS} times in a row without an answer")

    async def _result(self, call: ToolCall) -> JsonObject:
        if call.raw_arguments is not None:
            result: object = {"error": f"the arguments are not a JSON object: {call.raw_arguments[:200]}"}
        else:
            result = await self._tools.resolve(call.tool, call.args)
        content = result if isinstance(result, str) else orjson.dumps(result).decode()
        return {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": content}


def _with_ids(calls: tuple[ToolCall, ...], place: int) -> tuple[ToolCall, ...]:
    return tuple(call if call.id else replace(call, id=f"call_{place}_{number}") for number, call in enumerate(calls))


HandlerAnswer: TypeAlias = str | Response | Mapping[str, Any]
Handler: TypeAlias = Callable[[list[JsonObject], "HandlerContext"], HandlerAnswer | Awaitable[HandlerAnswer]]


class HandlerContext(Struct, frozen=True):
    """The second argument of a handler.

    `provider` serves the model calls that the handler makes through offbook, and `mcp` has the MCP servers of the agent
    by name. Both are recorded and replayed with the conversation, which `conversation_id` identifies.
    """

    environment: AgentEnvironment
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def conversation_id(self) -> str:
        return self.environment.tools.conversation_id

    @property
    def turn_index(self) -> int:
        return self.environment.tools.turn_index

    @property
    def provider(self) -> Provider | None:
        return self.environment.provider

    @property
    def mcp(self) -> Mapping[str, McpServer]:
        return self.environment.mcp

    def resolve_tool(self, name: str, args: Mapping[str, Any]) -> Any:
        """Return the answer of a tool's mock. An async handler awaits it; a sync handler gets the result itself."""
        result = self.environment.tools.resolve(name, args)
        if self.loop is None:
            return result
        return asyncio.run_coroutine_threadsafe(result, self.loop).result()


class HandlerTarget:
    """An agent that is a function of `(messages, ctx)`, sync or async.

    The function gets the conversation in the OpenAI chat shape. It returns a str, a Response, or a message in that
    shape, with or without tool calls. A sync function runs in a thread of its own.
    """

    def __init__(self, name: str, handler: Handler) -> None:
        if not callable(handler):
            raise InputError(f"expected a function, got {handler!r}", source=name, place="handler")
        self.name, self._handler = name, handler

    def begin(self, environment: AgentEnvironment) -> ToolLoop:
        async def send(messages: list[JsonObject]) -> Response:
            try:
                return _response(await self._answer(messages, environment))
            except OffbookError:
                raise
            except Exception as error:  # every error of the agent is a finding about it
                raise TargetError(f"the agent raised {type(error).__name__}: {error}") from error

        return ToolLoop(send, environment.tools)

    async def _answer(self, messages: list[JsonObject], environment: AgentEnvironment) -> HandlerAnswer:
        handler: Callable[..., Any] = self._handler
        if is_async(handler):
            returned = handler(messages, HandlerContext(environment))
        else:
            loop = asyncio.get_running_loop()
            context = HandlerContext(environment, loop)
            returned = await loop.run_in_executor(DAEMON_THREADS, copy_context().run, handler, messages, context)
        answer: HandlerAnswer = await returned if isawaitable(returned) else returned
        return answer


def _response(answer: HandlerAnswer) -> Response:
    if isinstance(answer, str):
        return Response(answer)
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, Mapping):
        message = convert_request({"role": "assistant", **answer}, ChatMessage)
        calls = tuple(call.to_tool_call() for call in message.tool_calls or ())
        return Response(_content_text(message.content), tool_calls=calls)
    raise TargetError(f"the agent returned {type(answer).__name__}; expected a str, a message or a Response")


def _content_text(content: str | Sequence[JsonObject] | None) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())


class HttpTarget:
    """An agent behind an HTTP endpoint that takes conversations in the shape of OpenAI's chat completions.

    Args:
        provider: sends the requests, unless the conversation has a provider that records or replays.
        model: the `model` of every request.
        body: additional fields of every request.
        stream: whether to request a stream.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        model: str = "agent",
        body: Mapping[str, Any] | None = None,
        stream: bool = False,
    ) -> None:
        self.name = name
        self._provider, self._model, self._body, self._stream = provider, model, dict(body or {}), stream

    def begin(self, environment: AgentEnvironment) -> ToolLoop:
        provider = environment.provider or self._provider

        async def send(messages: list[JsonObject]) -> Response:
            request = Request(tuple(messages), self._model, extra=self._body, stream=self._stream, step_id=AGENT_STEP)
            try:
                reply = await provider.send(request)
                return await reply.collect()
            except ProviderError as error:
                raise TargetError(f"the agent's endpoint failed: {error}") from error

        return ToolLoop(send, environment.tools)


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
