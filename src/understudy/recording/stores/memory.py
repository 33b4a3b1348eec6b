"""A recording in memory, indexed by key, and by fingerprint once asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import attrgetter

from understudy.recording.document import Document
from understudy.recording.exchange import Exchange
from understudy.recording.stores.store import Stored

_id = attrgetter("id")
_Groups = dict[str | None, list[Stored]]


class MemoryShelf:
    """A document, open for reading. What is put on the shelf is made when it is first asked for."""

    def __init__(self, document: Document, *, source: str) -> None:
        self.source, self.version, self.meta = source, document.version, document.meta
        self._document = document
        self._slots: dict[str, list[Stored]] = {}
        self._slot_groups: dict[str, _Groups] = {}

    def only(self, key: str) -> Stored | None:
        entry = self._document.entries.get(key)
        return Stored(self._first_ids[key], key, entry, True) if isinstance(entry, Exchange) else None

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> Stored | None:
        groups = self._groups(key, fingerprint)
        found = [group[place] for group in groups if (place := bisect_right(group, after, key=_id)) < len(group)]
        return min(found, key=_id, default=None)

    def last(self, *, key: str | None, fingerprint: str | None) -> Stored | None:
        return max((group[-1] for group in self._groups(key, fingerprint) if group), key=_id, default=None)

    def __iter__(self) -> Iterator[Stored]:
        return (stored for key in self._document.entries for stored in self._slot(key))

    def __len__(self) -> int:
        return sum(1 for _ in self._document)

    def close(self) -> None:
        return None

    def _groups(self, key: str | None, fingerprint: str | None) -> list[list[Stored]]:
        if key is None:
            return [self._by_fingerprint.get(fingerprint, [])]
        slot = self._slot(key)
        if fingerprint is None:
            return [slot]
        if key not in self._slot_groups:
            self._slot_groups[key] = _grouped(slot)
        groups = self._slot_groups[key]
        return [groups.get(fingerprint, []), groups.get(None, [])]

    def _slot(self, key: str) -> list[Stored]:
        """The exchanges of a key."""
        slot = self._slots.get(key)
        if slot is None and key in self._document.entries:
            first, repeats = self._first_ids[key], not isinstance(self._document.entries[key], list)
            exchanges = enumerate(self._document.exchanges(key), first)
            slot = self._slots[key] = [Stored(number, key, exchange, repeats) for number, exchange in exchanges]
        return slot or []

    @cached_property
    def _first_ids(self) -> dict[str, int]:
        """The id of the first exchange of each key."""
        first_ids, count = {}, 0
        for key, entry in self._document.entries.items():
            first_ids[key] = count
            count += len(entry) if isinstance(entry, list) else 1
        return first_ids

    @cached_property
    def _by_fingerprint(self) -> _Groups:
        return _grouped(self)


def _grouped(stored: Iterable[Stored]) -> _Groups:
    groups: _Groups = {}
    for item in stored:
        groups.setdefault(item.fingerprint, []).append(item)
    return groups
