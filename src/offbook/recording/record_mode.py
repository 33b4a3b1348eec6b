"""Record modes: which calls are made live, and what happens to the exchanges already recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from offbook.clock import Clock
from offbook.errors import InputError
from offbook.recording.format.document import AnyExchange
from offbook.recording.replace_on_close import ExchangeKind, ReplaceOnCloseWriter
from offbook.recording.stores.store import RecordingWriter, Store, StoredExchange

RecordMode = Literal["append", "once", "new", "all", "fresh"]


def check_mode(record: str) -> None:
    """Raises InputError if there is no such mode."""
    if record not in get_args(RecordMode):
        known = ", ".join(get_args(RecordMode))
        raise InputError(f"unknown mode {record!r}", source="record", hint=f"one of: {known}")


def open_writer(store: Store, record: RecordMode, part: ExchangeKind) -> RecordingWriter:
    """Open a store for a recorder of that part, in that mode. Raises as `Store.write` does."""
    return ReplaceOnCloseWriter(store, part) if record == "fresh" else store.write()


def timestamp(clock: Clock) -> str:
    """Now, as recordings tell it."""
    return clock.utc_now().isoformat(timespec="microseconds")


def timestamp_after(row: Iterable[StoredExchange[AnyExchange]], clock: Clock) -> str:
    """A moment behind all that the row holds now, whatever clock it was made by."""
    latest = max((stored.exchange.recorded_at or "" for stored in row), default="")
    return max(timestamp(clock), latest + "~")


class KeyReplacement:
    """What a run replaces: of each key that it touches, what was there at `found_until`; nothing if that is None."""

    def __init__(self, found_until: str | None) -> None:
        self._found_until = found_until
        self._touched: set[str] = set()

    def forget_before(self, key: str) -> str | None:
        """The moment before which exchanges of the key go, at its first touch; None where nothing goes."""
        if self._found_until is None or key in self._touched:
            return None
        self._touched.add(key)
        return self._found_until
