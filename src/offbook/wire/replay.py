"""One run's way along a recording: which entry answers its next call."""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import MismatchKind, RecordingMismatchError
from offbook.events import MatchedBy
from offbook.messages import Response, deltas_of
from offbook.recording.cursor import Cursor, Match, Unused
from offbook.recording.exchange import Exchange
from offbook.recording.miss import mismatch_error
from offbook.recording.stores.store import Stored
from offbook.wire.asked import Asked
from offbook.wire.encoding import answer_of
from offbook.wire.plain_miss import plain_miss
from offbook.wire.side.answers import side_answer
from offbook.wire.stock import Prepared, Stock, prepare

_HINTS: dict[MismatchKind, str] = {
    "missing": "",
    "drifted": 'record it again with record_mode="all", which replaces what is there, or undo the change',
    "exhausted": "a new session starts from the beginning",
}


class Found(Struct, frozen=True, gc=False):
    """What answers a call: an entry, or without one the default. `line` is its place in the script of a rehearsal."""

    stored: Stored[Exchange] | None = None
    matched_by: MatchedBy = "default"
    line: tuple[str, str] = ("", "")

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

    def __init__(self, stock: Stock, *, default_response: str) -> None:
        self._stock, self._default_response = stock, default_response
        self._cursor: Cursor[Exchange] = Cursor(stock.shelf)

    def find(self, asked: Asked, step_id: str | None) -> Found:
        """What answers. Nothing is served until it is used."""
        match = self._match(asked, step_id)
        if match.mismatch is None:
            return Found(match.stored, match.matched_by)
        loose = self._stock.loose.find(asked, self._cursor) if match.mismatch == "missing" else match
        if loose.mismatch is None:
            return Found(loose.stored, loose.matched_by)
        if self._stock.strict:
            raise self._refusal(asked, step_id, loose)
        return Found(match.stored, match.matched_by)

    def answer(self, found: Found, asked: Asked) -> Prepared:
        """The answer that was found."""
        if found.stored is not None:
            return self._stock.answer(found.stored, asked)
        if asked.request is None or asked.route.codec is None:
            return prepare(self._stock.paced(side_answer(asked, self._stock.models), 0.0))
        response = self.response(found, asked)
        answer = answer_of(response, deltas_of(response), asked, asked.route.codec)
        return prepare(self._stock.paced(answer, 0.0))

    def response(self, found: Found, asked: Asked) -> Response:
        """The model's response in that answer."""
        if found.stored is None:
            return Response(self._default_response, asked.model)
        return found.stored.exchange.response(model=asked.model, provider="")

    def use(self, found: Found) -> None:
        """Count what was found as served."""
        if found.stored is not None:
            self._cursor.use(found.stored)

    @property
    def stock(self) -> Stock:
        """What answers, shared with other runs."""
        return self._stock

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._cursor.used_ids

    def unused(self) -> list[Unused]:
        """The exchanges that were never served, in the recording's order."""
        return self._cursor.unused()

    def _match(self, asked: Asked, step_id: str | None) -> Match[Exchange]:
        if asked.request is not None:
            return self._cursor.match(step_id, asked.request_hash)
        match = self._cursor.match(None, asked.request_hash)
        is_answer = match.stored is not None and (match.stored.exchange.wire or match.stored.exchange.fault)
        return match if is_answer else Match("default", mismatch="missing")

    def _refusal(self, asked: Asked, step_id: str | None, match: Match[Exchange]) -> RecordingMismatchError:
        if asked.request is None:
            error = plain_miss(asked, match, self._stock.shelf)
        else:
            request = replace(asked.request, step_id=step_id)
            error = mismatch_error(request, match, self._stock.shelf, self._stock.rules)
        return error.but(hint=_HINTS[error.kind])
