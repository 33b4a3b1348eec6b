"""The mock provider: answers model calls from a recording."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError, MismatchKind, RecordingMismatchError
from offbook.events import (
    NULL_SINK,
    CallContent,
    MatchedBy,
    ReplayMissed,
    ReplayServed,
    Sink,
    capture_content,
    guard_sink,
)
from offbook.faults import AnyFault, FaultedCall
from offbook.messages import JsonObject, Reply, Request, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.exchange import Exchange
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.stores.locate import open_store, read_document
from offbook.recording.stores.store import RecordingReader, log_warning
from offbook.session.call import ProviderCall
from offbook.session.log import Log, Served
from offbook.session.sources import RecordedModels
from offbook.session.tape import Tape

_MISMATCH_WARNINGS: dict[MismatchKind, str] = {
    "missing": "is not in the recording; answered with the default response",
    "drifted": "differs from the recorded request; answered as recorded",
    "rejected": "would be refused by the API",
    "exhausted": "is made more often than it was recorded; answered with the last answer",
}


class Playback:
    """Turns exchanges into replies."""

    def __init__(self, *, latency: Latency, clock: Clock, provider: str) -> None:
        self._latency, self._clock, self._provider = latency, clock, provider

    async def play(self, exchange: Exchange, request: Request) -> Reply:
        """Return the reply of `exchange` to `request`, or fail as it did when it was recorded."""
        paced = self._latency.is_recorded and exchange.chunks is not None
        if exchange.fault is None and not request.stream:
            await self._latency.wait(self._clock, exchange.latency_ms)
            return WholeReply(self._response(exchange, request))
        if not paced:
            await self._latency.wait(self._clock, exchange.latency_ms)
        reply = StreamedReply(self._events(exchange, request, paced=paced))
        if exchange.fault is None:
            return reply

        async def clean() -> Reply:
            return reply

        return await exchange.fault.apply(FaultedCall(request, clean, self._clock, exchange.provider or self._provider))

    async def _events(self, exchange: Exchange, request: Request, *, paced: bool) -> AsyncIterator[StreamEvent]:
        started_s = self._clock.monotonic_s()
        for at_ms, delta in exchange.timed_deltas():
            if paced:
                await self._clock.sleep_s(started_s + at_ms / 1000.0 - self._clock.monotonic_s())
            yield delta
        if paced:
            await self._clock.sleep_s(started_s + exchange.latency_ms / 1000.0 - self._clock.monotonic_s())
        yield StreamEnd(self._response(exchange, request))

    def _response(self, exchange: Exchange, request: Request) -> Response:
        return exchange.response(model=request.model, provider=self._provider)


class ReplayedCall(Struct, frozen=True):
    """A call of a MockProvider: its request, and its answer.

    `matched_by` is None if the call was refused. `mismatch` is the request's difference from the recording: `missing`,
    `drifted` or `exhausted`, or None. `key` is the answering entry, or the nearest one. Fields, also those of the
    request, can be read as items (`call["messages"]`).
    """

    request: Request
    request_hash: str
    matched_by: MatchedBy | None
    key: str | None = None
    fault_type: str | None = None
    mismatch: MismatchKind | None = None

    @property
    def messages(self) -> tuple[JsonObject, ...]:
        return self.request.messages

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def step_id(self) -> str | None:
        return self.request.step_id

    def __getitem__(self, name: str) -> object:
        for fields in (self, self.request):
            if name in fields.__struct_fields__:
                return getattr(fields, name)
        raise KeyError(name)


class MockProvider(Provider, Served):
    """Answers every request from a recording: no network, no key, no cost.

    A call is matched by its `step_id` if the recording has that key, else by its fingerprint. A call without a match
    raises RecordingMismatchError if `strict`; otherwise it gets `default_response`, with a one-line warning. A strict
    provider also refuses an entry that was recorded for another request. `misses` lists refused calls, even if the
    caller caught the error. `calls` lists every call, with its messages and its outcome.

    Args:
        responses_file: the recording: a path, or `sqlite:///path.db`.
        responses: the document as a dict or a Document, or an open recording, instead of a file.
        latency_model, latency_ms, seed: the latency of calls; see Latency.
        sink: gets an event for every call.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """

    name = "mock"

    def __init__(
        self,
        responses_file: str | os.PathLike[str] | None = None,
        *,
        responses: Mapping[str, Any] | Document | RecordingReader | RecordedModels | None = None,
        strict: bool = False,
        default_response: str = "Mock response",
        latency_model: LatencyModel = "constant",
        latency_ms: float = 0.0,
        seed: int = 0,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._latency, self._clock = Latency(latency_model, latency_ms=latency_ms, seed=seed), clock
        self._playback = Playback(latency=self._latency, clock=clock, provider=self.name)
        self._models = _open_models(responses_file, responses, strict=strict)
        self._default_response, self._sink = default_response, guard_sink(sink)
        self.calls: list[ReplayedCall] = []
        self.misses: list[RecordingMismatchError] = []
        self._warned: Counter[str] = Counter()

    async def send(self, request: Request) -> Reply:
        call = ProviderCall(request, fingerprint(request, self._models.tape.rules))
        match = self._models.look_up(call, request.step_id)
        if match.mismatch is not None:
            self._report_mismatch(call, match)
        if match.stored is None:
            self._report_served(call, match, None)
            return await self._default(request)
        exchange = match.exchange
        self._models.serve(match)
        self._report_served(call, match, exchange.fault)
        if self._latency.is_none and exchange.fault is None and not request.stream:
            return WholeReply(exchange.response(model=request.model, provider=self.name))
        return await self._playback.play(exchange, request)

    def answers(self, request: Request) -> bool:
        """Return whether a strict replay has an answer for `request` now.

        Raises:
            RequestError: the request cannot be written as JSON.
        """
        call = ProviderCall(request, fingerprint(request, self._models.tape.rules))
        return self._models.look_up(call, request.step_id).mismatch is None

    async def close(self) -> None:
        """Close the recording, and log the number of each warning."""
        for message, times in self._warned.items():
            if times > 1:
                log_warning("offbook.replay", "%s (%s times in all)", message, times)
        self._warned.clear()
        self._models.tape.reader.close()

    def rewind(self) -> None:
        """Answer from the start of the recording again, with the latencies of the first time. `calls` is empty then."""
        self._models.rewind()
        self._latency.rewind()
        self.calls.clear()
        self.misses.clear()

    @property
    def log(self) -> Log:
        return self._models.log

    def used_ids(self, *, start: int = 0) -> list[int]:
        """Return the ids of the served exchanges, for `note_used` in another process.

        They are in the order of their first use; the first `start` are omitted.
        """
        return list(islice(self._models.used_ids, start, None))

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served by another process's replay of the recording."""
        self._models.note_used(ids)

    def _report_mismatch(self, call: ProviderCall, match: ExchangeMatch[Exchange]) -> None:
        """Raise the mismatch if strict, else log a warning of one line, once a step."""
        request, tape = call.request, self._models.tape
        if tape.strict:
            error = self._models.refusal(call, request.step_id, match)
            self.misses.append(error)
            self.calls.append(ReplayedCall(request, call.request_hash, None, error.key, mismatch=error.kind))
            self._sink.emit(
                ReplayMissed(
                    request.step_id, request.model, error.kind, request.workflow, request.call, request.attempt
                )
            )
            raise error
        who = f"step {request.step_id!r}" if request.step_id else f"a call of {request.model!r}"
        message = f"{tape.reader.source}: {who} {_MISMATCH_WARNINGS[match.mismatch or 'missing']}"
        self._warned[message] += 1
        if self._warned[message] == 1:
            log_warning("offbook.replay", "%s", message)

    def _report_served(self, call: ProviderCall, match: ExchangeMatch[Exchange], fault: AnyFault | None) -> None:
        request = call.request
        fault_type = None if fault is None else fault.type
        self.calls.append(
            ReplayedCall(request, call.request_hash, match.matched_by, match.key, fault_type, match.mismatch)
        )
        if self._sink is NULL_SINK:
            return
        capture_content(self._sink, lambda: self._content(request, match, fault))
        self._sink.emit(
            ReplayServed(
                request.step_id,
                request.model,
                match.matched_by,
                match.key,
                call.request_hash,
                fault_type,
                request.workflow,
                request.call,
                request.attempt,
            )
        )

    def _content(self, request: Request, match: ExchangeMatch[Exchange], fault: AnyFault | None) -> CallContent:
        response = None
        if match.stored is not None and fault is None:
            response = match.stored.exchange.response(model=request.model, provider=self.name)
        return CallContent(request, response, request.step_id, request.workflow, request.call, request.attempt)

    async def _default(self, request: Request) -> Reply:
        await self._latency.wait(self._clock, 0.0)
        return WholeReply(Response(content=self._default_response, model=request.model, provider=self.name))


def _open_models(
    responses_file: str | os.PathLike[str] | None,
    responses: Mapping[str, Any] | Document | RecordingReader | RecordedModels | None,
    *,
    strict: bool,
) -> RecordedModels:
    if isinstance(responses, RecordedModels):
        return responses
    reader = _open_reader(responses_file, responses)
    if strict:
        check_strict(reader.version, source=reader.source)
    return RecordedModels(Tape(reader, strict=strict))


def _open_reader(
    responses_file: str | os.PathLike[str] | None, responses: Mapping[str, Any] | Document | RecordingReader | None
) -> RecordingReader:
    if isinstance(responses_file, Mapping):
        raise InputError("expected a file, got a document", hint="pass it by name: responses={…}")
    if responses_file is not None and responses is not None:
        raise InputError("give responses_file or responses, not both", source="MockProvider")
    if responses_file is not None:
        return open_store(responses_file).read()
    if isinstance(responses, RecordingReader):
        return responses
    return read_document({} if responses is None else responses, source="responses")
