"""Records captured responses in a store, in one of the record modes."""

from __future__ import annotations

import logging
import os

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.events import NULL_SINK, CallRecorded, Sink, guard_sink
from offbook.providers.pricing import PriceTable
from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.record_mode import (
    KeyReplacement,
    RecordMode,
    check_mode,
    open_writer,
    timestamp,
    timestamp_after,
)
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import Store
from offbook.wire.calls import CallAttempt
from offbook.wire.proxy.capture import MAX_KEPT_BYTES, CapturedResponse
from offbook.wire.proxy.exchange_builder import build_exchange, provider_name_of

logger = logging.getLogger("offbook.wire")


class RecordedExchange(Struct, frozen=True):
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
        self._redactor, self._sink, self.clock = redactor or Redactor(), guard_sink(sink), clock
        self._prices = PriceTable.shipped()
        store = open_store(location)
        self._replacing = KeyReplacement(_end_of(store, clock) if mode == "all" and store.exists() else None)
        self._writer = open_writer(store, mode, "models")
        try:
            self.rules = rules_from_meta(self._writer.meta, source=store.location)
        except InputError:
            self._writer.close()
            raise
        self.has_answers = mode in ("once", "new") and self._writer.size > 0
        self.is_live = mode != "once" or not self.has_answers

    def keep(self, taken: CallAttempt, heard: CapturedResponse) -> RecordedExchange | None:
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
        exchange = build_exchange(asked, heard, prices=self._prices, recorded_at=timestamp(self.clock))
        self._writer.append(key, self._redactor.redact(exchange), forget_before=self._replacing.forget_before(key))
        self._tell(taken, exchange, heard)
        return RecordedExchange(key, exchange)

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        self._writer.close()

    def _tell(self, taken: CallAttempt, exchange: Exchange, heard: CapturedResponse) -> None:
        self._sink.emit(
            CallRecorded(
                taken.step_id,
                provider_name_of(taken.asked),
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
        return timestamp_after(shelf, clock)
    finally:
        shelf.close()
