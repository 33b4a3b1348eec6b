"""Finds the recorded exchange that answers a call: in the recording's order, or along the script of an explored run."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import MismatchKind, RecordingMismatchError
from offbook.events import MatchedBy
from offbook.messages import Response, deltas_of
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import Cursor, ExchangeMatch, RequestKey, ResponseScript, UnusedEntry
from offbook.recording.match.mismatch import http_mismatch_error, mismatch_error
from offbook.recording.stores.store import StoredExchange
from offbook.wire.calls import CallAttempt, WireOutcome
from offbook.wire.encode import encode_model_response
from offbook.wire.replay_source import PreparedResponse, ReplaySource, prepare_response
from offbook.wire.request import ParsedRequest
from offbook.wire.response import HttpResponse
from offbook.wire.synthetic.answers import synthetic_response

_HINTS: dict[MismatchKind, str] = {
    "missing": "",
    "drifted": 'record it again with record_mode="all", which replaces what is there, or undo the change',
    "exhausted": "a new session starts from the beginning",
}


class ReplayMatch(Struct, frozen=True, gc=False):
    """What answers a call: an entry, or without one the default. `script_key` is its place in a script."""

    stored: StoredExchange[Exchange] | None = None
    matched_by: MatchedBy = "default"
    script_key: RequestKey = ("", "")

    @property
    def key(self) -> str | None:
        return None if self.stored is None else self.stored.key

    @property
    def fault_type(self) -> str | None:
        fault = None if self.stored is None else self.stored.exchange.fault
        return None if fault is None else fault.type


class WireReplay:
    """Answers calls from a stock, each of its entries as often as a replay may.

    A call is answered by its `step_id` if it has one, by its fingerprint, by an entry of another protocol with
    the same conversation, or by one that does not say what it answers; one of plain HTTP by its fingerprint alone.
    What none of these finds raises RecordingMismatchError if the stock is strict, and is answered with
    `default_response` if not.
    """

    def __init__(self, stock: ReplaySource, *, default_response: str) -> None:
        self._replay_source, self._default_response = stock, default_response
        self._cursor: Cursor[Exchange] = Cursor(stock.shelf)

    def find(self, asked: ParsedRequest, step_id: str | None) -> ReplayMatch:
        """What answers. Nothing is served until it is used."""
        match = self._match(asked, step_id)
        if match.mismatch is None:
            return ReplayMatch(match.stored, match.matched_by)
        loose = self._replay_source.loose.find(asked, self._cursor) if match.mismatch == "missing" else match
        if loose.mismatch is None:
            return ReplayMatch(loose.stored, loose.matched_by)
        if self._replay_source.strict:
            raise self._refusal(asked, step_id, loose)
        return ReplayMatch(match.stored, match.matched_by)

    def answer(self, found: ReplayMatch, asked: ParsedRequest) -> PreparedResponse:
        """The answer that was found."""
        if found.stored is not None:
            return self._replay_source.answer(found.stored, asked)
        if asked.request is None or asked.route.codec is None:
            return prepare_response(
                self._replay_source.paced(synthetic_response(asked, self._replay_source.models), 0.0)
            )
        response = self.response(found, asked)
        answer = encode_model_response(response, deltas_of(response), asked, asked.route.codec)
        return prepare_response(self._replay_source.paced(answer, 0.0))

    def response(self, found: ReplayMatch, asked: ParsedRequest) -> Response:
        """The model's response in that answer."""
        if found.stored is None:
            return Response(self._default_response, asked.model)
        return found.stored.exchange.response(model=asked.model, provider="")

    def use(self, found: ReplayMatch) -> None:
        """Count what was found as served."""
        if found.stored is not None:
            self._cursor.use(found.stored)

    @property
    def stock(self) -> ReplaySource:
        """What answers, shared with other runs."""
        return self._replay_source

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._cursor.used_ids

    def unused(self) -> list[UnusedEntry]:
        """The exchanges that were never served, in the recording's order."""
        return self._cursor.unused()

    def _match(self, asked: ParsedRequest, step_id: str | None) -> ExchangeMatch[Exchange]:
        if asked.request is not None:
            return self._cursor.match(step_id, asked.request_hash)
        match = self._cursor.match(None, asked.request_hash)
        is_answer = match.stored is not None and (match.stored.exchange.wire or match.stored.exchange.fault)
        return match if is_answer else ExchangeMatch("default", mismatch="missing")

    def _refusal(
        self, asked: ParsedRequest, step_id: str | None, match: ExchangeMatch[Exchange]
    ) -> RecordingMismatchError:
        if asked.request is None:
            error = http_mismatch_error(
                place=f"{asked.method} {asked.place}",
                vendor=asked.route.vendor,
                problem=asked.problem,
                match=match,
                reader=self._replay_source.shelf,
            )
        else:
            request = replace(asked.request, step_id=step_id)
            error = mismatch_error(request, match, self._replay_source.shelf, self._replay_source.rules)
        return error.replace(hint=_HINTS[error.kind])


class CallObserver(Protocol):
    """Is told of each call of a run, on the server's thread."""

    def answered(self, taken: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        """The call has got its answer, which may yet be on its way for long."""
        ...

    def arrived(self, taken: CallAttempt) -> None:
        """An answer that took its time was sent to its end, and the client was there."""
        ...


class NullCallObserver:
    """Is told and does nothing."""

    def answered(self, taken: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None: ...

    def arrived(self, taken: CallAttempt) -> None: ...


NULL_OBSERVER = NullCallObserver()


class ExploredRun(Struct, frozen=True):
    """One run of many.

    The first writes the `script`, as a strict replay: what was answered to which request. In the later ones equal
    requests get their answers in order, and then the last one again, so that a program may try again or start over;
    what the script does not have is a miss, unless the recording has that very request. A miss is refused, or
    answered with the default response if the run `goes_on`; it is noted either way, and not logged.
    """

    script: ResponseScript[ReplayMatch]
    observer: CallObserver
    goes_on: bool = False


class ExploredReplay(WireReplay):
    """Answers the calls of one run of a rehearsal.

    A run that asks something new gets no more answers, even if it has swallowed the refusal, unless it goes on.
    """

    def __init__(self, stock: ReplaySource, *, default_response: str, explored_run: ExploredRun) -> None:
        super().__init__(stock, default_response=default_response)
        self._scripted = explored_run.script.start_run()
        self._goes_on = explored_run.goes_on
        self._end: RecordingMismatchError | None = None

    def find(self, asked: ParsedRequest, step_id: str | None) -> ReplayMatch:
        if self._end is not None:
            raise self._end
        try:
            return self._find(asked, step_id)
        except RecordingMismatchError as refusal:
            if not self._goes_on and asked.request is not None:
                self._end = refusal
            raise

    def _find(self, asked: ParsedRequest, step_id: str | None) -> ReplayMatch:
        key = (step_id or "", asked.request_hash)
        known = self._scripted.next_answer(key)
        if known is not None:
            return known
        found = super().find(asked, step_id)
        if not self._scripted.accepts(key, None if found.stored is None else found.stored.fingerprint):
            raise self._refusal(asked, step_id, ExchangeMatch("default", mismatch="missing"))
        return replace(found, script_key=key)

    def use(self, found: ReplayMatch) -> None:
        super().use(found)
        self._scripted.use(found.script_key, found)
