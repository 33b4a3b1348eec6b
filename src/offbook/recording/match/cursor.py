"""The recorded exchange that answers the next call, in the order of a recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Set
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import wall_time
from offbook.errors import MismatchKind
from offbook.events import MatchedBy
from offbook.messages import JsonObject, Response
from offbook.recording.format.document import E
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_fingerprint
from offbook.recording.match.fingerprint import (
    NormaliseRules,
    apply_rules,
    canonical_bytes,
    normalise_fields,
    without_nulls,
)
from offbook.recording.match.folders import NO_RENAMES, Renames, without_home_names
from offbook.recording.redact.rules import has_rules_in_force, mask_text
from offbook.recording.stores.store import Claim, ExchangeIndex, SharedIndex, SharedReader, StoredExchange

if TYPE_CHECKING:
    from offbook.recording.match.harmless import HarmlessDifference, PlainText

_SHORTEST_SECRET = 8


RequestKey: TypeAlias = tuple[str, str]
"""The common identity of equal requests: the name of the step or tool, and the fingerprint."""


class ExchangeMatch(Struct, Generic[E], frozen=True, gc=False):
    """The answer to a call. `mismatch` is a strict replay's reason to refuse it; `stored` is None without a near entry.

    `but_for` names a harmless difference, like `a time`, or is empty for equal requests. In an exploration,
    `script_key` is the answer's place in the script, and `fields` are the clean run's request there. `given` is the
    response to an unrecorded request. `folders` are recorded folder names with the request's own, and `renamed` is the
    recorded exchange with this run's folders.
    """

    matched_by: MatchedBy
    stored: StoredExchange[E] | None = None
    mismatch: MismatchKind | None = None
    script_key: RequestKey = ("", "")
    fields: bytes = b""
    given: Response | None = None
    but_for: tuple[str, ...] = ()
    folders: dict[str, str] = {}
    renamed: E | None = None

    @property
    def exchange(self) -> E:
        """The `stored` exchange as the caller gets it, with the folders of this run."""
        assert self.stored is not None
        return self.stored.exchange if self.renamed is None else self.renamed

    def with_folders(self, renames: Renames) -> ExchangeMatch[E]:
        """Return the match with these folder names in the caller's answer. Raises like `Renames.text`."""
        if self.stored is None or (renames is NO_RENAMES and self.renamed is None):
            return self
        renamed = renames.exchange(self.stored.exchange)
        return replace(self, renamed=None if renamed is self.stored.exchange else renamed)

    @property
    def key(self) -> str | None:
        return None if self.stored is None else self.stored.key


class UnusedEntry(Struct, frozen=True, omit_defaults=True):
    """An exchange that was never served: its key, and its position in the list of that key, from 0.

    `recording` names its recording, if there are several.
    """

    key: str
    position: int
    recording: str = ""


class OverusedEntry(Struct, frozen=True):
    """An exchange that was recorded once and served `served` times: its key, and its `exchange`."""

    key: str
    exchange: Exchange
    served: int


def unserved(index: ExchangeIndex[E], served: Container[int]) -> Iterator[tuple[int, StoredExchange[E]]]:
    """Yield the unserved exchanges, each with its position in the list of its key, from 0.

    Those with a `when` are omitted, because they answer only otherwise unanswered calls.
    """
    positions = dict[str, int]()
    for stored in index:
        position = positions[stored.key] = positions.get(stored.key, -1) + 1
        if stored.id not in served and not stored.is_conditional:
            yield position, stored


class Cursor(Generic[E]):
    """The position of a replay in an index: each exchange of a list is served once, in order, to a request it fits."""

    def __init__(self, index: ExchangeIndex[E]) -> None:
        self._index = index
        self._used: dict[int, int] = {}
        self._after: dict[tuple[str | None, str | None], int] = {}

    def match(self, step_id: str | None, fingerprint: str) -> ExchangeMatch[E]:
        """Return the answer to a call of `step_id` whose request has `fingerprint`. It counts as served after `use`."""
        if step_id is not None:
            match = self.match_key(step_id, "step_id", fingerprint)
            if match is not None:
                return match
        return self.match_key(fingerprint, "prompt_hash", fingerprint) or self._match_anywhere(fingerprint)

    def match_key(self, key: str, matched_by: MatchedBy, fingerprint: str) -> ExchangeMatch[E] | None:
        """Return the answer among the exchanges of one key, or None without any."""
        repeating = self._index.repeating(key)
        if repeating is not None:
            fits = (repeating.exchange.fingerprint or fingerprint) == fingerprint
            return ExchangeMatch(matched_by, repeating, None if fits else "drifted")
        last = self._index.last(key=key, fingerprint=None)
        if last is None:
            masked = _masked_key(key) if matched_by == "step_id" else key  # fingerprints are not masked
            return None if masked == key else self.match_key(masked, matched_by, fingerprint)
        fitting = self._next(key, fingerprint)
        if fitting is not None:
            return ExchangeMatch(matched_by, fitting)
        served = self._index.last(key=key, fingerprint=fingerprint)
        following = self._next(key, None)
        if following is not None:
            return ExchangeMatch(matched_by, following, "drifted" if served is None else "exhausted")
        if served is None and last.is_conditional:
            return None
        return ExchangeMatch(matched_by, served or last, "exhausted")

    def use(self, stored: StoredExchange[E]) -> None:
        """Count the exchange as served."""
        self._used[stored.id] = self._used.get(stored.id, 0) + 1

    def rewind(self) -> None:
        """Count no exchange as served."""
        self._used.clear()
        self._after.clear()

    def is_used(self, stored: StoredExchange[E]) -> bool:
        """Return whether the exchange was served."""
        return stored.id in self._used

    @property
    def used_ids(self) -> Set[int]:
        """The ids of the exchanges that were served."""
        return self._used.keys()

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served by another replay of the same recording."""
        for served in ids:
            self._used[served] = self._used.get(served, 0) + 1

    def unserved(self) -> Iterator[tuple[int, StoredExchange[E]]]:
        """Yield the exchanges that were never served, in the order of the index, with their positions in their keys."""
        return unserved(self._index, self._used)

    def overused(self) -> list[OverusedEntry]:
        """Return the recorded answers of models that were served more often than they were recorded.

        An entry that was written by hand may answer any number of calls, and so may a recorded failure: clients retry
        it.
        """
        again = {served: times for served, times in self._used.items() if times > 1}
        return [
            OverusedEntry(stored.key, stored.exchange, again[stored.id])
            for stored in (self._index if again else ())
            if stored.id in again and stored.repeats and isinstance(stored.exchange, Exchange)
            if stored.exchange.recorded_at is not None
            and stored.exchange.fault is None
            and stored.exchange.request_fields()
        ]

    def _match_anywhere(self, fingerprint: str) -> ExchangeMatch[E]:
        """Return the answer to an equal request under any key."""
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
            if stored.id not in self._used and not stored.is_conditional:
                break
            after = self._after[place] = stored.id
        return stored


class PositionCursor(Cursor[Exchange]):
    """A cursor of a session that other processes also answer and move."""

    def follow(self, claim: Claim) -> None:
        """Adopt the changes of all processes."""
        if claim.is_restarted:
            self._used.clear()
        if claim.is_restarted or min(claim.changes, default=0) < 0:
            self._after.clear()
        for change in claim.changes:
            if change > 0:
                self._used.setdefault(change, 1)
            else:
                self._used.pop(-change, None)

    @contextmanager
    def supposing(self) -> Iterator[Callable[[StoredExchange[Exchange]], None]]:
        """Count an exchange as served until the block ends."""
        after, supposed = self._after.copy(), list[StoredExchange[Exchange]]()

        def suppose(stored: StoredExchange[Exchange]) -> None:
            supposed.append(stored)
            self.use(stored)

        try:
            yield suppose
        finally:
            self._after = after
            for stored in supposed:
                del self._used[stored.id]


class SharedCursor(Cursor[Exchange]):
    """A cursor over a cache: equal requests of a step always get equal answers.

    An unanswered request is looked up again, because another process may have recorded it meanwhile.
    """

    def __init__(self, reader: SharedReader) -> None:
        super().__init__(reader)
        self._reader = reader

    def overused(self) -> list[OverusedEntry]:
        """Return nothing: a cache serves its exchanges any number of times."""
        return []

    def match(self, step_id: str | None, fingerprint: str) -> ExchangeMatch[Exchange]:
        keys = [fingerprint] if step_id is None else [step_id, _masked_key(step_id), fingerprint]
        is_known = self._reader.has_read(*keys)
        match = self._match_again(step_id, fingerprint)
        if match.mismatch is None or not is_known:
            return match
        self._reader.refresh(*keys)
        return self._match_again(step_id, fingerprint)

    def _match_again(self, step_id: str | None, fingerprint: str) -> ExchangeMatch[Exchange]:
        match = super().match(step_id, fingerprint)
        if match.mismatch != "exhausted" or match.stored is None:
            return match
        last = self._index.last(key=match.stored.key, fingerprint=fingerprint)
        return match if last is None or last.is_conditional else ExchangeMatch(match.matched_by, last)


class SharedToolCursor(Cursor[ToolExchange]):
    """A cursor over the tool calls of a recording that others extend. Unlike model calls, equal calls are
    distinguished: the second call of a tool may have another result, so each exchange is served once.
    """

    def __init__(self, index: SharedIndex[ToolExchange]) -> None:
        super().__init__(index)
        self._shared = index

    def match_key(self, key: str, matched_by: MatchedBy, fingerprint: str) -> ExchangeMatch[ToolExchange] | None:
        is_known = self._shared.has_read(key)
        match = super().match_key(key, matched_by, fingerprint)
        if not is_known or (match is not None and match.mismatch is None):
            return match
        self._shared.refresh(key)
        return super().match_key(key, matched_by, fingerprint)


def _masked_key(key: str) -> str:
    """Return a recorder's key for a step or a tool whose name has a secret, by the active rules."""
    is_innocent = len(key) < _SHORTEST_SECRET or key.isalnum()  # as most names are
    if is_fingerprint(key) or (is_innocent and not has_rules_in_force()):
        return key
    return mask_text(key)


_UNTOLD = bytes(set(range(128)) - set(b"\"'(){}[]<>"))
_PLAIN_WORDS = re.compile(r"[^\d/\\]*")


class AlikeRequests:
    """The recorded requests that differ from one that is made now in nothing that counts.

    The fingerprint covers all of a request. So this is asked only where nothing matches: a recording answers on the
    machine of another user, on another day, and another version of an SDK that sends `"caller": null`.
    """

    def __init__(self, recorded: Iterable[StoredExchange[Exchange]], rules: NormaliseRules) -> None:
        self._recorded, self._rules = recorded, rules

    def match(
        self, cursor: Cursor[Exchange], step_id: str | None, fields: JsonObject, began: datetime
    ) -> ExchangeMatch[Exchange] | None:
        """Return the answer to a request with these fields, ignoring harmless differences, or None.

        `began` is the start of the asking run.
        """
        for fingerprint, difference in self.find(fields, began):
            match = cursor.match(step_id, fingerprint)
            if match.mismatch is None and not (match.stored and is_named_in(match.stored.exchange, difference)):
                return replace(match, but_for=difference.kinds, folders=difference.folders)
        return None

    def find(self, fields: JsonObject, began: datetime) -> list[tuple[str, HarmlessDifference]]:
        """Return the fingerprints of the recorded requests that ask the same, those with the least differences first.

        `began` is when the run began that asks.
        """
        if self._rules.exact or not self._has_requests:
            return []
        from offbook.recording.match.harmless import Comparison  # noqa: PLC0415 - most runs have equal requests alone
        from offbook.recording.match.moments import RunTimes  # noqa: PLC0415

        now, plain = wall_time(), self._plain(fields)
        found: dict[str, HarmlessDifference] = {}
        for stored in self._by_outline.get(_outline(plain), ()):
            recorded = stored.exchange.request_fields() or stored.exchange.http_fields() or {}
            compared = Comparison(RunTimes.of(stored.exchange.recorded_at, began, now), plain_text(self._rules))
            if stored.fingerprint not in (None, *found) and compared.is_harmless(self._plain(recorded), plain):
                found[stored.fingerprint or ""] = compared.difference
        return sorted(found.items(), key=lambda each: len(each[1].kinds))

    @cached_property
    def _has_requests(self) -> bool:
        """Whether there is a recorded request. Hand-written entries have none."""
        return any(each.fingerprint is not None for each in self._recorded)

    @cached_property
    def _by_outline(self) -> dict[bytes, list[StoredExchange[Exchange]]]:
        found: dict[bytes, list[StoredExchange[Exchange]]] = {}
        for stored in self._recorded:
            fields = (
                None
                if stored.fingerprint is None
                else (stored.exchange.request_fields() or stored.exchange.http_fields())
            )
            if fields is not None:
                found.setdefault(_outline(self._plain(fields)), []).append(stored)
        return found

    def _plain(self, fields: JsonObject) -> JsonObject:
        if "messages" in fields:
            return normalise_fields(fields | {"messages": without_nulls(fields["messages"])}, self._rules)
        return apply_rules(fields, self._rules)


def plain_text(rules: NormaliseRules) -> PlainText:
    """Return the text without the names of home folders, if these do not count."""

    def without_homes(text: str) -> str:
        return without_home_names(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    return without_homes if rules.home_paths else str


def _outline(fields: JsonObject) -> bytes:
    """Return what requests have in common that may be alike: their brackets and quotes, and last words without digits.

    Only requests with the same outline are compared.
    """
    rest = {name: value for name, value in fields.items() if name not in ("extra", "tools")}
    last = fields["messages"][-1].get("content") if fields.get("messages") else None
    words = last.encode("utf-8", "surrogatepass") if isinstance(last, str) and _PLAIN_WORDS.fullmatch(last) else b""
    return sha256(canonical_bytes(rest).translate(None, _UNTOLD) + words).digest()


def is_named_in(exchange: Exchange | ToolExchange, difference: HarmlessDifference) -> bool:
    """Return whether a recorded answer has a name, such as that of a process, that is another one in this run."""
    if not difference.renamed:
        return False
    wire = b"" if exchange.wire is None else exchange.wire.content()
    if isinstance(exchange, ToolExchange):
        said: tuple[Any, ...] = (exchange.result, exchange.error)
    else:
        said = (exchange.content, exchange.reasoning, exchange.tool_calls)
    texts = (msgspec.json.encode(said).decode(), wire.decode("utf-8", "replace"))
    return any(map(difference.is_named_in, texts))


def without_defaults(arguments: JsonObject, defaults: JsonObject) -> JsonObject:
    """Return the arguments of a call that differ from their defaults."""
    missing = object()
    return {
        name: value
        for name, value in arguments.items()
        if type(defaults.get(name, missing)) is not type(value) or defaults[name] != value
    }


class AlikeArguments:
    """The recorded tool calls, found by the meaning of their arguments.

    Names of home and temporary folders do not count, and an explicit default equals an omitted one.

    Like `AlikeRequests`, this is asked only where nothing matches.
    """

    def __init__(self, index: ExchangeIndex[ToolExchange], rules: NormaliseRules) -> None:
        self._index, self._rules = index, rules
        self._known: dict[str, dict[str, dict[str, JsonObject]]] = {}
        self._defaults: dict[str, JsonObject] = {}

    def note_defaults(self, key: str, defaults: JsonObject) -> None:
        """Note the defaults of a tool's arguments, as the program has them now."""
        if defaults != self._defaults.get(key, {}):
            self._defaults[key] = defaults
            self._known.pop(key, None)

    def find(self, key: str, arguments: JsonObject) -> list[tuple[str, HarmlessDifference]]:
        """Return the fingerprints of a key's recorded calls with equivalent arguments, in order."""
        if self._rules.exact:
            return []
        if key not in self._known:
            known = self._known[key] = {}
            for stored in self._calls_of(key):
                meaning = self.recorded_meaning(stored)
                if meaning is not None and stored.fingerprint is not None:
                    meaning = self._normalised(meaning)
                    known.setdefault(self._hash(meaning), {})[stored.fingerprint] = meaning
        from offbook.recording.match.harmless import Comparison  # noqa: PLC0415 - most runs have equal calls alone
        from offbook.recording.match.moments import UNKNOWN_TIMES  # noqa: PLC0415

        found: list[tuple[str, HarmlessDifference]] = []
        own = self._normalised(self.meaning(key, arguments))
        for fingerprint, meaning in self._known[key].get(self._hash(own), {}).items():
            compared = Comparison(UNKNOWN_TIMES, plain_text(self._rules))
            if compared.is_same_value(meaning, own):
                found.append((fingerprint, compared.difference))
        return found

    def meaning(self, key: str, arguments: JsonObject) -> JsonObject:
        """Return the relevant arguments of a present call."""
        return without_defaults(arguments, self._defaults.get(key, {}))

    def recorded_meaning(self, stored: StoredExchange[ToolExchange]) -> JsonObject | None:
        """Return the relevant arguments of a recorded call, or None if unknown. The calls of a key come in order."""
        arguments = stored.exchange.arguments
        is_masked = stored.exchange.arguments_hash is not None
        return None if is_masked or not isinstance(arguments, dict) else self.meaning(stored.key, arguments)

    def note_served(self, stored: StoredExchange[ToolExchange]) -> None:
        """Note a caller's result."""

    def _normalised(self, meaning: JsonObject) -> JsonObject:
        cleaned: JsonObject = apply_rules({"arguments": meaning}, self._rules).get("arguments", {})
        return cleaned

    def _calls_of(self, key: str) -> Iterator[StoredExchange[ToolExchange]]:
        stored = self._index.repeating(key) or self._index.find(key=key, fingerprint=None, after=-1)
        while stored is not None:
            yield stored
            stored = None if stored.repeats else self._index.find(key=key, fingerprint=None, after=stored.id)

    def _hash(self, meaning: JsonObject) -> str:
        from offbook.recording.match.harmless import without_temporary_names  # noqa: PLC0415 - see above

        data = msgspec.json.encode(meaning, order="sorted").decode()
        return sha256(without_temporary_names(plain_text(self._rules)(data)).encode()).hexdigest()
