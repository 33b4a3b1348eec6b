"""Runs an agent: calls the model, checks its turn and runs the tools, until the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, TypedDict, TypeVar, Unpack, get_args

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.clients import ChunkType, LLMClient, LLMResponse, ProviderClient, StreamChunk
from offbook.agent.context import ContextManager, NoCompact
from offbook.agent.definition import Workflow
from offbook.agent.errors import MaxIterationsError, StreamError, WorkflowCancelledError
from offbook.agent.guards import DEFAULT_POLICY, GuardPolicy, Guardrails, RetryNudge, nudge_function
from offbook.agent.message import (
    Message,
    MessageMeta,
    MessageRole,
    MessageType,
    ReasoningReplay,
    Transcript,
    opening_messages,
)
from offbook.errors import AgentError, InputError
from offbook.messages import Response
from offbook.providers.provider import Provider, run_sync
from offbook.schema_errors import check_int, check_type, describe_type
from offbook.text import did_you_mean
from offbook.tools import ToolOutcome, run_tools

T = TypeVar("T")
OnChunk = Callable[[StreamChunk], Awaitable[object] | object]


class AgentRun(Struct, frozen=True, kw_only=True):
    """A run that ended with a result.

    `result` is the result of the terminal tool, or the text that ended the run; then `terminal_tool` is None.
    `iterations` counts the model calls, `completed_steps` how often each tool succeeded.
    """

    result: Any
    terminal_tool: str | None
    messages: tuple[Message, ...]
    iterations: int
    completed_steps: dict[str, int]
    total_tokens: int = 0
    cost_usd: float = 0.0


class ModelCaller(Struct, frozen=True):
    """Calls the model of a run, and passes the chunks of a stream to `on_chunk`."""

    client: LLMClient
    stream: bool = False
    on_chunk: OnChunk | None = None
    reasoning_replay: ReasoningReplay = "all"

    async def ask(self, transcript: Transcript, tools: list[Any]) -> LLMResponse:
        """Return the model's answer to the transcript.

        Raises:
            StreamError: the stream of the client ended without a FINAL chunk.
        """
        messages = transcript.snapshot(self.reasoning_replay)
        if not self.stream:
            return await self.client.send(messages, tools=tools)
        final = None
        async with aclosing(self.client.send_stream(messages, tools=tools)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk.type is ChunkType.FINAL:
                    final = chunk.response
                if self.on_chunk is not None:
                    result = self.on_chunk(chunk)
                    if isawaitable(result):
                        await result
        if final is None:
            raise StreamError("the client's stream ended without a FINAL chunk")
        return final


class ToolCallLoop:
    """One run of an agent."""

    def __init__(
        self,
        caller: ModelCaller,
        guardrails: Guardrails,
        context: ContextManager,
        transcript: Transcript,
        *,
        cancel_event: asyncio.Event | None = None,
    ) -> None:
        self._caller, self._guardrails, self._context, self._transcript = caller, guardrails, context, transcript
        self._specs = list(guardrails.rules.toolbox.specs)
        self._cancel_event = cancel_event
        self._iteration = 0

    async def run(self, max_iterations: int) -> AgentRun:
        """Iterate until the run ends, and return its result.

        Raises:
            AgentError: the run ended without a result; the error holds the transcript.
        """
        try:
            for self._iteration in range(max_iterations):
                if self._cancel_event is not None and self._cancel_event.is_set():
                    raise WorkflowCancelledError(self._iteration)
                run = await self._iterate()
                if run is not None:
                    return run
            raise MaxIterationsError(max_iterations, pending_steps=self._guardrails.pending_steps())
        except AgentError as error:
            error.messages = tuple(self._transcript)
            error.completed_steps = dict(self._guardrails.progress.completed)
            raise

    async def _iterate(self) -> AgentRun | None:
        self._compact()
        answer = await self._unless_cancelled(self._caller.ask(self._transcript, self._specs))
        if isinstance(answer, Response) and answer.usage.prompt_tokens:
            usage = answer.usage
            self._context.record_usage(
                self._transcript, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens
            )
        verdict = self._guardrails.judge(answer)
        for message in verdict.to_messages(self._iteration):
            self._transcript.add(message)
        if verdict.error is not None:
            raise verdict.error
        if verdict.answer is not None:
            return self._end(verdict.answer)
        if not verdict.calls:
            return None
        outcomes = await run_tools(self._guardrails.rules.toolbox, verdict.calls)
        self._add_results(outcomes)
        ending = self._guardrails.ending(outcomes)
        return None if ending is None else self._end(ending.value, ending.call.tool)

    def _compact(self) -> None:
        transcript = self._transcript
        compacted = self._context.maybe_compact(
            transcript, step_index=self._iteration, step_hint=self._guardrails.progress.hint
        )
        if compacted is not transcript:
            self._transcript = transcript.with_messages(compacted)
        meta = MessageMeta(MessageType.CONTEXT_WARNING, self._iteration)
        for notice in self._context.take_notices(self._transcript):
            self._transcript.add(Message(MessageRole.USER, notice, meta))

    def _add_results(self, outcomes: Sequence[ToolOutcome]) -> None:
        meta = MessageMeta(MessageType.TOOL_RESULT, self._iteration)
        for outcome in outcomes:
            call = outcome.call
            self._transcript.add(
                Message(MessageRole.TOOL, outcome.text, meta, tool_name=call.tool, tool_call_id=call.id)
            )
        error = self._guardrails.note(outcomes)
        if error is not None:
            raise error

    def _end(self, result: object, terminal_tool: str | None = None) -> AgentRun:
        guardrails = self._guardrails
        return AgentRun(
            result=result,
            terminal_tool=terminal_tool,
            messages=tuple(self._transcript),
            iterations=self._iteration + 1,
            completed_steps=dict(guardrails.progress.completed),
            total_tokens=guardrails.budget.spent_tokens,
            cost_usd=guardrails.budget.spent_usd,
        )

    async def _unless_cancelled(self, model_call: Coroutine[Any, Any, T]) -> T:
        """Await a model call, and abandon it as soon as the run is cancelled. Tools are never abandoned."""
        if self._cancel_event is None:
            return await model_call
        answer = asyncio.ensure_future(model_call)
        cancelled = asyncio.ensure_future(self._cancel_event.wait())
        try:
            await asyncio.wait((answer, cancelled), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise WorkflowCancelledError(self._iteration)
            return answer.result()
        finally:
            answer.cancel()
            cancelled.cancel()
            await asyncio.gather(answer, cancelled, return_exceptions=True)


class RunOptions(TypedDict, total=False):
    """The options of one run of an agent.

    Args:
        prompt_vars: the variables of the system prompt template.
        initial_messages: a conversation to continue, which ends with the user's message; the system prompt and the
            user's message are then not added.
        cancel_event: set it to end the run: at once during a model call, otherwise after the tools that are running.
    """

    prompt_vars: Mapping[str, Any] | None
    initial_messages: Iterable[Message] | None
    cancel_event: asyncio.Event | None


UNLIMITED_TOKENS = 10**9
"""The token budget of a run without a context manager: no conversation reaches it."""


class WorkflowRunner:
    """Runs agents: calls the model, checks its answers with the guards and runs the tools, until the run ends.

    Args:
        client: the model; wrap a provider or gateway in ProviderClient, or use a ScriptedClient.
        context_manager: keeps the conversation within a token budget; without one it grows without limit.
        max_iterations: the limit of model calls in one run.
        max_retries_per_step, max_tool_errors: override those of the policy.
        policy: how often the model may break each rule, and the budget of a run.
        stream: whether to stream the model's answers.
        on_chunk: called with every chunk of a stream; sync or async.
        on_message: called with every message that is added to a transcript.
        retry_nudge: the reply to an answer without a tool call: a string, or a function of the answer.
        reasoning_replay: the reasoning before tool calls that the model gets again: `all`, the `last` or `none`.

    Raises:
        InputError: an argument has the wrong type, or a number is out of range.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, given by name
        self,
        client: LLMClient,
        context_manager: ContextManager | None = None,
        *,
        max_iterations: int = 10,
        max_retries_per_step: int | None = None,
        max_tool_errors: int | None = None,
        policy: GuardPolicy = DEFAULT_POLICY,
        stream: bool = False,
        on_chunk: OnChunk | None = None,
        on_message: Callable[[Message], object] | None = None,
        retry_nudge: str | RetryNudge | None = None,
        reasoning_replay: ReasoningReplay = "all",
    ) -> None:
        _check_client(client, stream=stream)
        if context_manager is not None:
            hint = "context_manager=ContextManager(TieredCompact(), budget_tokens=…)"
            check_type(context_manager, ContextManager, source="context_manager", hint=hint)
        check_type(policy, GuardPolicy, source="policy", hint="policy=GuardPolicy(max_same_calls=2)")
        check_int(max_iterations, source="max_iterations")
        if not max_iterations >= 1:
            raise InputError(f"expected at least 1, got {max_iterations!r}", source="max_iterations")
        self.client = client
        self.context_manager = context_manager or ContextManager(NoCompact(), budget_tokens=UNLIMITED_TOKENS)
        self.max_iterations = max_iterations
        if max_retries_per_step is not None:
            policy = replace(policy, max_retries_per_step=max_retries_per_step)
        if max_tool_errors is not None:
            policy = replace(policy, max_tool_errors=max_tool_errors)
        self.policy = policy
        self.stream, self.on_chunk, self.on_message = stream, on_chunk, on_message
        self.reasoning_replay = _checked_replay(reasoning_replay)
        self._retry_nudge_fn = nudge_function(retry_nudge)

    async def run(self, workflow: Workflow, user_message: str, **options: Unpack[RunOptions]) -> Any:
        """Run an agent, and return the result of its terminal tool, or the text that ended the run.

        Raises:
            AgentError: the run ended without a result; the error holds the transcript.
            ProviderError: a model call failed.
            InputError: a variable of the system prompt is missing, an argument has the wrong type, or the policy has a
                budget in US dollars and no price is known for the model.
        """
        return (await self.run_in_full(workflow, user_message, **options)).result

    async def run_in_full(
        self,
        workflow: Workflow,
        user_message: str,
        *,
        prompt_vars: Mapping[str, Any] | None = None,
        initial_messages: Iterable[Message] | None = None,
        cancel_event: asyncio.Event | None = None,
    ) -> AgentRun:
        """Run an agent like `run`, and return the result with the transcript, the completed steps and the cost."""
        hint = "offbook.agent.Workflow(name, tools=…); WorkflowEngine(workflow, provider) runs a YAML workflow"
        if isinstance(user_message, Workflow):
            hint = "run(workflow, user_message), in this order"
        check_type(workflow, Workflow, source="workflow", hint=hint)
        check_type(user_message, str, source="user_message")
        if self.policy.budget_usd is not None and isinstance(self.client, ProviderClient):
            self.client.check_price()
        guardrails = Guardrails(workflow.rules, policy=self.policy, retry_nudge=self._retry_nudge_fn)
        transcript = Transcript(self.on_message or (lambda _: None), initial_messages or ())
        guardrails.reserve_ids(call.call_id for message in transcript for call in message.tool_calls)
        if initial_messages is None:
            for message in opening_messages(workflow.system_prompt(prompt_vars or {}), user_message):
                transcript.add(message)
        caller = ModelCaller(self.client, self.stream, self.on_chunk, self.reasoning_replay)
        loop = ToolCallLoop(caller, guardrails, self.context_manager, transcript, cancel_event=cancel_event)
        return await loop.run(self.max_iterations)

    def run_sync(self, workflow: Workflow, user_message: str, **options: Unpack[RunOptions]) -> Any:
        """Run an agent like `run` from code without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `run` there.
        """
        return run_sync(self.run(workflow, user_message, **options))


def _check_client(client: object, *, stream: bool) -> None:
    if isinstance(client, Provider):
        hint = "wrap it: ProviderClient(provider, model=…)"
    elif isinstance(client, Workflow):
        hint = "WorkflowRunner(client), then run(workflow, user_message)"
    else:
        hint = "pass a ProviderClient, a ScriptedClient([…]), or an object with the methods of LLMClient"
        needed = "send_stream" if stream else "send"
        if callable(getattr(client, needed, None)) and not isinstance(client, type):
            return
    raise InputError(f"expected a client, got {describe_type(client)}", source="client", hint=hint)


def _checked_replay(reasoning_replay: ReasoningReplay) -> ReasoningReplay:
    known = get_args(ReasoningReplay)
    if reasoning_replay not in known:
        hint = did_you_mean(str(reasoning_replay), known, kind="one of")
        raise InputError(f"unknown value {reasoning_replay!r}", source="reasoning_replay", hint=hint)
    return reasoning_replay
