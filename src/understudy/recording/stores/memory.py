"""A recording in memory, indexed by key and by fingerprint."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from understudy.recording.document import Document
from understudy.recording.stores.store import Stored

_id = attrgetter("id")


class _Slot:
    """The exchanges of one key, findable by fingerprint once asked for."""

    __slots__ = ("_by_fingerprint", "stored")

    def __init__(self, stored: list[Stored]) -> None:
        self.stored = stored
        self._by_fingerprint: dict[str | None, list[Stored]] | None = None

    def fitting(self, fingerprint: str | None) -> list[Stored]:
        if self._by_fingerprint is None:
            self._by_fingerprint = _grouped(self.stored)
        return self._by_fingerprint.get(fingerprint, [])


def _grouped(stored: list[Stored]) -> dict[str | None, list[Stored]]:
    groups: dict[str | None, list[Stored]] = {}
    for item in stored:
        groups.setdefault(item.fingerprint, []).append(item)
    return groups


class MemoryShelf:
    """A document, open for reading."""

    def __init__(self, document: Document, *, source: str) -> None:
        self.source, self.version, self.meta = source, document.version, document.meta
        self._all: list[Stored] = []
        self._only: dict[str, Stored] = {}
        self._slots: dict[str, _Slot] = {}
        for key, entry in document.entries.items():
            if isinstance(entry, list):
                self._slots[key] = _Slot([self._put(Stored(len(self._all), key, e, repeats=False)) for e in entry])
            else:
                self._only[key] = self._put(Stored(len(self._all), key, entry, repeats=True))
        self._by_fingerprint = _grouped(self._all)

    def _put(self, stored: Stored) -> Stored:
        self._all.append(stored)
        return stored

    def only(self, key: str) -> Stored | None:
        return self._only.get(key)

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> Stored | None:
        groups = self._groups(key, fingerprint)
        found = [group[place] for group in groups if (place := bisect_right(group, after, key=_id)) < len(group)]
        return min(found, key=_id, default=None)

    def last(self, *, key: str | None, fingerprint: str | None) -> Stored | None:
        return max((group[-1] for group in self._groups(key, fingerprint) if group), key=_id, default=None)

    def _groups(self, key: str | None, fingerprint: str | None) -> list[list[Stored]]:
        if key is None:
            return [self._by_fingerprint.get(fingerprint, [])]
        if key in self._only:
            only = self._only[key]
            return [[only]] if fingerprint is None or only.fingerprint in (None, fingerprint) else []
        slot = self._slots.get(key)
        if slot is None:
            return []
        return [slot.stored] if fingerprint is None else [slot.fitting(fingerprint), slot.fitting(None)]

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def close(self) -> None:
        return None
