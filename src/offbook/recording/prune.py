"""Taking old or unwanted exchanges out of a recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from offbook.errors import InputError
from offbook.recording.document import Document
from offbook.recording.entries import E, Entries
from offbook.recording.exchange import Exchange
from offbook.recording.keys import tool_key
from offbook.recording.tool_exchange import ToolExchange

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Unwanted(Struct, frozen=True):
    """What is to go: exchanges recorded before a moment, of certain keys, or that failed. Any of these is enough.

    The key of a tool's exchanges is like `_tools.get_weather`.
    """

    before: str | None = None
    keys: frozenset[str] = frozenset()
    faults: bool = False

    def covers(self, key: str, exchange: Exchange | ToolExchange) -> bool:
        is_old = self.before is not None and exchange.recorded_at is not None and exchange.recorded_at < self.before
        failure = exchange.fault if isinstance(exchange, Exchange) else exchange.error
        return is_old or key in self.keys or (self.faults and failure is not None)


def prune(document: Document, unwanted: Unwanted) -> int:
    """Take what is unwanted out of the document; gives back how many. What does not say when it was is never old."""
    before = document.size
    document.entries = _wanted(document.entries, unwanted.covers)
    document.tools = _wanted(document.tools, lambda tool, exchange: unwanted.covers(tool_key(tool), exchange))
    return before - document.size


def _wanted(entries: Entries[E], is_unwanted: Callable[[str, E], bool]) -> Entries[E]:
    kept: Entries[E] = {}
    for key, entry in entries.items():
        if isinstance(entry, list):
            left = [exchange for exchange in entry if not is_unwanted(key, exchange)]
            if left:
                kept[key] = left
        elif not is_unwanted(key, entry):
            kept[key] = entry
    return kept


def parse_age(text: str) -> timedelta:
    """An age like `30d`, `12h` or `2w`.

    Raises:
        InputError: it is written another way.
    """
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None:
        raise InputError(f"cannot read the age {text!r}", source="--older-than", hint="write it like 30d, 12h or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
