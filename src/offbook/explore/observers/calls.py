"""Observers of an in-process run: every model call, every tool call, and what a gateway does to recover."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import retry_after_s
from offbook.errors import ProviderError, RecordingMismatchError
from offbook.events import BreakerChanged, Event, FallbackTaken, RetryScheduled
from offbook.explore.replay import ExploredModels
from offbook.explore.run import CallOutcome, ChunkKind, ChunkKinds, Follows, ModelCall, ToolRun, error_text
from offbook.faults.site import Site
from offbook.messages import (
    JsonObject,
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    WholeReply,
    result_text,
)
from offbook.providers.provider import Provider
from offbook.recording.format.exchange import json_arguments
from offbook.recording.match.fingerprint import fingerprint
from offbook.session.numbers import CallNumbers
from offbook.tools import ToolDef, ToolSpec
from offbook.tools.definition import is_async, wrap_tool
from offbook.tools.effects import Effect, EffectOutcome, count_collected


def lost_messages(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> int:
    """Return how many messages of the request `before` the request `now` lacks; 0 if it has any new one."""
    if len(now) >= len(before) or any(message not in before for message in now):
        return 0
    return len(before) - len(now)


def how_it_follows(before: Sequence[JsonObject] | None, now: Sequence[JsonObject]) -> Follows:
    """Return how the request `now` follows `before`, the one of the call before it, if there is one.

    It continues a conversation if it has a message of a model or a tool that `before` does not have.
    """
    if before is None or list(before) == list(now):
        return "" if before is None else "repeats"
    turns = [message for message in now if message.get("role") in ("assistant", "tool")]
    return "continues" if turns and before.count(turns[-1]) < turns.count(turns[-1]) else ""


class ObservedCall(Struct, frozen=True, kw_only=True):
    """An attempt of a model call as it was observed, by whatever it was made.

    It began at `started_s` and was over at `ended_s`; the next one may come at `due_s`, by what the answer has asked
    for. If its client `has_left` before the answer, nobody can obey that. `is_unrecorded` if the recording had no
    answer. `has_state` if the API has the conversation, and the request only what is new in it. In virtual time, all
    pauses are known (`knows_pauses`). The other fields are those of a ModelCall.
    """

    site: Site
    messages: Sequence[JsonObject]
    started_s: float
    ended_s: float
    due_s: float
    outcome: CallOutcome
    error: str = ""
    model: str = ""
    has_tools: bool = False
    is_streamed: bool = False
    chunks: tuple[ChunkKind, ...] = ()
    asks_for: tuple[tuple[str, JsonObject], ...] = ()
    told: bool = False
    effects_before: int | None = None
    is_unrecorded: bool = False
    has_left: bool = False
    has_state: bool = False
    knows_pauses: bool = True
    is_over_http: bool = False


def model_calls(observed: Sequence[ObservedCall]) -> tuple[ModelCall, ...]:
    """Return the model calls of a run, each with how it relates to those before it."""
    return tuple(_model_call(call, observed, observed[:place]) for place, call in enumerate(observed))


def _model_call(call: ObservedCall, observed: Sequence[ObservedCall], before: Sequence[ObservedCall]) -> ModelCall:
    site = call.site
    tries = [each for each in before if each.site.overall == site.overall]
    answered = [each for each in tries if not each.has_left]
    return ModelCall(
        number=site.overall,
        step_id=site.step_id,
        step_call=site.call,
        attempt=site.attempt,
        model=call.model,
        has_tools=call.has_tools,
        is_streamed=call.is_streamed,
        chunks=call.chunks,
        asks_for=call.asks_for,
        outcome=call.outcome,
        error=call.error,
        # A server that was busy may also read the request of a client that has left after the next one.
        is_too_soon=bool(answered) and not call.has_left and call.started_s < answered[-1].due_s,
        forgot=_forgot(call, before),
        told=call.told,
        waited_s=round(call.started_s - tries[-1].ended_s, 6) if tries and call.knows_pauses else None,
        effects_before=call.effects_before,
        follows=_follows(call, observed),
        is_over_http=call.is_over_http,
    )


def _forgot(call: ObservedCall, before: Sequence[ObservedCall]) -> int:
    """Return how many messages of a call that failed are missing in the next one of its step, if that is unrecorded."""
    last = next((each for each in reversed(before) if _step(each) == _step(call)), None)
    if last is None or not call.is_unrecorded or last.outcome != "failed":
        return 0
    return lost_messages(last.messages, call.messages)


def _follows(call: ObservedCall, observed: Sequence[ObservedCall]) -> Follows:
    """Return how a call follows the one of its step before it."""
    earlier = [each for each in observed if _step(each) == _step(call) and each.site.overall < call.site.overall]
    if not earlier:
        return ""
    last = max(earlier, key=lambda each: (each.site.overall, each.site.attempt))
    return "continues" if call.has_state else how_it_follows(last.messages, call.messages)


def _step(call: ObservedCall) -> tuple[str, str | None]:
    return call.site.workflow, call.site.step_id


_TOLERANCE_S = 1e-6


class EndlessRunError(BaseException):
    """A run makes too many calls. It is not an Exception, so that no agent catches it."""


def raise_endless(reason: str) -> NoReturn:
    """Raise an EndlessRunError."""
    raise EndlessRunError(reason)


class _Attempt(Struct, frozen=True):
    """An attempt in progress."""

    request: Request
    site: Site
    started_s: float
    told: bool


class ModelObserver(Provider):
    """Observes the model calls of one run: a provider around its faults and its recording.

    `observed` are the attempts in the order in which they ended.

    Raises:
        EndlessRunError: from `send`, when the run has made more calls than `max_calls`.
    """

    name = "explore"

    def __init__(self, provider: Provider, models: ExploredModels, *, numbers: CallNumbers, max_calls: int) -> None:
        self.observed: list[ObservedCall] = []
        self.on_endless: Callable[[str], object] = raise_endless
        self.count_effects: Callable[[], int] = count_collected
        self._provider, self._models, self._max_calls = provider, models, max_calls
        self._sent = 0
        self._call_numbers, self._has_failed = numbers, False

    async def send(self, request: Request) -> Reply:
        self._sent += 1
        if self._sent > self._max_calls:
            self.on_endless(f"it made more than {self._max_calls} model calls")
        attempt = self._start(request)
        try:
            reply = await self._provider.send(attempt.request)
            if request.stream:
                return StreamedReply(self._observe_stream(reply, attempt), source=reply)
            response = reply.response if isinstance(reply, WholeReply) else await reply.collect()
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(attempt, error)
            raise
        self._note(attempt, response=response)
        return WholeReply(response)

    def _start(self, request: Request) -> _Attempt:
        """Assign the request its site. One that repeats a request which has failed is a further attempt of that call.

        So it is whoever makes it: a gateway, or an agent whose gateway has given up. Another model is another call.
        """
        step = (request.workflow, request.step_id)
        # Hashing takes long, and before the first failure there is nothing that a request could repeat.
        identity = fingerprint(request) if self._has_failed else ""
        site = self._call_numbers.start(step, identity)
        numbered = replace(request, call=site.call, attempt=site.attempt)
        return _Attempt(numbered, site, _now_s(), self._models.source.tells_failure(request))

    async def _observe_stream(self, reply: Reply, attempt: _Attempt) -> AsyncIterator[StreamEvent]:
        chunks: list[ChunkKind] = []
        kinds, has_ended = ChunkKinds(), False
        try:
            async for event in reply:
                if isinstance(event, StreamEnd):
                    has_ended = True
                    self._note(attempt, response=event.response, chunks=chunks)
                elif not isinstance(event, StreamRestart):
                    chunks.append(kinds.next(event))
                yield event
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(attempt, error, chunks=chunks)
            raise
        except GeneratorExit:
            if not has_ended:  # the agent has stopped reading
                self._note(attempt, chunks=chunks)
            raise

    def _note_failure(self, attempt: _Attempt, error: BaseException, *, chunks: list[ChunkKind] | None = None) -> None:
        request = attempt.request
        self._models.take_back(request)
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, RecordingMismatchError):
            self._note(attempt, outcome="diverged", error=message)
            return
        self._call_numbers.finish(attempt.site, fingerprint(request), failed=True)
        self._has_failed = True
        wait_s = _requested_wait_s(error)
        self._note(attempt, outcome="failed", error=message, chunks=chunks, wait_s=wait_s)

    def _note(
        self,
        attempt: _Attempt,
        *,
        response: Response | None = None,
        outcome: CallOutcome = "answered",
        error: str = "",
        chunks: list[ChunkKind] | None = None,
        wait_s: float = 0.0,
    ) -> None:
        request, now_s = attempt.request, _now_s()
        self.observed.append(
            ObservedCall(
                site=attempt.site,
                messages=request.messages,
                started_s=attempt.started_s,
                ended_s=now_s,
                due_s=now_s + wait_s - _TOLERANCE_S,
                outcome=outcome,
                error=error,
                model=request.model,
                has_tools=bool(request.tools),
                is_streamed=request.stream,
                chunks=tuple(chunks or ()),
                asks_for=() if response is None else tuple((call.tool, call.args) for call in response.tool_calls),
                told=attempt.told,
                effects_before=self.count_effects(),
                is_unrecorded=self._models.is_unrecorded(request),
            )
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _requested_wait_s(error: BaseException) -> float:
    """Return how long the API asks to wait before the next attempt."""
    headers = error.headers if isinstance(error, ProviderError) else {}
    return retry_after_s(headers, now=SYSTEM_CLOCK.utc_now()) or 0.0 if headers else 0.0


class _ToolCall:
    """A tool call in progress."""

    def __init__(self, tool: ToolDef, number: int, arguments: JsonObject) -> None:
        self.tool, self.number, self.arguments = tool, number, arguments
        self.has_run = False
        self.has_returned = False
        self.result = ""
        self.error: str | None = None

    def to_run(self) -> ToolRun:
        return ToolRun(
            tool=self.tool.name,
            call=self.number,
            arguments=self.arguments,
            result=self.result,
            error=self.error,
            has_run=self.has_run,
            side_effect=self.tool.side_effect,
        )

    def to_effect(self) -> Effect:
        outcome: EffectOutcome = "done" if self.has_returned else "failed"
        return Effect(tool=self.tool.name, arguments=self.arguments, outcome=outcome)


_current_call: ContextVar[_ToolCall | None] = ContextVar("_current_call", default=None)


class ToolObserver:
    """Observes the tool calls of one run: `outside` sees what the agent calls, `inside` which tools really run.

    Raises:
        EndlessRunError: from a tool, when the run has made more calls than `max_calls`; or by `on_endless`.
    """

    def __init__(self, *, max_calls: int) -> None:
        self.on_endless: Callable[[str], object] = raise_endless
        self._max_calls = max_calls
        self._counts = Counter[str]()
        self._calls: list[_ToolCall] = []
        self._ran: list[_ToolCall] = []

    @property
    def runs(self) -> tuple[ToolRun, ...]:
        """The calls so far, in the order in which they started."""
        return tuple(call.to_run() for call in self._calls)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The side effects so far: calls of tools that have one and that ran, in the order in which they started."""
        return tuple(call.to_effect() for call in self._calls if call.has_run and call.tool.declaration.has_effect)

    @property
    def effect_count(self) -> int:
        """How many side effects there are so far."""
        return len(self._ran)

    def outside(self, tool: ToolDef) -> ToolDef:
        """Wrap the tool as the agent gets it, around faults."""

        def call(**arguments: Any) -> Any:
            return self._call(self._start_call(tool, arguments), tool, arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            value = self._call(self._start_call(tool, arguments), tool, arguments)
            return await value if isinstance(value, Awaitable) else value

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=tool.timeout_s)

    def inside(self, tool: ToolDef) -> ToolDef:
        """Wrap the tool itself, inside faults."""

        def call(**arguments: Any) -> Any:
            started = self._mark_run()
            value = tool.callable(**arguments)
            if isinstance(value, Awaitable):
                return _returned(started, value)
            started.has_returned = True
            return value

        async def call_and_wait(**arguments: Any) -> Any:
            return await _returned(self._mark_run(), tool.callable(**arguments))

        return wrap_tool(tool, call_and_wait if is_async(tool.callable) else call, timeout_s=None)

    def _mark_run(self) -> _ToolCall:
        """Note that the tool of the current call runs, and return the call."""
        call = _current_call.get() or _ToolCall(_UNKNOWN_TOOL, 0, {})
        if call.tool.declaration.has_effect and not call.has_run:
            self._ran.append(call)
        call.has_run = True
        return call

    def _start_call(self, tool: ToolDef, arguments: JsonObject) -> _ToolCall:
        if len(self._calls) >= self._max_calls:
            self.on_endless(f"it made more than {self._max_calls} tool calls")
        self._counts[tool.name] += 1
        call = _ToolCall(tool, self._counts[tool.name], json_arguments(arguments))
        self._calls.append(call)
        return call

    def _call(self, call: _ToolCall, tool: ToolDef, arguments: JsonObject) -> Any:
        token = _current_call.set(call)
        try:
            value = tool.callable(**arguments)
            if isinstance(value, Awaitable):
                return self._wait(call, value)
            call.result = result_text(value)
        except Exception as error:
            call.error = f"{type(error).__name__}: {error_text(error)}"
            raise
        else:
            return value
        finally:
            _current_call.reset(token)

    async def _wait(self, call: _ToolCall, value: Awaitable[Any]) -> Any:
        token = _current_call.set(call)
        try:
            result = await value
        except (Exception, asyncio.CancelledError) as error:
            call.error = f"{type(error).__name__}: {error_text(error)}"
            raise
        finally:
            _current_call.reset(token)
        call.result = result_text(result)
        return result


_UNKNOWN_TOOL = ToolDef(ToolSpec("unknown"), lambda: None)
"""The tool of a call whose context was lost, as in a thread that its agent started."""


async def _returned(call: _ToolCall, value: Awaitable[Any]) -> Any:
    """Await the value of a tool, and note that it has returned."""
    result = await value
    call.has_returned = True
    return result


class RecoveryCounter:
    """A sink that counts retries, fallbacks and state changes of breakers."""

    def __init__(self) -> None:
        self.paths = Counter[str]()

    def emit(self, event: Event) -> None:
        match event:
            case RetryScheduled():
                self.paths["retry"] += 1
            case FallbackTaken():
                self.paths["fallback"] += 1
            case BreakerChanged(state=state):
                self.paths[f"breaker {state}"] += 1
