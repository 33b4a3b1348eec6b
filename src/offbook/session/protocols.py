"""Which entries of a recording answer the same conversation in another protocol."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson

from offbook.messages import JsonObject
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import Cursor, ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields, without_nulls
from offbook.recording.stores.store import RecordingReader, StoredExchange
from offbook.session.call import Call
from offbook.vendors import CODEC_NAMES


class CrossProtocolIndex:
    """The entries of a recording that also answer requests other than the one they were recorded with.

    In another protocol, the same conversation has other parameters and another model name: an entry that was recorded
    in another protocol answers requests with the same messages and tools. An entry that does not say which request it
    answers, answers any.
    """

    def __init__(self, reader: RecordingReader, rules: NormaliseRules) -> None:
        self._rules = rules
        self._by_conversation: dict[str, list[StoredExchange[Exchange]]] = {}
        self._protocols = set[str]()
        self._without_request: list[StoredExchange[Exchange]] = []
        for stored in reader:
            if stored.fingerprint is None:
                self._without_request.append(stored)
            elif (fields := stored.exchange.request_fields()) is not None:
                self._by_conversation.setdefault(self._conversation(fields), []).append(stored)
                self._protocols.add(_recorded_protocol(stored))

    def find(self, call: Call, cursor: Cursor[Exchange]) -> ExchangeMatch[Exchange] | None:
        """Return the first entry that matches and was not served, or the last that matches and repeats."""
        matching = self._recorded_in_others(call) or self._without_request
        unused = next((stored for stored in matching if not cursor.is_used(stored)), None)
        found = unused or next((stored for stored in reversed(matching) if stored.repeats), None)
        if found is not None or not matching:
            return None if found is None else ExchangeMatch("prompt_hash", found)
        return ExchangeMatch("prompt_hash", matching[-1], "exhausted")

    def _recorded_in_others(self, call: Call) -> list[StoredExchange[Exchange]]:
        """Return the entries of the same conversation that were recorded in other protocols."""
        if self._protocols <= {call.protocol}:
            return []
        same = self._by_conversation.get(self._conversation(orjson.loads(call.fields)), [])
        return [each for each in same if _recorded_protocol(each) != call.protocol]

    def _conversation(self, fields: JsonObject) -> str:
        messages = [_with_parsed_arguments(message) for message in without_nulls(fields["messages"])]
        conversation = {"messages": messages, "tools": fields.get("tools", [])}
        return sha256(canonical_bytes(normalise_fields(conversation, self._rules))).hexdigest()


def _with_parsed_arguments(message: JsonObject) -> JsonObject:
    """Return a message whose tool calls have their arguments as JSON values: protocols write them differently."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [_parsed_call(call) for call in calls]} if isinstance(calls, list) else message


def _parsed_call(call: Any) -> Any:
    try:
        return call | {"function": call["function"] | {"arguments": orjson.loads(call["function"]["arguments"])}}
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return call


def _recorded_protocol(stored: StoredExchange[Exchange]) -> str:
    """Return the protocol that the entry was recorded in; empty if it does not say."""
    wire = stored.exchange.wire
    return CODEC_NAMES.get(stored.exchange.provider, "") if wire is None else wire.protocol
