"""A recording as a whole: its metadata and its exchanges by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from understudy import __version__
from understudy.errors import RecordingFormatError
from understudy.messages import JsonObject
from understudy.recording.exchange import Exchange
from understudy.recording.normalise import NO_RULES, NormaliseRules, check_rules

VERSION = 2
Entry: TypeAlias = Exchange | list[Exchange]


def new_meta() -> JsonObject:
    """The metadata of a recording made now."""
    return {"created_by": f"understudy {__version__}"}


class Document(Struct):
    """A recording in memory. An Exchange answers every call of its key, a list answers in order.

    `rest` holds further top-level metadata (`_tools` and such), kept as it is.
    """

    meta: JsonObject = field(default_factory=new_meta)
    entries: dict[str, Entry] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION

    def __iter__(self) -> Iterator[tuple[str, Exchange]]:
        """Each exchange with its key, in order."""
        for key, entry in self.entries.items():
            for exchange in entry if isinstance(entry, list) else [entry]:
                yield key, exchange

    def add(self, key: str, exchange: Exchange) -> None:
        """Put an exchange behind those of its key."""
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = exchange
        elif isinstance(entry, list):
            entry.append(exchange)
        else:
            self.entries[key] = [entry, exchange]

    def forget(self, key: str, *, before: str) -> None:
        """Drop the exchanges of a key that were recorded before a moment; those that do not say when were."""
        entry = self.entries.pop(key, None)
        exchanges = [] if entry is None else entry if isinstance(entry, list) else [entry]
        for exchange in exchanges:
            if (exchange.recorded_at or "") >= before:
                self.add(key, exchange)


def rules_of(meta: JsonObject, *, source: str) -> NormaliseRules:
    """The normalise rules that a recording's metadata declares.

    Raises:
        RecordingFormatError: they are declared wrongly.
    """
    declared = meta.get("normalise")
    if not declared:
        return NO_RULES
    try:
        rules = msgspec.convert(declared, NormaliseRules)
    except msgspec.ValidationError as error:
        raise RecordingFormatError(str(error), source=source, place="_meta.normalise") from None
    check_rules(rules, source=source)
    return rules
