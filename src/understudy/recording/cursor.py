"""A reader's place in a recording: which exchange answers the next call."""

from __future__ import annotations

from msgspec import Struct

from understudy.errors import MismatchKind
from understudy.events import MatchedBy
from understudy.recording.stores.store import Shelf, Stored


class Match(Struct, frozen=True, gc=False):
    """What answers a call. `mismatch` tells why a strict reader must refuse it; `stored` is None if nothing is near."""

    matched_by: MatchedBy
    stored: Stored | None = None
    mismatch: MismatchKind | None = None


class Cursor:
    """One reader's way through a shelf: each exchange of a list is served once, in order, to the request it fits."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._used: set[int] = set()
        self._after: dict[tuple[str | None, str | None], int] = {}

    def match(self, step_id: str | None, fingerprint: str) -> Match:
        """What answers a call of `step_id`, whose request has `fingerprint`. Nothing is served until it is used."""
        if step_id is not None:
            match = self._match_key(step_id, "step_id", fingerprint)
            if match is not None:
                return match
        return self._match_key(fingerprint, "prompt_hash", fingerprint) or self._match_anywhere(fingerprint)

    def use(self, stored: Stored) -> None:
        """Count the exchange as served."""
        self._used.add(stored.id)

    def is_used(self, stored: Stored) -> bool:
        """Whether the exchange has answered a call."""
        return stored.id in self._used

    def _match_key(self, key: str, matched_by: MatchedBy, fingerprint: str) -> Match | None:
        """What answers among the exchanges of one key, if it has any."""
        only = self._shelf.only(key)
        if only is not None:
            fits = (only.exchange.request_hash or fingerprint) == fingerprint
            return Match(matched_by, only, None if fits else "drifted")
        last = self._shelf.last(key=key, fingerprint=None)
        if last is None:
            return None
        fitting = self._next(key, fingerprint)
        if fitting is not None:
            return Match(matched_by, fitting)
        served = self._shelf.last(key=key, fingerprint=fingerprint)
        following = self._next(key, None)
        if following is not None:
            return Match(matched_by, following, "drifted" if served is None else "exhausted")
        return Match(matched_by, served or last, "exhausted")

    def _match_anywhere(self, fingerprint: str) -> Match:
        """What answers an equal request, under whatever key it was recorded."""
        unused = self._next(None, fingerprint)
        if unused is not None:
            return Match("prompt_hash", unused)
        last = self._shelf.last(key=None, fingerprint=fingerprint)
        if last is None:
            return Match("default", mismatch="missing")
        return Match("prompt_hash", last, None if last.repeats else "exhausted")

    def _next(self, key: str | None, fingerprint: str | None) -> Stored | None:
        """The first unused exchange of those that fit."""
        place = (key, fingerprint)
        after = self._after.get(place, -1)
        while (stored := self._shelf.find(key=key, fingerprint=fingerprint, after=after)) is not None:
            if stored.id not in self._used:
                break
            after = self._after[place] = stored.id
        return stored
