"""Taking old or unwanted exchanges out of a recording."""

from __future__ import annotations

import re
from datetime import timedelta

from msgspec import Struct

from understudy.errors import InputError
from understudy.recording.document import Document, Entry
from understudy.recording.exchange import Exchange

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Unwanted(Struct, frozen=True):
    """What is to go: exchanges recorded before a moment, of certain keys, or with faults. Any of these is enough."""

    before: str | None = None
    keys: frozenset[str] = frozenset()
    faults: bool = False

    def covers(self, key: str, exchange: Exchange) -> bool:
        is_old = self.before is not None and exchange.recorded_at is not None and exchange.recorded_at < self.before
        return is_old or key in self.keys or (self.faults and exchange.fault is not None)


def prune(document: Document, unwanted: Unwanted) -> list[tuple[str, Exchange]]:
    """Take what is unwanted out of the document, and give it back. Exchanges that do not say when are never old."""
    removed = [(key, exchange) for key, exchange in document if unwanted.covers(key, exchange)]
    kept: dict[str, Entry] = {}
    for key, entry in document.entries.items():
        if isinstance(entry, list):
            left = [exchange for exchange in entry if not unwanted.covers(key, exchange)]
            if left:
                kept[key] = left
        elif not unwanted.covers(key, entry):
            kept[key] = entry
    document.entries = kept
    return removed


def parse_age(text: str) -> timedelta:
    """An age like `30d`, `12h` or `2w`.

    Raises:
        InputError: it is written another way.
    """
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None:
        raise InputError(f"cannot read the age {text!r}", source="--older-than", hint="write it like 30d, 12h or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
