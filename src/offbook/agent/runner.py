"""The runner: what runs an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from offbook.agent.client import LLMClient
from offbook.agent.context import ContextManager, NoCompact
from offbook.agent.guards.guardrails import DEFAULT_POLICY, Guardrails, nudge_function
from offbook.agent.guards.policy import GuardPolicy
from offbook.agent.guards.validation import RetryNudge
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from offbook.agent.run import AgentRun, OnChunk, Run, Voice
from offbook.agent.transcript import Transcript
from offbook.agent.workflow import Workflow
from offbook.argument import check_argument, check_whole_number, described
from offbook.errors import InputError
from offbook.providers.provider import Provider
from offbook.providers.sync_edge import run_sync

ENDLESS_CONTEXT = 10**9
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
            check_argument(context_manager, ContextManager, source="context_manager", hint=hint)
        check_argument(policy, GuardPolicy, source="policy", hint="policy=GuardPolicy(max_same_calls=2)")
        check_whole_number(max_iterations, source="max_iterations")
        if not max_iterations >= 1:
            raise InputError(f"expected one or more, got {max_iterations!r}", source="max_iterations")
        self.client = client
        self.context_manager = context_manager or ContextManager(NoCompact(), budget_tokens=ENDLESS_CONTEXT)
        self.max_iterations = max_iterations
        self.policy = _with_counts(policy, max_retries_per_step, max_tool_errors)
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
        _check_asked(workflow, user_message)
        guardrails = Guardrails(workflow.rules, policy=self.policy, retry_nudge=self._retry_nudge_fn)
        transcript = Transcript(self.on_message or _ignore, initial_messages or ())
        guardrails.reserve_ids(call.call_id for message in transcript for call in message.tool_calls)
        if initial_messages is None:
            for message in _opening(workflow, user_message, prompt_vars or {}):
                transcript.add(message)
        voice = Voice(self.client, self.stream, self.on_chunk)
        run = Run(voice, guardrails, self.context_manager, transcript, cancel_event=cancel_event)
        return await run.to_its_end(self.max_iterations)

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
    raise InputError(f"expected a client, got {described(client)}", source="client", hint=hint)


def _check_asked(workflow: object, user_message: object) -> None:
    hint = "offbook.agent.Workflow(name, tools=…); a workflow from YAML is run by WorkflowEngine(workflow, provider)"
    if isinstance(user_message, Workflow):
        hint = "run(workflow, user_message), in this order"
    check_argument(workflow, Workflow, source="workflow", hint=hint)
    check_argument(user_message, str, source="user_message")


def _ignore(message: Message) -> None:
    """Listen to nothing."""


def _opening(workflow: Workflow, user_message: str, prompt_vars: Mapping[str, Any]) -> list[Message]:
    prompt = workflow.system_prompt(prompt_vars)
    opening = [Message(MessageRole.USER, user_message, MessageMeta(MessageType.USER_INPUT))]
    if prompt:
        opening.insert(0, Message(MessageRole.SYSTEM, prompt, MessageMeta(MessageType.SYSTEM_PROMPT)))
    return opening


def _with_counts(policy: GuardPolicy, max_retries: int | None, max_tool_errors: int | None) -> GuardPolicy:
    if max_retries is not None:
        policy = replace(policy, max_retries_per_step=max_retries)
    if max_tool_errors is not None:
        policy = replace(policy, max_tool_errors=max_tool_errors)
    return policy
