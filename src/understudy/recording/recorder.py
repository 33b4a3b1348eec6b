"""The recorder: a provider that passes calls on and keeps every one of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Literal, get_args

import msgspec
from msgspec import Raw, Struct

from understudy.clock import SYSTEM_CLOCK, Clock
from understudy.errors import InputError, ProviderError, RecordingMismatchError
from understudy.events import NULL_SINK, CallRecorded, Sink
from understudy.faults import AnyFault, Timeout, fault_of, stream_fault_of
from understudy.messages import (
    Accumulator,
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    WholeReply,
)
from understudy.providers.provider import Provider
from understudy.recording.document import rules_of
from understudy.recording.exchange import Exchange, TimedPiece, piece_of, recorded_calls
from understudy.recording.fingerprint import identify
from understudy.recording.keys import check_key
from understudy.recording.normalise import NO_RULES, NormaliseRules, check_rules
from understudy.recording.redaction import Redactor
from understudy.recording.replay import MockProvider
from understudy.recording.stores.locate import open_store

RecordMode = Literal["append", "once", "new", "all"]
_FAILURES = (ProviderError, TimeoutError, ConnectionError)


class _Call(Struct, frozen=True):
    """A call under way: what was asked, canonical too, under which key it goes, and since when."""

    request: Request
    key: str
    request_hash: str
    fields: bytes
    started_s: float


class RecordingProvider(Provider):
    """Passes requests on to `provider` and keeps each exchange at `output_path` before the caller sees its end.

    A failed call is kept as the fault that it was. Secrets are taken out before anything is written;
    the fingerprint is taken before that.

    Args:
        output_path: the recording: a path, or `sqlite:///path.db`; made if absent, added to if there.
        record: `append` adds every call behind what is there. `once` keeps a recording that is there
            and answers from it alone. `new` answers from what is there and adds only what is missing.
            `all` replaces the entries that this run touches.
        redactor: what counts as a secret.
        normalise: what the fingerprint should not see; kept in the recording's metadata.
        sink: told of every captured call.

    Raises:
        InputError: the recording cannot be written, or is no recording.
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
    ) -> None:
        if record not in get_args(RecordMode):
            known = ", ".join(get_args(RecordMode))
            raise InputError(f"unknown mode {record!r}", source="record", hint=f"one of: {known}")
        check_rules(normalise, source="normalise")
        self.name = provider.name
        self._provider, self._redactor, self._sink, self._clock = provider, redactor or Redactor(), sink, clock
        store = open_store(output_path)
        self._known = MockProvider(output_path, strict=True) if record in ("once", "new") and store.exists() else None
        self._writer = store.write()
        self._is_live = record != "once" or not self._writer.size
        self._rules = self._agreed_rules(normalise, source=store.location)
        self._touched: set[str] | None = set() if record == "all" else None
        self._started_at = self._now()

    async def send(self, request: Request) -> Reply:
        if self._known is not None:
            try:
                return await self._known.send(request)
            except RecordingMismatchError:
                if not self._is_live:
                    raise
        call = self._begin(request)
        try:
            reply = await self._provider.send(request)
            response = None if request.stream else await reply.collect()
        except _FAILURES as error:
            self._keep(call, Response(), fault=fault_of(error, after_ms=self._elapsed_ms(call)))
            raise
        if response is None:
            return StreamedReply(self._events(reply, call))
        self._keep(call, response)
        return WholeReply(response)

    async def close(self) -> None:
        self._writer.close()
        await self._provider.close()

    def _agreed_rules(self, given: NormaliseRules, *, source: str) -> NormaliseRules:
        """The rules given, or those that the recording has; they cannot change once it holds exchanges."""
        declared = rules_of(self._writer.meta, source=source)
        if given in (NO_RULES, declared):
            return declared
        if self._writer.size:
            raise InputError(
                "the recording was made with other normalise rules",
                source=source,
                hint="leave normalise out to use them, or record into a new file",
            )
        self._writer.add_meta({"normalise": msgspec.to_builtins(given)})
        return given

    def _begin(self, request: Request) -> _Call:
        if request.step_id is not None:
            check_key(request.step_id, source="step_id")
        request_hash, fields = identify(request, self._rules)
        return _Call(request, request.step_id or request_hash, request_hash, fields, self._clock.monotonic_s())

    async def _events(self, reply: Reply, call: _Call) -> AsyncIterator[StreamEvent]:
        chunks: list[TimedPiece] = []
        joined, end = Accumulator(), None
        try:
            async for event in reply:
                if isinstance(event, StreamEnd):
                    end = event
                    break
                chunks.append((round(self._elapsed_ms(call), 3), piece_of(event)))
                joined.add(event)
                yield event
        except BaseException as error:
            self._keep_broken(call, joined, chunks, error)
            raise
        finally:
            await reply.aclose()
        if end is not None:
            self._keep(call, end.response, chunks=chunks)
            yield end

    def _keep_broken(self, call: _Call, joined: Accumulator, chunks: list[TimedPiece], error: BaseException) -> None:
        """Keep what arrived of a stream, and how it broke; of a stream that nobody read, nothing."""
        if chunks:
            fault: AnyFault = stream_fault_of(error, after_chunks=len(chunks))
        elif isinstance(error, _FAILURES):
            fault = fault_of(error, after_ms=self._elapsed_ms(call))
        else:
            return
        self._keep(call, joined.join(Response(finish_reason=None)), chunks=chunks, fault=fault)

    def _keep(
        self, call: _Call, response: Response, *, chunks: list[TimedPiece] | None = None, fault: AnyFault | None = None
    ) -> None:
        elapsed_ms = self._elapsed_ms(call)
        exchange = Exchange(
            content=response.content,
            model=response.model,
            provider=response.provider,
            usage=response.usage if response.model else None,
            cost_usd=response.cost_usd,
            latency_ms=0.0 if isinstance(fault, Timeout) else round(elapsed_ms, 3),
            finish_reason=response.finish_reason,
            tool_calls=recorded_calls(response.tool_calls),
            reasoning=response.reasoning,
            chunks=chunks or None,
            fault=fault,
            recorded_at=self._now(),
            request_hash=call.request_hash,
            request=Raw(call.fields),
        )
        self._writer.append(call.key, self._redactor.redact(exchange), forget_before=self._forget_before(call.key))
        self._sink.emit(
            CallRecorded(
                call.request.step_id,
                response.provider or self.name,
                response.model or call.request.model,
                elapsed_ms / 1000.0,
                None if fault is None else fault.type,
            )
        )

    def _forget_before(self, key: str) -> str | None:
        """When this run replaces what it touches: the moment before which entries go, at the first touch of a key."""
        if self._touched is None or key in self._touched:
            return None
        self._touched.add(key)
        return self._started_at

    def _elapsed_ms(self, call: _Call) -> float:
        return (self._clock.monotonic_s() - call.started_s) * 1000.0

    def _now(self) -> str:
        return self._clock.utc_now().isoformat(timespec="microseconds")
