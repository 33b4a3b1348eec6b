"""Which recorded exchange answers the next call: in the order of a recording, or along the script of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Generic, TypeVar

from msgspec import Struct

from offbook.errors import MismatchKind
from offbook.events import MatchedBy
from offbook.recording.format.document import E
from offbook.recording.stores.store import ExchangeIndex, StoredExchange

T = TypeVar("T")


class ExchangeMatch(Struct, Generic[E], frozen=True, gc=False):
    """What answers a call. `mismatch` is why a strict replay refuses it; `stored` is None if nothing is near."""

    matched_by: MatchedBy
    stored: StoredExchange[E] | None = None
    mismatch: MismatchKind | None = None


class UnusedEntry(Struct, frozen=True):
    """An exchange that was never served: its key, and its position in the list of that key, from 0."""

    key: str
    position: int


class Cursor(Generic[E]):
    """The position of a replay in an index: each exchange of a list is served once, in order, to a request it fits."""

    def __init__(self, index: ExchangeIndex[E]) -> None:
        self._index = index
        self._used: set[int] = set()
        self._after: dict[tuple[str | None, str | None], int] = {}

    def match(self, step_id: str | None, fingerprint: str) -> ExchangeMatch[E]:
        """Return what answers a call of `step_id` whose request has `fingerprint`. It counts as served after `use`."""
        if step_id is not None:
            match = self.match_key(step_id, "step_id", fingerprint)
            if match is not None:
                return match
        return self.match_key(fingerprint, "prompt_hash", fingerprint) or self._match_anywhere(fingerprint)

    def match_key(self, key: str, matched_by: MatchedBy, fingerprint: str) -> ExchangeMatch[E] | None:
        """Return what answers among the exchanges of one key; None if the key has none."""
        repeating = self._index.repeating(key)
        if repeating is not None:
            fits = (repeating.exchange.fingerprint or fingerprint) == fingerprint
            return ExchangeMatch(matched_by, repeating, None if fits else "drifted")
        last = self._index.last(key=key, fingerprint=None)
        if last is None:
            return None
        fitting = self._next(key, fingerprint)
        if fitting is not None:
            return ExchangeMatch(matched_by, fitting)
        served = self._index.last(key=key, fingerprint=fingerprint)
        following = self._next(key, None)
        if following is not None:
            return ExchangeMatch(matched_by, following, "drifted" if served is None else "exhausted")
        return ExchangeMatch(matched_by, served or last, "exhausted")

    def use(self, stored: StoredExchange[E]) -> None:
        """Count the exchange as served."""
        self._used.add(stored.id)

    def is_used(self, stored: StoredExchange[E]) -> bool:
        """Return whether the exchange was served."""
        return stored.id in self._used

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._used

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the index."""
        left, positions = [], dict[str, int]()
        for stored in self._index:
            position = positions[stored.key] = positions.get(stored.key, -1) + 1
            if stored.id not in self._used:
                left.append(UnusedEntry(stored.key, position))
        return left

    def _match_anywhere(self, fingerprint: str) -> ExchangeMatch[E]:
        """Return what answers an equal request, whatever its key."""
        unused = self._next(None, fingerprint)
        if unused is not None:
            return ExchangeMatch("prompt_hash", unused)
        last = self._index.last(key=None, fingerprint=fingerprint)
        if last is None:
            return ExchangeMatch("default", mismatch="missing")
        return ExchangeMatch("prompt_hash", last, None if last.repeats else "exhausted")

    def _next(self, key: str | None, fingerprint: str | None) -> StoredExchange[E] | None:
        """Return the first unused exchange of those that fit."""
        place = (key, fingerprint)
        after = self._after.get(place, -1)
        while (stored := self._index.find(key=key, fingerprint=fingerprint, after=after)) is not None:
            if stored.id not in self._used:
                break
            after = self._after[place] = stored.id
        return stored


class ResponseScript(Generic[T]):
    """The responses of a run to each request, in order."""

    def __init__(self) -> None:
        self._responses: dict[tuple[str, str], list[T]] = {}

    def add(self, name: str, fingerprint: str, response: T) -> None:
        """Add a response. `name` is the step or tool of the call, `fingerprint` identifies its request."""
        self._responses.setdefault((name, fingerprint), []).append(response)

    def script_reader(self) -> ScriptReader[T]:
        """Return a reader that starts at the beginning."""
        return ScriptReader(self._responses)


class ScriptReader(Generic[T]):
    """Reads a script in one run: equal requests get their responses in order, and then the last one repeatedly."""

    def __init__(self, responses: Mapping[tuple[str, str], list[T]]) -> None:
        self._responses = responses
        self._learnt: dict[tuple[str, str], list[T]] = {}
        self._served = Counter[tuple[str, str]]()

    def peek(self, name: str, fingerprint: str) -> T | None:
        """Return the next response without serving it; None if the script has none for such a request."""
        responses = self._responses.get((name, fingerprint)) or self._learnt.get((name, fingerprint))
        return None if responses is None else responses[min(self._served[name, fingerprint], len(responses) - 1)]

    def take(self, name: str, fingerprint: str) -> T | None:
        """Serve the next response and return it; None if the script has none for such a request."""
        response = self.peek(name, fingerprint)
        if response is not None:
            self._served[name, fingerprint] += 1
        return response

    def give_back(self, name: str, fingerprint: str) -> None:
        """Take back the last response, which did not arrive: it is next again."""
        if self._served[name, fingerprint] > 0:
            self._served[name, fingerprint] -= 1

    def learn(self, name: str, fingerprint: str, response: T) -> None:
        """Add a response that the script does not have, for this run only. It counts as served."""
        self._learnt.setdefault((name, fingerprint), []).append(response)
        self._served[name, fingerprint] += 1
