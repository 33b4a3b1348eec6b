"""Finding an answer for a call that no entry was recorded for as it stands: by its conversation, or because it says
nothing of what it answers."""

from __future__ import annotations

from hashlib import sha256

import orjson

from offbook.messages import JsonObject
from offbook.providers.catalog import (
    AnthropicProvider,
    GoogleProvider,
    OllamaProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
)
from offbook.recording.cursor import Cursor, Match
from offbook.recording.exchange import Exchange
from offbook.recording.fingerprint import canonical_bytes, normalised
from offbook.recording.normalise import NormaliseRules
from offbook.recording.stores.store import Shelf, Stored
from offbook.wire.asked import Asked

_SPOKEN_BY = {
    provider.vendor_name: provider.vendor_codec.name
    for provider in (AnthropicProvider, GoogleProvider, OllamaProvider, OpenAIProvider, OpenAIResponsesProvider)
}


class LooseIndex:
    """The entries of a recording that answer more than the very request they were recorded with.

    Spoken in another protocol, a conversation has other parameters around it and names another model: an entry that
    was recorded in another protocol answers the same messages and tools. An entry that does not say which request
    it answers answers any.
    """

    def __init__(self, shelf: Shelf, rules: NormaliseRules) -> None:
        self._rules = rules
        self._by_conversation: dict[str, list[Stored[Exchange]]] = {}
        self._unsaid: list[Stored[Exchange]] = []
        for stored in shelf:
            self._add(stored)

    def find(self, asked: Asked, cursor: Cursor[Exchange]) -> Match[Exchange]:
        """The first entry that fits and was not served; the last that fits and answers every call."""
        if asked.request is None:
            return Match("default", mismatch="missing")
        spoken = self._by_conversation.get(self._conversation(orjson.loads(asked.fields)), [])
        fitting = [stored for stored in spoken if _protocol(stored) != asked.route.protocol] or self._unsaid
        unused = next((stored for stored in fitting if not cursor.is_used(stored)), None)
        found = unused or next((stored for stored in reversed(fitting) if stored.repeats), None)
        if found is not None or not fitting:
            return Match("prompt_hash", found, None if fitting else "missing")
        return Match("prompt_hash", fitting[-1], "exhausted")

    def _add(self, stored: Stored[Exchange]) -> None:
        if stored.fingerprint is None:
            self._unsaid.append(stored)
        elif (fields := stored.exchange.request_fields()) is not None:
            self._by_conversation.setdefault(self._conversation(fields), []).append(stored)

    def _conversation(self, fields: JsonObject) -> str:
        said = {"messages": fields["messages"], "tools": fields.get("tools", [])}
        return sha256(canonical_bytes(normalised(said, self._rules))).hexdigest()


def _protocol(stored: Stored[Exchange]) -> str:
    """The protocol that the entry was recorded in; empty if it does not say."""
    wire = stored.exchange.wire
    return _SPOKEN_BY.get(stored.exchange.provider, "") if wire is None else wire.protocol
