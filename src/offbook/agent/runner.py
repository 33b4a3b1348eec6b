"""Runs an agent: asks the model, checks its turn, runs the tools, until the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.clients import ChunkType, LLMClient, LLMResponse, StreamChunk
from offbook.agent.context import ContextManager, NoCompact
from offbook.agent.guards.guardrails import DEFAULT_POLICY, Guardrails, nudge_function
from offbook.agent.guards.policy import GuardPolicy
from offbook.agent.guards.turn_guards import RetryNudge
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType, Transcript
from offbook.agent.turn import TurnVerdict
from offbook.agent.workflow import Workflow
from offbook.errors import AgentError, InputError, MaxIterationsError, StreamError, WorkflowCancelledError
from offbook.messages import Response
from offbook.providers.provider import Provider, run_sync
from offbook.schema_errors import check_int, check_type, describe_type
from offbook.tools import ToolOutcome, run_tools

T = TypeVar("T")
OnChunk = Callable[[StreamChunk], Awaitable[object] | object]


class AgentRun(Struct, frozen=True):
    """A run that came to its end.

    `result` is what the terminal tool returned, or the text that ended the run; `terminal_tool` is
    None for text. `iterations` counts model calls, `completed_steps` how often each tool succeeded.
    """

    result: Any
    terminal_tool: str | None
    messages: tuple[Message, ...]
    iterations: int
    completed_steps: dict[str, int]
    total_tokens: int = 0
    cost_usd: float = 0.0


class ModelCaller(Struct, frozen=True):
    """How a run talks to its model, and who listens in."""

    client: LLMClient
    stream: bool = False
    on_chunk: OnChunk | None = None

    async def ask(self, transcript: Transcript, tools: list[Any]) -> LLMResponse:
        """The model's answer to the transcript.

        Raises:
            StreamError: the client streamed, and ended without a FINAL chunk.
        """
        if not self.stream:
            return await self.client.send(transcript.snapshot(), tools=tools)
        final = None
        async with aclosing(self.client.send_stream(transcript.snapshot(), tools=tools)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk.type is ChunkType.FINAL:
                    final = chunk.response
                await self._tell(chunk)
        if final is None:
            raise StreamError("the client's stream ended without a FINAL chunk")
        return final

    async def _tell(self, chunk: StreamChunk) -> None:
        if self.on_chunk is not None:
            told = self.on_chunk(chunk)
            if isawaitable(told):
                await told


class ToolCallLoop:
    """A run under way."""

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
        """Go on until the run is over.

        Raises:
            AgentError: the run ended without a result; the error holds the transcript.
        """
        try:
            for self._iteration in range(max_iterations):
                self._stop_if_cancelled()
                ended = await self._iterate()
                if ended is not None:
                    return ended
            raise MaxIterationsError(max_iterations, pending_steps=self._guardrails.pending_steps())
        except AgentError as error:
            error.messages = tuple(self._transcript)
            error.completed_steps = dict(self._guardrails.progress.completed)
            raise

    async def _iterate(self) -> AgentRun | None:
        self._compact()
        answer = await self._unless_cancelled(self._caller.ask(self._transcript, self._specs))
        self._count(answer)
        verdict = self._guardrails.judge(answer)
        self._say(verdict)
        if verdict.answer is not None:
            return self._ended(verdict.answer)
        if not verdict.calls:
            return None
        outcomes = await run_tools(self._guardrails.rules.toolbox, verdict.calls)
        self._hear(outcomes)
        ending = self._guardrails.ending(outcomes)
        return None if ending is None else self._ended(ending.value, ending.call.tool)

    def _compact(self) -> None:
        transcript = self._transcript
        kept = self._context.maybe_compact(
            transcript, step_index=self._iteration, step_hint=self._guardrails.progress.hint
        )
        if kept is not transcript:
            self._transcript = transcript.cut_to(kept)

    def _count(self, answer: LLMResponse) -> None:
        if isinstance(answer, Response) and answer.usage.prompt_tokens:
            usage = answer.usage
            self._context.record_usage(
                self._transcript, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens
            )

    def _say(self, verdict: TurnVerdict) -> None:
        for message in verdict.said(self._iteration):
            self._transcript.add(message)
        if verdict.error is not None:
            raise verdict.error

    def _hear(self, outcomes: Sequence[ToolOutcome]) -> None:
        meta = MessageMeta(MessageType.TOOL_RESULT, self._iteration)
        for outcome in outcomes:
            call = outcome.call
            self._transcript.add(
                Message(MessageRole.TOOL, outcome.text, meta, tool_name=call.tool, tool_call_id=call.id)
            )
        error = self._guardrails.note(outcomes)
        if error is not None:
            raise error

    def _ended(self, result: object, terminal_tool: str | None = None) -> AgentRun:
        guardrails = self._guardrails
        return AgentRun(
            result,
            terminal_tool,
            tuple(self._transcript),
            self._iteration + 1,
            dict(guardrails.progress.completed),
            guardrails.budget.spent_tokens,
            guardrails.budget.spent_usd,
        )

    def _stop_if_cancelled(self) -> None:
        if self._cancel_event is not None and self._cancel_event.is_set():
            raise WorkflowCancelledError(self._iteration)

    async def _unless_cancelled(self, asking: Coroutine[Any, Any, T]) -> T:
        """What is asked for, given up as soon as the run is cancelled. Tools are never cut off like that."""
        if self._cancel_event is None:
            return await asking
        answer = asyncio.ensure_future(asking)
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


UNLIMITED_TOKENS = 10**9
"""Tokens that no conversation reaches: the budget where nobody manages the context."""


class WorkflowRunner:
    """Runs agents: asks the model, lets the guards judge its answers, runs tools, until the run is over.

    Args:
        client: the model; ProviderClient puts any provider or gateway here, ScriptedClient a script.
        context_manager: keeps the conversation small enough; without one it just grows.
        max_iterations: how often the model may be asked in one run.
        max_retries_per_step, max_tool_errors: in place of those of the policy.
        policy: how patient the guards are, and what a run may use.
        stream: whether the model is asked to stream.
        on_chunk: told of every chunk of a stream; sync or async.
        on_message: told of every message as it is added to a transcript.
        retry_nudge: what to say to an answer without a tool call: a text, or a function of the answer.

    Raises:
        InputError: an argument is of the wrong type, or a number out of its range.
    """

    def __init__(
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
    ) -> None:
        _check_client(client, stream=stream)
        if context_manager is not None:
            hint = "context_manager=ContextManager(TieredCompact(), budget_tokens=…)"
            check_type(context_manager, ContextManager, source="context_manager", hint=hint)
        check_type(policy, GuardPolicy, source="policy", hint="policy=GuardPolicy(max_same_calls=2)")
        check_int(max_iterations, source="max_iterations")
        if not max_iterations >= 1:
            raise InputError(f"expected one or more, got {max_iterations!r}", source="max_iterations")
        self.client = client
        self.context_manager = context_manager or ContextManager(NoCompact(), budget_tokens=UNLIMITED_TOKENS)
        self.max_iterations = max_iterations
        self.policy = _with_limits(policy, max_retries_per_step, max_tool_errors)
        self.stream, self.on_chunk, self.on_message = stream, on_chunk, on_message
        self._retry_nudge_fn = nudge_function(retry_nudge)

    async def run(
        self,
        workflow: Workflow,
        user_message: str,
        *,
        prompt_vars: Mapping[str, Any] | None = None,
        initial_messages: Iterable[Message] | None = None,
        cancel_event: asyncio.Event | None = None,
    ) -> Any:
        """Run an agent, and give back what its terminal tool returned, or the text that ended the run.

        Args:
            prompt_vars: what the system prompt's template asks for.
            initial_messages: a conversation to go on with, which ends with the user's message; the
                system prompt and `user_message` are then not added.
            cancel_event: ends the run when it is set: at once while the model is being asked, after
                the tools that are running otherwise.

        Raises:
            AgentError: the run ended without a result; the error holds the transcript.
            ProviderError: the model could not be asked.
            InputError: a variable of the system prompt is missing, or an argument of the wrong type.
        """
        ended = await self.run_in_full(
            workflow,
            user_message,
            prompt_vars=prompt_vars,
            initial_messages=initial_messages,
            cancel_event=cancel_event,
        )
        return ended.result

    async def run_in_full(
        self,
        workflow: Workflow,
        user_message: str,
        *,
        prompt_vars: Mapping[str, Any] | None = None,
        initial_messages: Iterable[Message] | None = None,
        cancel_event: asyncio.Event | None = None,
    ) -> AgentRun:
        """`run`, giving back the transcript, the steps done and what it cost beside the result."""
        _check_run_arguments(workflow, user_message)
        guardrails = Guardrails(workflow.rules, policy=self.policy, retry_nudge=self._retry_nudge_fn)
        transcript = Transcript(self.on_message or _ignore, initial_messages or ())
        guardrails.reserve_ids(call.call_id for message in transcript for call in message.tool_calls)
        if initial_messages is None:
            for message in _first_messages(workflow, user_message, prompt_vars or {}):
                transcript.add(message)
        caller = ModelCaller(self.client, self.stream, self.on_chunk)
        run = ToolCallLoop(caller, guardrails, self.context_manager, transcript, cancel_event=cancel_event)
        return await run.run(self.max_iterations)

    def run_sync(self, workflow: Workflow, user_message: str, **options: Any) -> Any:
        """`run` for scripts without an event loop; takes the same options.

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
        hint = "a ProviderClient, a ScriptedClient([…]), or anything that has the methods of LLMClient"
        needed = "send_stream" if stream else "send"
        if callable(getattr(client, needed, None)) and not isinstance(client, type):
            return
    raise InputError(f"expected a client, got {describe_type(client)}", source="client", hint=hint)


def _check_run_arguments(workflow: object, user_message: object) -> None:
    hint = "offbook.agent.Workflow(name, tools=…); a workflow from YAML is run by WorkflowEngine(workflow, provider)"
    if isinstance(user_message, Workflow):
        hint = "run(workflow, user_message), in this order"
    check_type(workflow, Workflow, source="workflow", hint=hint)
    check_type(user_message, str, source="user_message")


def _ignore(message: Message) -> None:
    """Listen to nothing."""


def _first_messages(workflow: Workflow, user_message: str, prompt_vars: Mapping[str, Any]) -> list[Message]:
    prompt = workflow.system_prompt(prompt_vars)
    opening = [Message(MessageRole.USER, user_message, MessageMeta(MessageType.USER_INPUT))]
    if prompt:
        opening.insert(0, Message(MessageRole.SYSTEM, prompt, MessageMeta(MessageType.SYSTEM_PROMPT)))
    return opening


def _with_limits(policy: GuardPolicy, max_retries: int | None, max_tool_errors: int | None) -> GuardPolicy:
    if max_retries is not None:
        policy = replace(policy, max_retries_per_step=max_retries)
    if max_tool_errors is not None:
        policy = replace(policy, max_tool_errors=max_tool_errors)
    return policy
