"""One run of an agent: ask the model, let the guards judge, run the tools, until something ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, TypeVar

from msgspec import Struct

from offbook.agent.client import ChunkType, LLMClient, LLMResponse, StreamChunk
from offbook.agent.context import ContextManager
from offbook.agent.guards.guardrails import Guardrails
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from offbook.agent.transcript import Transcript
from offbook.agent.turn import Verdict
from offbook.errors import AgentError, MaxIterationsError, StreamError, WorkflowCancelledError
from offbook.messages import Response
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


class Voice(Struct, frozen=True):
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


class Run:
    """A run under way."""

    def __init__(
        self,
        voice: Voice,
        guardrails: Guardrails,
        context: ContextManager,
        transcript: Transcript,
        *,
        cancel_event: asyncio.Event | None = None,
    ) -> None:
        self._voice, self._guardrails, self._context, self._transcript = voice, guardrails, context, transcript
        self._specs = list(guardrails.rules.toolbox.specs)
        self._cancel_event = cancel_event
        self._iteration = 0

    async def to_its_end(self, max_iterations: int) -> AgentRun:
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
        answer = await self._unless_cancelled(self._voice.ask(self._transcript, self._specs))
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

    def _say(self, verdict: Verdict) -> None:
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
