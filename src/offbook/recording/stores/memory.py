"""A recording in memory, indexed by key, and by fingerprint on demand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeAlias

from offbook.recording.format.document import Document, E, Entries, exchanges_of
from offbook.recording.format.exchange import Exchange, is_conditional
from offbook.recording.stores.store import StoredExchange

_id = attrgetter("id")
_Groups: TypeAlias = dict[str | None, list[StoredExchange[E]]]


class MemoryIndex(Generic[E]):
    """Entries, open for reading. The index of a key is built when the key is first used."""

    def __init__(self, entries: Entries[E], *, source: str) -> None:
        self.source = source
        self._entries = entries
        self._slots: dict[str, list[StoredExchange[E]]] = {}
        self._slot_groups: dict[str, _Groups[E]] = {}

    def repeating(self, key: str) -> StoredExchange[E] | None:
        entry = self._entries.get(key)
        if isinstance(entry, list):
            first = next((stored for stored in self._slot(key) if not stored.is_conditional), None)
            return first if first is not None and first.repeats else None
        if entry is None or is_conditional(entry.fingerprint):
            return None
        return StoredExchange(self._first_ids[key], key, entry, True)

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E] | None:
        groups = self._groups(key, fingerprint)
        found = [group[place] for group in groups if (place := bisect_right(group, after, key=_id)) < len(group)]
        return min(found, key=_id, default=None)

    def last(self, *, key: str | None, fingerprint: str | None) -> StoredExchange[E] | None:
        return max((group[-1] for group in self._groups(key, fingerprint) if group), key=_id, default=None)

    def __iter__(self) -> Iterator[StoredExchange[E]]:
        return (stored for key in self._entries for stored in self._slot(key))

    def __len__(self) -> int:
        return sum(len(entry) if isinstance(entry, list) else 1 for entry in self._entries.values())

    def entries(self) -> Entries[E]:
        """Return all exchanges by key."""
        return self._entries

    def _groups(self, key: str | None, fingerprint: str | None) -> list[list[StoredExchange[E]]]:
        if key is None:
            return [self._by_fingerprint.get(fingerprint, [])]
        slot = self._slot(key)
        if fingerprint is None:
            return [slot]
        if key not in self._slot_groups:
            self._slot_groups[key] = _group_by_fingerprint(slot)
        groups = self._slot_groups[key]
        return [groups.get(fingerprint, []), groups.get(None, [])]

    def _slot(self, key: str) -> list[StoredExchange[E]]:
        """Return the exchanges of a key."""
        slot = self._slots.get(key)
        if slot is None and key in self._entries:
            first, repeats = self._first_ids[key], _is_single(self._entries[key])
            exchanges = enumerate(exchanges_of(self._entries, key), first)
            slot = self._slots[key] = [StoredExchange(number, key, exchange, repeats) for number, exchange in exchanges]
        return slot or []

    @cached_property
    def _first_ids(self) -> dict[str, int]:
        """The id of the first exchange of each key."""
        first_ids, count = {}, 0
        for key, entry in self._entries.items():
            first_ids[key] = count
            count += len(entry) if isinstance(entry, list) else 1
        return first_ids

    @cached_property
    def _by_fingerprint(self) -> _Groups[E]:
        return _group_by_fingerprint(self)


def _is_single(entry: E | list[E]) -> bool:
    """Return whether an entry answers every call: alone, or next to exchanges with a `when`."""
    if not isinstance(entry, list):
        return True
    plain = sum(not is_conditional(exchange.fingerprint) for exchange in entry)
    return plain == 1 < len(entry)


def _group_by_fingerprint(stored: Iterable[StoredExchange[E]]) -> _Groups[E]:
    groups: _Groups[E] = {}
    for item in stored:
        groups.setdefault(item.fingerprint, []).append(item)
    return groups


class MemoryReader(MemoryIndex[Exchange]):
    """A document, open for reading."""

    def __init__(self, document: Document, *, source: str) -> None:
        super().__init__(document.entries, source=source)
        self.version, self.meta = document.version, document.meta
        self.tools = MemoryIndex(document.tools, source=source)

    def close(self) -> None:
        return None
