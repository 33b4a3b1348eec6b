"""Records captured responses in a store, in one of the record modes."""

from __future__ import annotations

import logging
import os

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.events import NULL_SINK, CallRecorded, Sink, guard_sink
from offbook.providers.pricing import PriceTable
from offbook.recording.format.exchange import Exchange
from offbook.recording.record_mode import RecordMode, open_recording, timestamp
from offbook.recording.redact.redactor import Redactor
from offbook.wire.calls import CallAttempt
from offbook.wire.proxy.capture import MAX_KEPT_BYTES, CapturedResponse
from offbook.wire.proxy.exchange_builder import build_exchange, provider_name_of

logger = logging.getLogger("offbook.wire")


class RecordedExchange(Struct, frozen=True):
    """An exchange as it was, and the key under which it was kept without its secrets."""

    key: str
    exchange: Exchange


class WireRecorder:
    """Records exchanges at `location`. Secrets are removed before anything is written.

    `has_answers` means that the exchanges found in the recording answer calls before upstream does. If not `is_live`,
    no call goes upstream.

    Args:
        location: the recording: a path, or `sqlite:///path.db`. It is created if it does not exist.
        mode: `append` adds every call to the recording. `once` answers from an existing recording alone. `new` answers
            from an existing recording and adds what it does not have. `all` replaces the entries that this run
            touches, `fresh` the whole recording when the recorder is closed.

    Raises:
        InputError: the recording cannot be written, the file is not a recording, or the mode is unknown.
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
        self._redactor, self._sink, self.clock = redactor or Redactor(), guard_sink(sink), clock
        self._prices = PriceTable.shipped()
        self._recording = open_recording(location, mode=mode, kind="models")
        try:
            self.rules = self._recording.agree_rules()
        except InputError:
            self._recording.close()
            raise
        self.has_answers, self.is_live = self._recording.has_answers, self._recording.is_live

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
        self._recording.append(key, self._redactor.redact(exchange))
        self._tell(taken, exchange, heard)
        return RecordedExchange(key, exchange)

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        self._recording.close()

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
