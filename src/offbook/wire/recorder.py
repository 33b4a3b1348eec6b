"""The wire's recorder: keeps what came from upstream."""

from __future__ import annotations

import logging
import os

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.events import NULL_SINK, CallRecorded, Sink, guarded
from offbook.providers.pricing import PriceTable
from offbook.recording.document import rules_of
from offbook.recording.exchange import Exchange
from offbook.recording.record_mode import RecordMode, Replacing, check_mode, end_of, moment, open_writer
from offbook.recording.redaction import Redactor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import Store
from offbook.wire.heard import MAX_KEPT_BYTES, Heard
from offbook.wire.taken import Taken
from offbook.wire.transcript import exchange_of, provider_of

logger = logging.getLogger("offbook.wire")


class Kept(Struct, frozen=True):
    """An exchange as it was, and the key under which it was kept without its secrets."""

    key: str
    exchange: Exchange


class WireRecorder:
    """Keeps exchanges at `location`. Secrets are taken out before anything is written.

    `has_answers` means that what the recording had when it was opened answers before upstream does; if not `is_live`,
    upstream is not asked at all.

    Args:
        location: the recording: a path, or `sqlite:///path.db`; made if absent, added to if there.
        mode: `append` adds every call behind what is there. `once` keeps a recording that is there and answers from
            it alone. `new` answers from what is there and adds only what is missing. `all` replaces the entries that
            this run touches, `fresh` all that is there once the recorder is closed.

    Raises:
        InputError: the recording cannot be written, or is no recording; or there is no such mode.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        mode: RecordMode = "append",
        redactor: Redactor | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        check_mode(mode)
        self._redactor, self._sink, self.clock = redactor or Redactor(), guarded(sink), clock
        self._prices = PriceTable.shipped()
        store = open_store(location)
        self._replacing = Replacing(_end_of(store, clock) if mode == "all" and store.exists() else None)
        self._writer = open_writer(store, mode, "models")
        try:
            self.rules = rules_of(self._writer.meta, source=store.location)
        except InputError:
            self._writer.close()
            raise
        self.has_answers = mode in ("once", "new") and self._writer.size > 0
        self.is_live = mode != "once" or not self.has_answers

    def keep(self, taken: Taken, heard: Heard) -> Kept | None:
        """Write down what came of a call; nothing if nothing came, or too much.

        Raises:
            InputError: it cannot be written.
        """
        if heard.is_too_large:
            logger.warning("%s: not kept: the answer has more than %d bytes", taken.asked.place, MAX_KEPT_BYTES)
            return None
        if heard.has_client_left and not (heard.answer.is_streamed and heard.answer.frames):
            return None
        asked, key = taken.asked, taken.step_id or taken.asked.request_hash
        exchange = exchange_of(asked, heard, prices=self._prices, recorded_at=moment(self.clock))
        self._writer.append(key, self._redactor.redact(exchange), forget_before=self._replacing.forget_before(key))
        self._tell(taken, exchange, heard)
        return Kept(key, exchange)

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        self._writer.close()

    def _tell(self, taken: Taken, exchange: Exchange, heard: Heard) -> None:
        self._sink.emit(
            CallRecorded(
                taken.step_id,
                provider_of(taken.asked),
                exchange.model or taken.asked.model,
                heard.answer.end_ms / 1000.0,
                None if exchange.fault is None else exchange.fault.type,
                "",
                taken.number,
                taken.attempt,
            )
        )


def _end_of(store: Store, clock: Clock) -> str:
    shelf = store.read()
    try:
        return end_of(shelf, clock)
    finally:
        shelf.close()
