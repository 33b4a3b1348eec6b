"""Finds the recorded exchange that answers a call: in the recording's order, or along the script of an explored run."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Literal

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import MismatchKind, RecordingMismatchError, RecordingUnavailableError
from offbook.events import MatchedBy
from offbook.messages import JsonObject, Request, Response, deltas_of
from offbook.recording.call_cache import CallCache
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.recording.match.continuation import Continuation, ConversationScript, ScriptedCall, WrittenAnswers
from offbook.recording.match.conversation import tells_failure
from offbook.recording.match.cursor import (
    Cursor,
    ExchangeMatch,
    OverusedEntry,
    PositionCursor,
    RequestKey,
    ResponseScript,
    SharedCursor,
    UnusedEntry,
    overused_entries,
)
from offbook.recording.stores.store import Claim, SharedPosition, StoredExchange
from offbook.wire.calls import CallAttempt, CallObserver, WireOutcome
from offbook.wire.replay_source import PreparedResponse, ReplaySource, prepare_response
from offbook.wire.request import ParsedRequest
from offbook.wire.response import HttpResponse, encode_model_response
from offbook.wire.server.session_clock import LOOP_CLOCK, ResponseClock

_HINTS: dict[MismatchKind, str] = {
    "missing": "",
    "drifted": 'record it again with record_mode="all", which replaces its entries, or undo the change',
    "exhausted": "a new session starts from the beginning",
}


class ReplayMatch(Struct, frozen=True, gc=False):
    """What answers a call: a recorded entry, else a response, or the default if there is neither.

    `script_key` is its place in the script of an explored run, and `fields` what the clean run has asked there.
    """

    stored: StoredExchange[Exchange] | None = None
    matched_by: MatchedBy = "default"
    script_key: RequestKey = ("", "")
    given: Response | None = None
    fields: bytes = b""

    @property
    def key(self) -> str | None:
        return None if self.stored is None else self.stored.key

    @property
    def tool_calls(self) -> list[RecordedToolCall] | None:
        """The tool calls of the entry, unless it is a failure."""
        if self.stored is None or self.stored.exchange.fault is not None:
            return None
        return self.stored.exchange.tool_calls

    def outcome_of(self, parsed: ParsedRequest) -> WireOutcome:
        """The outcome of a call that this answers."""
        if self.stored is not None:
            return "served"
        return "synthetic" if parsed.request is None else "default"

    @property
    def fault_type(self) -> str | None:
        fault = None if self.stored is None else self.stored.exchange.fault
        return None if fault is None else fault.type


class WireReplay:
    """Answers calls from a source, with each entry as often as a replay may use it.

    A model call matches an entry by its `step_id` if it has one, by its fingerprint, by the same conversation in
    another protocol, or an entry that does not say what it answers; plain HTTP matches by its fingerprint alone.
    If nothing matches, a strict source raises RecordingMismatchError, and another answers with `default_response`.
    """

    def __init__(self, source: ReplaySource, *, default_response: str) -> None:
        self.source, self._default_response = source, default_response
        self._cursor = self._new_cursor()

    def _new_cursor(self) -> Cursor[Exchange]:
        return Cursor(self.source.reader)

    def find(self, parsed: ParsedRequest, step_id: str | None) -> ReplayMatch:
        """Find the entry that answers. It counts as served when it is passed to `use`."""
        match = self._match(parsed, step_id)
        if match.mismatch is None:
            return ReplayMatch(match.stored, match.matched_by)
        other = self._match_alike(parsed, step_id)
        if other is None:
            other = self.source.cross_protocol.find(parsed, self._cursor) if match.mismatch == "missing" else match
        if other.mismatch is None:
            return ReplayMatch(other.stored, other.matched_by)
        if self.source.strict:
            raise self._refusal(parsed, step_id, other)
        return ReplayMatch(match.stored, match.matched_by)

    def has_answer(self, parsed: ParsedRequest, step_id: str | None) -> bool:
        """Return whether `find` finds an answer now."""
        try:
            self.find(parsed, step_id)
        except RecordingMismatchError:
            return False
        return True

    def answer(self, match: ReplayMatch, parsed: ParsedRequest) -> PreparedResponse:
        """Return the answer of a match."""
        if match.stored is not None:
            return self.source.answer(match.stored, parsed)
        if parsed.request is None or parsed.route.codec is None:
            from offbook.wire.synthetic.answers import synthetic_response  # noqa: PLC0415 - most runs ask for none

            return prepare_response(self.source.paced(synthetic_response(parsed, self.source.models), 0.0))
        response = self.response(match, parsed)
        answer = encode_model_response(response, deltas_of(response), parsed, parsed.route.codec)
        return prepare_response(self.source.paced(answer, 0.0))

    def response(self, match: ReplayMatch, parsed: ParsedRequest) -> Response:
        """Return the model's response of a match."""
        if match.given is not None:
            return match.given
        if match.stored is None:
            return Response(self._default_response, parsed.model)
        return match.stored.exchange.response(model=parsed.model, provider="")

    def use(self, match: ReplayMatch) -> None:
        """Count a match as served."""
        if match.stored is not None:
            self._cursor.use(match.stored)

    def give_back(self, match: ReplayMatch) -> None:
        """Leave a match that was found, and is not served, for the next call."""

    def can_answer(self, fingerprint: str) -> bool:
        """Return whether an exchange with this fingerprint is left, or repeats."""
        return self._cursor.match(None, fingerprint).mismatch is None

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._cursor.used_ids

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the recording's order."""
        return self._cursor.unused()

    def overused(self) -> list[OverusedEntry]:
        """Return the recorded exchanges that were served more often than they were recorded."""
        return overused_entries(self._cursor)

    def _match(self, parsed: ParsedRequest, step_id: str | None) -> ExchangeMatch[Exchange]:
        if parsed.request is not None:
            return self._cursor.match(step_id, parsed.request_hash)
        match = self._cursor.match(None, parsed.request_hash)
        has_answer = match.stored is not None and (match.stored.exchange.wire or match.stored.exchange.fault)
        return match if has_answer else ExchangeMatch("default", mismatch="missing")

    def _match_alike(self, parsed: ParsedRequest, step_id: str | None) -> ExchangeMatch[Exchange] | None:
        """Return what answers the same request from another home folder, or with other null fields."""
        step = step_id if parsed.request is not None else None
        return self.source.alike.match(self._cursor, step, orjson.loads(parsed.fields))

    def _refusal(
        self, parsed: ParsedRequest, step_id: str | None, match: ExchangeMatch[Exchange]
    ) -> RecordingMismatchError:
        from offbook.recording.match.mismatch import (  # noqa: PLC0415 - most runs have no mismatch
            http_mismatch_error,
            mismatch_error,
        )

        if parsed.is_message:
            from offbook.recording.match.websocket import websocket_mismatch_error  # noqa: PLC0415

            fields = orjson.loads(parsed.fields)
            error = websocket_mismatch_error(fields, self.source.websocket_turns, self.source.reader)
        elif parsed.request is None:
            error = http_mismatch_error(
                place=f"{parsed.method} {parsed.place}",
                vendor=parsed.route.vendor,
                problem=parsed.problem,
                match=match,
                reader=self.source.reader,
            )
        else:
            request = replace(parsed.request, step_id=step_id)
            error = mismatch_error(request, match, self.source.reader, self.source.rules)
        return error.replace(hint=_HINTS[error.kind])


class CacheReplay(WireReplay):
    """Answers calls from a shared recording, as it is when a call is made. What it has not is left to the real API."""

    def __init__(self, source: ReplaySource, *, cache: CallCache) -> None:
        self._cache = cache
        super().__init__(source, default_response="")

    def _new_cursor(self) -> SharedCursor:
        return SharedCursor(self._cache.reader)

    def find(self, parsed: ParsedRequest, step_id: str | None) -> ReplayMatch:
        found: list[ExchangeMatch[Exchange]] = []

        def look_up() -> bool:
            found.append(self._match(parsed, step_id))
            return found[0].mismatch is None

        if self._cache.has_answer(look_up):
            return ReplayMatch(found[0].stored, found[0].matched_by)
        raise RecordingMismatchError("the shared recording has no answer", kind="missing")

    def use(self, match: ReplayMatch) -> None:
        self._cache.note_hit()
        super().use(match)

    def overused(self) -> list[OverusedEntry]:
        """Return nothing: a cache serves its exchanges as often as it is asked."""
        return []


AHEAD = (1, *[16] * 62)
"""How many answers each claim of a call asks for: more than one only if another process was quicker."""


class SharedSessionReplay(WireReplay):
    """Answers a session that other processes answer, too: what it serves, it claims first, for all of them."""

    _cursor: PositionCursor

    def __init__(self, source: ReplaySource, *, default_response: str, position: SharedPosition) -> None:
        super().__init__(source, default_response=default_response)
        self._position, self._claimed = position, set[int]()

    def _new_cursor(self) -> PositionCursor:
        return PositionCursor(self.source.reader)

    def find(self, parsed: ParsedRequest, step_id: str | None) -> ReplayMatch:
        for count in AHEAD:
            try:
                found = self._find_ahead(parsed, step_id, count)
            except RecordingMismatchError:
                if self._claim().has_news:
                    continue
                raise
            left = {
                match.stored.id: match for match in found if match.stored and not self._cursor.is_used(match.stored)
            }
            claim = self._claim(*left)
            if claim.id is not None:
                self._claimed.add(claim.id)
                return left[claim.id]
            if not left and not claim.has_news:
                return found[0]
        raise RecordingUnavailableError("other processes are always quicker", source=self.source.reader.source)

    def use(self, match: ReplayMatch) -> None:
        if match.stored is None or match.stored.id not in self._claimed:
            super().use(match)
        else:
            self._claimed.discard(match.stored.id)

    def give_back(self, match: ReplayMatch) -> None:
        if match.stored is not None and match.stored.id in self._claimed:
            self._claimed.discard(match.stored.id)
            self._position.give_back(match.stored.id)

    def _claim(self, *ids: int) -> Claim:
        claim = self._position.claim(*ids)
        self._cursor.follow(claim)
        return claim

    def _find_ahead(self, parsed: ParsedRequest, step_id: str | None, count: int) -> list[ReplayMatch]:
        """Return what answers the call, and what would if that had been served, up to so many."""
        found = [super().find(parsed, step_id)]
        with self._cursor.supposing() as suppose:
            while len(found) < count and (stored := found[-1].stored) and not self._cursor.is_used(stored):
                suppose(stored)
                try:
                    found.append(super().find(parsed, step_id))
                except RecordingMismatchError:
                    break
        return found


class ExploredScript(ResponseScript[ReplayMatch]):
    """The script of an exploration, and the conversations that its model calls are part of."""

    def __init__(self) -> None:
        super().__init__()
        self.conversations = ConversationScript(self._model_calls)

    def tells_failure(self, messages: Sequence[JsonObject]) -> bool:
        """Return whether a request tells its model of a failure that the clean run did not have."""
        return tells_failure(messages, self.conversations.known_texts)

    def _model_calls(self) -> list[ScriptedCall]:
        return [
            ScriptedCall(key, match.fields, match.stored)
            for key, match in self.log
            if match.stored is not None and match.fields
        ]


OnMiss = Literal["explore", "stop", "default"]


class ExploredRun(Struct, frozen=True):
    """One run of an exploration.

    The first run is a strict replay and writes the `script`: the answers to each request. In later runs equal requests
    get these answers in order, and then the last one again, so that a program may retry or start over. So do requests
    with the same messages to another model.

    A request that the script does not have is a miss, unless the recording has exactly that request, or an answer that
    was written by hand for it. `on_miss` says what happens then: the `continuation` answers, or the default response
    does, or all calls are refused from there on. A miss is noted either way, and not logged. `mark` is part of the text
    of a continuation that gives up. The parts of its answers are due on `clock`.
    """

    script: ExploredScript
    observer: CallObserver
    on_miss: OnMiss = "explore"
    continuation: Continuation = "stubborn"
    mark: str = ""
    clock: ResponseClock = LOOP_CLOCK


class ExploredReplay(WireReplay):
    """Answers the calls of one explored run.

    After a model call that misses and that nothing answers, all calls are refused, even if the program ignored the
    first refusal. `continued_by` names what answered misses: a continuation, or `default`; empty if nothing had to.
    """

    def __init__(self, source: ReplaySource, *, default_response: str, explored_run: ExploredRun) -> None:
        super().__init__(source, default_response=default_response)
        self.continued_by = ""
        self._explored_run, self._conversations = explored_run, explored_run.script.conversations
        self._scripted = explored_run.script.start_run()
        self._written = WrittenAnswers(lambda: source.written)
        self._has_ended = False

    def find(self, parsed: ParsedRequest, step_id: str | None) -> ReplayMatch:
        key = (step_id or "", parsed.request_hash)
        scripted = None if self._has_ended else self._scripted.next_answer(key)
        if scripted is not None:
            return scripted
        try:
            if self._has_ended:
                raise self._refusal(parsed, step_id, ExchangeMatch("default", mismatch="missing"))
            return self._find_recorded(parsed, step_id, key)
        except RecordingMismatchError:
            other = self._answer_nearby(parsed, key)
            if other is None:
                raise
            return other

    @property
    def _can_continue(self) -> bool:
        """Whether misses are answered."""
        return not self._has_ended and not self._scripted.is_first and self._explored_run.on_miss != "stop"

    def continued(self, parsed: ParsedRequest, step_id: str | None) -> ReplayMatch | None:
        """Return what answers a call that missed; None if it is to be refused, as all calls after it are then."""
        if not self._can_continue or parsed.is_message:
            self._has_ended = self._has_ended or parsed.request is not None or parsed.is_message
            return None
        if parsed.request is None:
            return ReplayMatch()
        run = self._explored_run
        self.continued_by = "default" if run.on_miss == "default" else run.continuation
        return ReplayMatch() if run.on_miss == "default" else self._continue(parsed.request, step_id or "")

    def use(self, match: ReplayMatch) -> None:
        super().use(match)
        self._scripted.use(match.script_key, match)

    def _find_recorded(self, parsed: ParsedRequest, step_id: str | None, key: RequestKey) -> ReplayMatch:
        match = super().find(parsed, step_id)
        if not self._scripted.accepts(key, None if match.stored is None else match.stored.fingerprint):
            raise self._refusal(parsed, step_id, ExchangeMatch("default", mismatch="missing"))
        is_model_call = self._scripted.is_first and parsed.request is not None
        return replace(match, script_key=key, fields=parsed.fields if is_model_call else b"")

    def _refusal(
        self, parsed: ParsedRequest, step_id: str | None, match: ExchangeMatch[Exchange]
    ) -> RecordingMismatchError:
        """Return the error with the nearest entry; without it if this is not the first miss that is answered.

        Only the first one is reported, and to look for the nearest entry takes longer than all else.
        """
        if self.continued_by and self._can_continue and match.mismatch is not None:
            return RecordingMismatchError("the run has diverged before", kind=match.mismatch)
        return super()._refusal(parsed, step_id, match)

    def _answer_nearby(self, parsed: ParsedRequest, key: RequestKey) -> ReplayMatch | None:
        """Return the answer to the same messages by another model, or what was written by hand; None if neither is."""
        if self._has_ended or self._scripted.is_first or parsed.request is None:
            return None
        fields = orjson.loads(parsed.fields)
        same = self._conversations.same_conversation(key[0], fields)
        if same is not None:
            return self._scripted.next_answer(same)
        if not self.source.written:  # which condition holds takes a while to find out
            return None
        written = self._written.find(key, self._conversations.condition(key[0], fields))
        return None if written is None else ReplayMatch(written, "step_id", key)

    def _continue(self, request: Request, step: str) -> ReplayMatch:
        run = self._explored_run
        answer = self._conversations.answer(step, request, run.continuation, run.mark)
        return ReplayMatch(answer.stored, given=answer.response if answer.stored is None else None)


class DeferredMatch:
    """A match that is looked up when a fault needs it, if ever."""

    def __init__(self, replay: Callable[[], WireReplay], attempt: CallAttempt) -> None:
        self.match: ReplayMatch | None = None
        self._replay, self._attempt = replay, attempt

    def answer(self) -> HttpResponse:
        return self._replay().answer(self._find(), self._attempt.parsed).split

    def response(self) -> Response:
        return self._replay().response(self._find(), self._attempt.parsed)

    def _find(self) -> ReplayMatch:
        if self.match is None:
            self.match = self._replay().find(self._attempt.parsed, self._attempt.step_id)
        return self.match
