"""Records model calls: the provider that forwards them to another."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from math import isfinite
from types import TracebackType

from msgspec import Raw, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError, ProviderConnectionError, RequestError
from offbook.events import NULL_SINK, CallContent, CallRecorded, Sink, capture_content, guard_sink
from offbook.faults import AnyFault, Timeout, fault_of, stream_fault_of
from offbook.messages import (
    Accumulator,
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    WholeReply,
)
from offbook.providers.foreign_error import provider_error_of
from offbook.providers.provider import Provider
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import (
    Exchange,
    TimedPiece,
    piece_from_delta,
    recorded_calls,
)
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, check_rules, identify
from offbook.recording.redact.redactor import Redactor
from offbook.schema_errors import check_type
from offbook.session.provider import MockProvider
from offbook.session.recorder import ExchangeWriter, Recorder, RecordMode
from offbook.session.sources import CachedModels
from offbook.session.tape import Tape


class _PendingCall(Struct, frozen=True):
    """A call that has started: its request and canonical fields, and the time of the start."""

    request: Request
    request_hash: str
    fields: bytes
    started_s: float
    turn: CallTurn = OWN_TURN


class _TurnSource:
    """The source of a stream. If it is closed unread, another process may make the call."""

    def __init__(self, reply: Reply, turn: CallTurn) -> None:
        self._reply, self._turn = reply, turn

    async def aclose(self) -> None:
        self._turn.release()
        await self._reply.aclose()


class RecordingProvider(Provider):
    """Forwards requests to `provider` and records each exchange at `output_path` before the caller sees its end.

    A failed call is recorded as a fault. Secrets are removed before anything is written; the fingerprint is computed
    before that.

    Args:
        output_path: the recording: a path, or `sqlite:///path.db`. It is created if missing.
        record: the mode for an existing recording. `append` adds every call. `once` answers only from the recording.
            `new` answers from the recording and adds missing calls. `all` replaces the entries that
            this run uses, `fresh` the whole recording. Both do so when the run ends: when all providers that
            record there in that mode are closed. If an error leaves the `async with` of one, the recording does not
            change, and the new exchanges are in `output_path` with `.failed` appended.
        redactor: decides what is a secret, besides the provider's own key. By default, the active rules do (see
            `redacting`).
        normalise: the parts that the fingerprint ignores, stored in the metadata of the recording.
        sink: gets an event for every recorded call, and for every call that the recording answers.
        first_to: gets each exchange before it is recorded, such as the `calls` of a stored run.

    Raises:
        InputError: the recording cannot be written, the file is not a recording, or `provider` is not a Provider.
    """

    def __init__(
        self,
        provider: Provider,
        output_path: str | os.PathLike[str],
        *,
        record: RecordMode = "append",
        redactor: Redactor | None = None,
        normalise: NormaliseRules = NO_RULES,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
        first_to: ExchangeWriter | None = None,
    ) -> None:
        hint = "RecordingProvider(provider, output_path), in this order"
        check_type(provider, Provider, source="provider", hint=hint)
        check_rules(normalise, source="normalise")
        self.name, self.credentials = provider.name, provider.credentials
        self._provider, self._clock, self._sink = provider, clock, guard_sink(sink)
        self._recording = Recorder(
            output_path,
            mode=record,
            kind="models",
            redactor=redactor,
            rules=normalise,
            first_to=first_to,
            sink=sink,
            clock=clock,
        )
        try:
            self._replay = self._open_replay() if self._recording.has_answers else None
        except InputError:
            self._recording.close()
            raise

    async def send(self, request: Request) -> Reply:
        replay = self._replay
        if replay is not None and (not self._recording.is_live or self._has_answer(replay, request)):
            return await replay.send(request)
        call = self._start(request)
        if replay is not None:
            turn = await self._recording.turn(request.step_id, call.request_hash, lambda: replay.answers(request))
            if turn.is_answered:
                return await replay.send(request)
            call = replace(call, turn=turn)
        try:
            reply = await self._provider.send(request)
            response = None if request.stream else await reply.collect()
            if response is None:
                return StreamedReply(self._events(reply, call), source=_TurnSource(reply, call.turn))
            self._record(call, response)
        except BaseException as error:
            self._record_failure(call, error)
            raise
        return WholeReply(response)

    def _has_answer(self, replay: MockProvider, request: Request) -> bool:
        return self._recording.has_answer(lambda: replay.answers(request))

    def _record_failure(self, call: _PendingCall, error: BaseException) -> None:
        """Record a failure of the provider, and let another process make the call."""
        try:
            failure = provider_error_of(error, provider=self.name)
            if failure is not None:
                fault = fault_of(failure, after_ms=self._elapsed_ms(call))
                self._record(call, Response(provider=self.name), fault=fault)
        finally:
            call.turn.release()

    def check_price(self, request: Request) -> None:
        if self._recording.is_live:
            self._provider.check_price(request)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._recording.keep()
        await super().__aexit__(kind, error, trace)

    async def close(self) -> None:
        try:
            self._recording.close()
        finally:
            if self._replay is not None:
                await self._replay.close()
            await self._provider.close()

    def _open_replay(self) -> MockProvider:
        cache = self._recording.cache
        if cache is None:
            return MockProvider(responses=self._recording.answers(), strict=True, sink=self._sink, clock=self._clock)
        cached = CachedModels(Tape(cache.reader, strict=True), cache)
        return MockProvider(responses=cached, strict=True, sink=self._sink, clock=self._clock)

    def _start(self, request: Request) -> _PendingCall:
        if request.step_id is not None and (reason := unfit_reason(request.step_id)):
            raise RequestError(f"{quote_name(request.step_id)} {reason}", source="step_id", hint=KEY_HINT)
        request_hash, fields = identify(request, self._recording.rules)
        return _PendingCall(request, request_hash, fields, self._clock.monotonic_s())

    async def _events(self, reply: Reply, call: _PendingCall) -> AsyncIterator[StreamEvent]:
        chunks: list[TimedPiece] = []
        joined = Accumulator()
        try:
            async for event in reply:
                if isinstance(event, StreamEnd):
                    end = event
                    break
                if isinstance(event, StreamRestart):
                    chunks, joined = [], Accumulator()
                else:
                    chunks.append((self._elapsed_ms(call), piece_from_delta(event)))
                    joined.add(event)
                yield event
            else:
                reason = "the stream ended before its last event"
                raise ProviderConnectionError(reason, provider=self.name)  # noqa: TRY301 - recorded like other failures
        except BaseException as error:
            try:
                self._record_broken(call, joined, chunks, error)
            finally:
                call.turn.release()
            raise
        finally:
            await reply.aclose()
        try:
            self._record(call, end.response, chunks=chunks)
        finally:
            call.turn.release()
        yield end

    def _record_broken(
        self, call: _PendingCall, joined: Accumulator, chunks: list[TimedPiece], error: BaseException
    ) -> None:
        """Record the arrived part of a stream, and its ending: a failure, or a caller that stopped reading."""
        failure = provider_error_of(error, provider=self.name)
        if failure is not None and not chunks:
            fault: AnyFault = fault_of(failure, after_ms=self._elapsed_ms(call))
        elif chunks and (failure is not None or not isinstance(error, Exception)):
            fault = stream_fault_of(failure or error, after_chunks=len(chunks))
        else:
            return
        self._record(call, joined.join(Response(provider=self.name, finish_reason=None)), chunks=chunks, fault=fault)

    def _record(
        self,
        call: _PendingCall,
        response: Response,
        *,
        chunks: list[TimedPiece] | None = None,
        fault: AnyFault | None = None,
    ) -> None:
        elapsed_ms = self._elapsed_ms(call)
        exchange = Exchange(
            content=response.content,
            model=response.model,
            provider=response.provider,
            usage=response.usage if fault is None else None,
            cost_usd=response.cost_usd if isfinite(response.cost_usd) else 0.0,
            latency_ms=0.0 if isinstance(fault, Timeout) else elapsed_ms,
            finish_reason=response.finish_reason,
            tool_calls=recorded_calls(response.tool_calls),
            reasoning=response.reasoning,
            chunks=chunks or None,
            fault=fault,
            request_hash=call.request_hash,
            request=Raw(call.fields),
        )
        self._recording.record(call.request.step_id, exchange, credentials=self._provider.credentials, turn=call.turn)
        capture_content(self._sink, lambda: _content(call.request, None if fault is not None else response))
        self._sink.emit(
            CallRecorded(
                call.request.step_id,
                response.provider or self.name,
                response.model or call.request.model,
                elapsed_ms / 1000.0,
                None if fault is None else fault.type,
                call.request.workflow,
                call.request.call,
                call.request.attempt,
            )
        )

    def _elapsed_ms(self, call: _PendingCall) -> float:
        return round((self._clock.monotonic_s() - call.started_s) * 1000.0, 3)


def _content(request: Request, response: Response | None) -> CallContent:
    return CallContent(request, response, request.step_id, request.workflow, request.call, request.attempt)
