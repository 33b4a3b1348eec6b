"""A reader's place in a recording: which exchange answers the next call."""

from __future__ import annotations

from collections.abc import Set
from typing import Generic

from msgspec import Struct

from offbook.errors import MismatchKind
from offbook.events import MatchedBy
from offbook.recording.format.document import E
from offbook.recording.stores.store import ExchangeIndex, StoredExchange


class ExchangeMatch(Struct, Generic[E], frozen=True, gc=False):
    """What answers a call. `mismatch` tells why a strict reader must refuse it; `stored` is None if nothing is near."""

    matched_by: MatchedBy
    stored: StoredExchange[E] | None = None
    mismatch: MismatchKind | None = None


class UnusedEntry(Struct, frozen=True):
    """An exchange that was never served: its key, and its place in the key's list from 0."""

    key: str
    position: int


class Cursor(Generic[E]):
    """One reader's way along a row: each exchange of a list is served once, in order, to the request it fits."""

    def __init__(self, row: ExchangeIndex[E]) -> None:
        self._row = row
        self._used: set[int] = set()
        self._after: dict[tuple[str | None, str | None], int] = {}

    def match(self, step_id: str | None, fingerprint: str) -> ExchangeMatch[E]:
        """What answers a call of `step_id`, whose request has `fingerprint`. Nothing is served until it is used."""
        if step_id is not None:
            match = self.match_key(step_id, "step_id", fingerprint)
            if match is not None:
                return match
        return self.match_key(fingerprint, "prompt_hash", fingerprint) or self._match_anywhere(fingerprint)

    def match_key(self, key: str, matched_by: MatchedBy, fingerprint: str) -> ExchangeMatch[E] | None:
        """What answers among the exchanges of one key, if it has any."""
        only = self._row.only(key)
        if only is not None:
            fits = (only.exchange.fingerprint or fingerprint) == fingerprint
            return ExchangeMatch(matched_by, only, None if fits else "drifted")
        last = self._row.last(key=key, fingerprint=None)
        if last is None:
            return None
        fitting = self._next(key, fingerprint)
        if fitting is not None:
            return ExchangeMatch(matched_by, fitting)
        served = self._row.last(key=key, fingerprint=fingerprint)
        following = self._next(key, None)
        if following is not None:
            return ExchangeMatch(matched_by, following, "drifted" if served is None else "exhausted")
        return ExchangeMatch(matched_by, served or last, "exhausted")

    def use(self, stored: StoredExchange[E]) -> None:
        """Count the exchange as served."""
        self._used.add(stored.id)

    def is_used(self, stored: StoredExchange[E]) -> bool:
        """Whether the exchange was served."""
        return stored.id in self._used

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._used

    def unused(self) -> list[UnusedEntry]:
        """The exchanges that were never served, in the row's order."""
        left, positions = [], dict[str, int]()
        for stored in self._row:
            position = positions[stored.key] = positions.get(stored.key, -1) + 1
            if stored.id not in self._used:
                left.append(UnusedEntry(stored.key, position))
        return left

    def _match_anywhere(self, fingerprint: str) -> ExchangeMatch[E]:
        """What answers an equal request, under whatever key it was recorded."""
        unused = self._next(None, fingerprint)
        if unused is not None:
            return ExchangeMatch("prompt_hash", unused)
        last = self._row.last(key=None, fingerprint=fingerprint)
        if last is None:
            return ExchangeMatch("default", mismatch="missing")
        return ExchangeMatch("prompt_hash", last, None if last.repeats else "exhausted")

    def _next(self, key: str | None, fingerprint: str | None) -> StoredExchange[E] | None:
        """The first unused exchange of those that fit."""
        place = (key, fingerprint)
        after = self._after.get(place, -1)
        while (stored := self._row.find(key=key, fingerprint=fingerprint, after=after)) is not None:
            if stored.id not in self._used:
                break
            after = self._after[place] = stored.id
        return stored
