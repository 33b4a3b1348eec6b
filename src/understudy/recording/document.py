"""A recording as a whole: its metadata and its exchanges by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from understudy.errors import InputError, RecordingFormatError
from understudy.messages import JsonObject
from understudy.recording.exchange import Exchange
from understudy.recording.normalise import NO_RULES, NormaliseRules, check_rules
from understudy.version import __version__

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
        return ((key, exchange) for key in self.entries for exchange in self.exchanges(key))

    def exchanges(self, key: str) -> list[Exchange]:
        """The exchanges of a key, in order."""
        entry = self.entries.get(key, [])
        return entry if isinstance(entry, list) else [entry]

    def add(self, key: str, exchange: Exchange) -> None:
        """Put an exchange behind those of its key."""
        entry = self.entries.get(key)
        if entry is None:
            self.entries[key] = exchange
        elif isinstance(entry, list):
            entry.append(exchange)
        else:
            self.entries[key] = [entry, exchange]

    def rewrite(self, change: Callable[[Exchange], Exchange]) -> int:
        """Put each exchange through `change`; gives back how many came out as another object."""
        changed = 0
        for key, entry in self.entries.items():
            new = [change(exchange) for exchange in self.exchanges(key)]
            changed += sum(after is not before for after, before in zip(new, self.exchanges(key), strict=True))
            self.entries[key] = new if isinstance(entry, list) else new[0]
        return changed

    def forget(self, key: str, *, before: str) -> None:
        """Drop the exchanges of a key that were recorded before a moment; those that do not say when were."""
        exchanges = self.exchanges(key)
        self.entries.pop(key, None)
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
        check_rules(rules)
    except msgspec.ValidationError as error:
        raise RecordingFormatError(str(error), source=source, place="_meta.normalise") from None
    except InputError as error:
        place = f"_meta.normalise.{error.place}"
        raise RecordingFormatError(error.reason, source=source, place=place, hint=error.hint) from None
    return rules
