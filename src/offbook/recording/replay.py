"""The mock provider: answers model calls from a recording."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError, MismatchKind
from offbook.events import NULL_SINK, ReplayMissed, ReplayServed, Sink, guard_sink
from offbook.faults import AnyFault, FaultedCall
from offbook.messages import Reply, Request, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.format.document import Document, check_strict, rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import document_from_dict
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.match.cursor import Cursor, ExchangeMatch, UnusedEntry
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.match.mismatch import mismatch_error
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader


class Playback:
    """Turns exchanges into replies."""

    def __init__(self, *, latency: Latency, clock: Clock, provider: str) -> None:
        self._latency, self._clock, self._provider = latency, clock, provider

    async def play(self, exchange: Exchange, request: Request) -> Reply:
        """The reply that `exchange` makes to `request`, or the failure that it recorded."""
        paced = self._latency.is_recorded and exchange.chunks is not None
        if exchange.fault is None and not request.stream:
            await self.wait(exchange.latency_ms)
            return WholeReply(self._response(exchange, request))
        if not paced:
            await self.wait(exchange.latency_ms)
        reply = StreamedReply(self._events(exchange, request, paced=paced))
        if exchange.fault is None:
            return reply

        async def clean() -> Reply:
            return reply

        return await exchange.fault.apply(FaultedCall(request, clean, self._clock, exchange.provider or self._provider))

    async def wait(self, recorded_ms: float) -> None:
        """Let the time of a call pass that took `recorded_ms` when it was recorded."""
        if not self._latency.is_none:
            await self._clock.sleep_s(self._latency.delay_ms(recorded_ms) / 1000.0)

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


logger = logging.getLogger("offbook.replay")
_MISMATCH_WARNINGS: dict[MismatchKind, str] = {
    "missing": "is not in the recording; answered with the default response",
    "drifted": "asks something else than was recorded; answered as recorded",
    "exhausted": "is asked more often than it was recorded; answered as before",
}


class MockProvider(Provider):
    """Answers every request from a recording: no network, no key, no cost.

    A call is answered by its `step_id` if the recording has that key, else by its fingerprint. What
    neither finds raises RecordingMismatchError if `strict`, and is answered with `default_response`
    and a warning of one line if not. A strict provider also refuses an entry whose request was another.

    Args:
        responses_file: the recording: a path, or `sqlite:///path.db`.
        responses: the same document as a dict, or as a Document, instead of a file.
        latency_model, latency_ms, seed: how long calls take; see Latency.
        sink: told of every call.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """

    name = "mock"

    def __init__(
        self,
        responses_file: str | os.PathLike[str] | None = None,
        *,
        responses: Mapping[str, Any] | Document | None = None,
        strict: bool = False,
        default_response: str = "Mock response",
        latency_model: LatencyModel = "constant",
        latency_ms: float = 0.0,
        seed: int = 0,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._latency = Latency(latency_model, latency_ms=latency_ms, seed=seed)
        self._player = Playback(latency=self._latency, clock=clock, provider=self.name)
        self._shelf = _open_reader(responses_file, responses)
        self._rules = rules_from_meta(self._shelf.meta, source=self._shelf.source)
        self._cursor = Cursor(self._shelf)
        self._strict, self._default_response, self._sink = strict, default_response, guard_sink(sink)
        self.calls: list[ReplayServed] = []
        self._warned: Counter[str] = Counter()
        if strict:
            check_strict(self._shelf.version, source=self._shelf.source)

    async def send(self, request: Request) -> Reply:
        request_hash = fingerprint(request, self._rules)
        match = self._cursor.match(request.step_id, request_hash)
        if match.mismatch is not None:
            self._report_mismatch(request, match)
        stored = match.stored
        if stored is None:
            self._report_served(request, match, request_hash, None)
            return await self._default(request)
        exchange = stored.exchange
        self._cursor.use(stored)
        self._report_served(request, match, request_hash, exchange.fault)
        if self._latency.is_none and exchange.fault is None and not request.stream:
            return WholeReply(exchange.response(model=request.model, provider=self.name))
        return await self._player.play(exchange, request)

    def answers(self, request: Request) -> bool:
        """Whether the recording holds what a strict replay would answer `request` with now.

        Raises:
            RequestError: something in the request cannot be written as JSON.
        """
        return self._cursor.match(request.step_id, fingerprint(request, self._rules)).mismatch is None

    async def close(self) -> None:
        """Close the recording, and say how often each warning was due."""
        for told, times in self._warned.items():
            if times > 1:
                logger.warning("%s (%s times in all)", told, times)
        self._warned.clear()
        self._shelf.close()

    def unused(self) -> list[UnusedEntry]:
        """The exchanges that were never served, in the recording's order."""
        return self._cursor.unused()

    def _report_mismatch(self, request: Request, match: ExchangeMatch[Exchange]) -> None:
        """Raise the mismatch if strict, else warn of it in one line, once a step."""
        if self._strict:
            error = mismatch_error(request, match, self._shelf, self._rules)
            self._sink.emit(
                ReplayMissed(
                    request.step_id, request.model, error.kind, request.workflow, request.call, request.attempt
                )
            )
            raise error
        who = f"step {request.step_id!r}" if request.step_id else f"a call of {request.model!r}"
        told = f"{self._shelf.source}: {who} {_MISMATCH_WARNINGS[match.mismatch or 'missing']}"
        self._warned[told] += 1
        if self._warned[told] == 1:
            logger.warning("%s", told)

    def _report_served(
        self, request: Request, match: ExchangeMatch[Exchange], request_hash: str, fault: AnyFault | None
    ) -> None:
        call = ReplayServed(
            request.step_id,
            request.model,
            match.matched_by,
            None if match.stored is None else match.stored.key,
            request_hash,
            None if fault is None else fault.type,
            request.workflow,
            request.call,
            request.attempt,
        )
        self.calls.append(call)
        self._sink.emit(call)

    async def _default(self, request: Request) -> Reply:
        await self._player.wait(0.0)
        return WholeReply(Response(content=self._default_response, model=request.model, provider=self.name))


def _open_reader(
    responses_file: str | os.PathLike[str] | None, responses: Mapping[str, Any] | Document | None
) -> RecordingReader:
    if isinstance(responses_file, Mapping):
        raise InputError("a document is given where a file is expected", hint="pass it by name: responses={…}")
    if responses_file is not None and responses is not None:
        raise InputError("give responses_file or responses, not both", source="MockProvider")
    if responses_file is not None:
        return open_store(responses_file).read()
    if not isinstance(responses, Document):
        responses = document_from_dict({} if responses is None else responses, source="responses")
    return MemoryReader(responses, source="responses")
