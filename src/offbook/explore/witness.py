"""The witness: sees every call of models in a run, passes it on, and writes it down."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.status import retry_after_s
from offbook.errors import ProviderError, RecordingMismatchError
from offbook.explore.forgetting import forgotten
from offbook.explore.models import ExploredModels
from offbook.explore.run import CallOutcome, ChunkKind, ModelCall
from offbook.faults.site import Site
from offbook.messages import (
    ReasoningDelta,
    Reply,
    Request,
    Response,
    StreamDelta,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    TextDelta,
    WholeReply,
)
from offbook.providers.provider import Provider
from offbook.recording.fingerprint import fingerprint

_INSTANT_S = 1e-6


class EndlessRunError(BaseException):
    """A run that goes on and on. No agent may catch it, so it is no Exception."""


class _Failure(Struct, frozen=True):
    """A try that failed, and when the next one may come."""

    site: Site
    due_s: float


class _Try(Struct, frozen=True):
    """A try under way."""

    request: Request
    site: Site
    is_too_soon: bool


class Witness(Provider):
    """Stands before the faults and the recording of one run. `calls` are the tries of calls, in the order they ended.

    Raises:
        EndlessRunError: from `send`, when the run has made more calls than `max_calls`.
    """

    name = "explore"

    def __init__(self, provider: Provider, models: ExploredModels, *, max_calls: int) -> None:
        self.calls: list[ModelCall] = []
        self._provider, self._models, self._max_calls = provider, models, max_calls
        self._begun = 0
        self._counts = Counter[tuple[str, str | None]]()
        self._failed: dict[tuple[str | None, str], list[_Failure]] = {}
        self._last_failed: dict[str | None, Request] = {}

    async def send(self, request: Request) -> Reply:
        self._begun += 1
        if self._begun > self._max_calls:
            raise EndlessRunError(f"it made more than {self._max_calls} calls of models")
        tried = self._try(request)
        try:
            reply = await self._provider.send(tried.request)
            if request.stream:
                return StreamedReply(self._watched(reply, tried), source=reply)
            response = reply.response if isinstance(reply, WholeReply) else await reply.collect()
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(tried, error)
            raise
        self._note(tried, response=response)
        return WholeReply(response)

    def _try(self, request: Request) -> _Try:
        """The request with its place: one that repeats a request which has just failed is a further try of that call.

        So it is whoever makes it: a gateway, or an agent whose gateway has given up. Another model is another call.
        """
        failure = self._failure(_identity(request)) if self._failed else None
        if failure is None:
            site = self._next_site(request)
            return _Try(replace(request, call=site.call, attempt=1), site, is_too_soon=False)
        site = replace(failure.site, attempt=failure.site.attempt + 1)
        is_too_soon = _now_s() < failure.due_s - _INSTANT_S
        return _Try(replace(request, call=site.call, attempt=site.attempt), site, is_too_soon)

    def _failure(self, identity: tuple[str | None, str]) -> _Failure | None:
        """The failure that a request with this identity makes good, if one does: the first."""
        failures = self._failed.pop(identity, [])
        if len(failures) > 1:
            self._failed[identity] = failures[1:]
        return failures[0] if failures else None

    def _next_site(self, request: Request) -> Site:
        step = (request.workflow, request.step_id)
        self._counts[step] += 1
        return Site(*step, self._counts[step], self._counts.total(), 1)

    async def _watched(self, reply: Reply, tried: _Try) -> AsyncIterator[StreamEvent]:
        chunks: list[ChunkKind] = []
        has_ended = False
        try:
            async for event in reply:
                if isinstance(event, StreamEnd):
                    has_ended = True
                    self._note(tried, response=event.response, chunks=chunks)
                elif not isinstance(event, StreamRestart):
                    chunks.append(kind_of(event))
                yield event
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(tried, error, chunks=chunks)
            raise
        except GeneratorExit:
            if not has_ended:  # the agent has read as much as it wanted
                self._note(tried, chunks=chunks)
            raise

    def _note_failure(self, tried: _Try, error: BaseException, *, chunks: list[ChunkKind] | None = None) -> None:
        request = tried.request
        self._models.give_back(request)
        told = f"{type(error).__name__}: {error}"
        if isinstance(error, RecordingMismatchError):
            last = self._last_failed.get(request.step_id)
            forgot = 0 if last is None else forgotten(last.messages, request.messages)
            self._note(tried, outcome="diverged", error=told, forgot=forgot)
            return
        failure = _Failure(tried.site, _now_s() + _asked_wait_s(error))
        self._failed.setdefault(_identity(request), []).append(failure)
        self._last_failed[request.step_id] = request
        self._note(tried, outcome="failed", error=told, chunks=chunks)

    def _note(
        self,
        tried: _Try,
        *,
        response: Response | None = None,
        outcome: CallOutcome = "answered",
        error: str = "",
        chunks: list[ChunkKind] | None = None,
        forgot: int = 0,
    ) -> None:
        request, site = tried.request, tried.site
        self.calls.append(
            ModelCall(
                number=site.overall,
                step_id=site.step_id,
                step_call=site.call,
                attempt=site.attempt,
                model=request.model,
                has_tools=bool(request.tools),
                is_streamed=request.stream,
                chunks=tuple(chunks or ()),
                asks_for=() if response is None else tuple((call.tool, call.args) for call in response.tool_calls),
                outcome=outcome,
                error=error,
                is_too_soon=tried.is_too_soon,
                forgot=forgot,
            )
        )


def kind_of(delta: StreamDelta) -> ChunkKind:
    """What a piece of a stream brings."""
    if isinstance(delta, TextDelta):
        return "text"
    return "reasoning" if isinstance(delta, ReasoningDelta) else "tool_call"


def _identity(request: Request) -> tuple[str | None, str]:
    return request.step_id, fingerprint(request)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _asked_wait_s(error: BaseException) -> float:
    """How long the API asks to wait before the next try."""
    headers = error.headers if isinstance(error, ProviderError) else {}
    return retry_after_s(headers, now=SYSTEM_CLOCK.utc_now()) or 0.0 if headers else 0.0
