"""A recording that a server answers from: what is shared by all its runs."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from offbook.messages import Response
from offbook.recording.document import check_strict, rules_of
from offbook.recording.exchange import Exchange
from offbook.recording.latency import Latency
from offbook.recording.stores.store import Shelf, Stored
from offbook.wire.answer import Answer
from offbook.wire.asked import Asked, Reader
from offbook.wire.breakage import Struck, as_recorded, broken
from offbook.wire.encoding import encoded_answer, has_bytes, recorded_answer
from offbook.wire.loose_match import LooseIndex

MAX_KEPT = 4096


class Prepared(Struct, frozen=True):
    """An answer with its frames `apart`, as faults count them, and `together` where they are due together."""

    apart: Answer
    together: Answer


def prepare(answer: Answer) -> Prepared:
    return Prepared(answer, answer.together())


class Stock:
    """A recording, and the answers that were made of it so far.

    Raises:
        RecordingFormatError: its rules are declared wrongly; or (strict) it is older than version 2.
    """

    def __init__(self, shelf: Shelf, *, latency: Latency, strict: bool) -> None:
        self.shelf, self.strict = shelf, strict
        self.rules = rules_of(shelf.meta, source=shelf.source)
        self.reader = Reader(self.rules)
        self._latency = latency
        self._answers: dict[tuple[int, str, bool, bool, bool], Prepared] = {}
        if strict:
            check_strict(shelf.version, source=shelf.source)

    @cached_property
    def loose(self) -> LooseIndex:
        return LooseIndex(self.shelf, self.rules)

    @cached_property
    def models(self) -> list[str]:
        """The models that the recording names, in its order."""
        named = (stored.exchange.model for stored in self.shelf)
        return list(dict.fromkeys(model for model in named if model))

    def answer(self, stored: Stored[Exchange], asked: Asked) -> Prepared:
        """What the entry answers to such a call, in the time that it should take."""
        kind = (stored.id, asked.route.protocol, asked.is_streamed, asked.wants_usage, asked.is_array)
        prepared = self._answers.get(kind)
        if prepared is None:
            prepared = prepare(self._made(stored.exchange, asked))
            is_told = stored.exchange.fault is None and bool(stored.exchange.model) and bool(stored.fingerprint)
            is_same_for_all = is_told or has_bytes(stored.exchange, asked)
            if is_same_for_all and not self._latency.is_drawn and len(self._answers) < MAX_KEPT:
                self._answers[kind] = prepared
        return prepared

    def _made(self, exchange: Exchange, asked: Asked) -> Answer:
        fault = exchange.fault
        if has_bytes(exchange, asked) and exchange.wire is not None:
            answer = self.paced(recorded_answer(exchange.wire), exchange.latency_ms)
            return answer if fault is None else as_recorded(fault, answer)
        if fault is None:
            return self.paced(encoded_answer(exchange, asked), exchange.latency_ms)

        def clean() -> Answer:
            return self.paced(encoded_answer(exchange, asked), exchange.latency_ms)

        def response() -> Response:
            return exchange.response(model=asked.model, provider="")

        return broken(fault, Struck(asked, clean, response))

    def paced(self, answer: Answer, recorded_ms: float) -> Answer:
        """The answer, due as the latency model says."""
        if self._latency.is_none:
            return answer.after(0.0)
        if self._latency.is_recorded and answer.is_streamed:
            return answer
        return answer.after(self._latency.delay_ms(recorded_ms))
