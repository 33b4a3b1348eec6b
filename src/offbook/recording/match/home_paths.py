"""Requests that differ in the home folder alone: a recording made by one user matches on the machine of another.

The fingerprint covers paths as they are. So this is asked only where nothing matches: which recorded requests are equal
if the home folders in both have no name?
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256

from offbook.messages import JsonObject
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import Cursor, ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields
from offbook.recording.stores.store import StoredExchange

_NAME = rb"""[^/\\\s"'`:;,<>()\[\]{}|&*?]+"""
_HOMES = (
    rb"/(?:home|Users)/" + _NAME,
    rb"/root(?![\w.-])",
    rb"[A-Za-z]:\\+Users\\+" + _NAME,  # in JSON, and in JSON inside of that
)
_HOME = b"<home>"


@cache
def _pattern(own_home: bytes) -> re.Pattern[bytes]:
    homes = [re.escape(own_home) + rb"(?![\w.-])"] if len(own_home) > 1 else []
    return re.compile(rb"(?<![\w./\\-])(?:" + b"|".join([*homes, *_HOMES]) + rb")")


def without_home_names(data: bytes) -> bytes:
    """Return JSON in which every home folder is called the same: those of systems, and the one of this process."""
    return _pattern(os.environ.get("HOME", "").rstrip("/").encode("utf-8", "surrogateescape")).sub(_HOME, data)


class HomePaths:
    """The recorded requests that name a home folder, found by what they are without its name."""

    def __init__(self, recorded: Iterable[StoredExchange[Exchange]], rules: NormaliseRules) -> None:
        self._rules = rules
        self._fingerprints: dict[str, dict[str, None]] = {}
        for stored in recorded if rules.home_paths else ():
            self._add(stored)

    @classmethod
    def of(cls, recorded: Iterable[StoredExchange[Exchange]], rules: NormaliseRules) -> HomePaths | None:
        """Return those of a recording; None if it has none, or if its rules say that home folders count."""
        found = cls(recorded, rules)
        return found if found._fingerprints else None

    def match(
        self, cursor: Cursor[Exchange], step_id: str | None, fields: JsonObject
    ) -> ExchangeMatch[Exchange] | None:
        """Return what answers a request with these fields if home folders do not count; None if nothing does."""
        for fingerprint in self._fingerprints.get(self._key(fields), ()):
            match = cursor.match(step_id, fingerprint)
            if match.mismatch is None:
                return match
        return None

    def _add(self, stored: StoredExchange[Exchange]) -> None:
        request = bytes(stored.exchange.request)
        if stored.fingerprint is None or without_home_names(request) == request:
            return
        fields = stored.exchange.request_fields()
        if fields is not None:
            self._fingerprints.setdefault(self._key(fields), {})[stored.fingerprint] = None

    def _key(self, fields: JsonObject) -> str:
        normalised = normalise_fields(fields, self._rules) if "messages" in fields else fields
        return sha256(without_home_names(canonical_bytes(normalised))).hexdigest()
