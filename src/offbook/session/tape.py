"""A recording as shared by the runs that replay it, indexed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from offbook.messages import JsonObject
from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.match.cursor import AlikeArguments, AlikeRequests, Cursor, ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields, without_nulls
from offbook.recording.match.folders import RunFolders
from offbook.recording.stores.store import RecordingReader, StoredExchange
from offbook.session.call import Call

if TYPE_CHECKING:
    from offbook.recording.match.websocket import TurnIndex


MAX_WRITTEN_ENTRIES = 500


class Tape:
    """A recording with its rules and its indexes, which are built on demand.

    A `strict` one refuses unanswered calls; with `exact`, it answers only equal requests, whatever its rules. `but_for`
    counts the calls answered despite a harmless difference, by the kind of difference.

    Raises:
        RecordingFormatError: its rules are invalid.
    """

    def __init__(self, reader: RecordingReader, *, strict: bool, exact: bool = False) -> None:
        self.reader, self.strict = reader, strict
        rules = rules_from_meta(reader.meta, source=reader.source)
        self.rules = replace(rules, exact=True) if exact else rules
        self.but_for: Counter[tuple[str, ...]] = Counter()
        self.folders = RunFolders.from_meta(reader.meta, source=reader.source)

    @cached_property
    def alike(self) -> AlikeRequests:
        """The entries by the relevant parts of their requests."""
        return AlikeRequests(self.reader, self.rules)

    @cached_property
    def alike_arguments(self) -> AlikeArguments:
        """The tool calls by the relevant parts of their arguments."""
        return AlikeArguments(self.reader.tools, self.rules)

    @cached_property
    def cross_protocol(self) -> CrossProtocolIndex:
        """The entries that also answer requests in other protocols."""
        from offbook.vendors import CODEC_NAMES  # noqa: PLC0415 - it loads the codecs

        return CrossProtocolIndex(self.reader, self.rules, codec_names=CODEC_NAMES)

    @cached_property
    def answers_in_order(self) -> bool:
        """Whether answers depend on the order of calls: several consecutive ones answer any request.

        They are hand-written, and searched for only among the first entries.
        """
        written = [stored for stored in islice(self.reader, MAX_WRITTEN_ENTRIES) if stored.fingerprint is None]
        return len(written) > 1 or not all(stored.repeats for stored in written)

    @cached_property
    def websocket_turns(self) -> TurnIndex:
        """The exchanges of WebSocket sessions."""
        from offbook.recording.match.websocket import TurnIndex  # noqa: PLC0415 - only sessions need it

        return TurnIndex(self.reader, self.rules)

    @cached_property
    def written(self) -> list[StoredExchange[Exchange]]:
        """The hand-written answers for otherwise unanswered requests, in order."""
        return [stored for stored in self.reader if stored.is_conditional]

    @cached_property
    def models(self) -> list[str]:
        """The models that the recording names, in its order."""
        models = (stored.exchange.model for stored in self.reader)
        return list(dict.fromkeys(model for model in models if model))


class CrossProtocolIndex:
    """The entries of a recording that also answer requests other than their own.

    In another protocol, the same conversation has other parameters and another model name: an entry of another protocol
    answers requests with the same messages and tools. An entry without a request answers any.
    """

    def __init__(self, reader: RecordingReader, rules: NormaliseRules, *, codec_names: Mapping[str, str]) -> None:
        self._rules, self._codec_names = rules, codec_names
        self._by_conversation: dict[str, list[StoredExchange[Exchange]]] = {}
        self._protocols = set[str]()
        self._without_request: list[StoredExchange[Exchange]] = []
        for stored in reader:
            if stored.fingerprint is None:
                self._without_request.append(stored)
            elif (fields := stored.exchange.request_fields()) is not None:
                self._by_conversation.setdefault(self._conversation(fields), []).append(stored)
                self._protocols.add(self._protocol(stored))

    def find(self, call: Call, cursor: Cursor[Exchange]) -> ExchangeMatch[Exchange] | None:
        """Return the first entry that matches and was not served, or the last that matches and repeats."""
        matching = self._recorded_in_others(call) or self._without_request
        unused = next((stored for stored in matching if not cursor.is_used(stored)), None)
        found = unused or next((stored for stored in reversed(matching) if stored.repeats), None)
        if found is not None or not matching:
            return None if found is None else ExchangeMatch("prompt_hash", found)
        return ExchangeMatch("prompt_hash", matching[-1], "exhausted")

    def _recorded_in_others(self, call: Call) -> list[StoredExchange[Exchange]]:
        """Return the entries of the same conversation in other protocols."""
        if self._protocols <= {call.protocol}:
            return []
        same = self._by_conversation.get(self._conversation(orjson.loads(call.fields)), [])
        return [each for each in same if self._protocol(each) != call.protocol]

    def _protocol(self, stored: StoredExchange[Exchange]) -> str:
        """Return the protocol of the entry, or "" if it is unknown."""
        wire = stored.exchange.wire
        return self._codec_names.get(stored.exchange.provider, "") if wire is None else wire.protocol

    def _conversation(self, fields: JsonObject) -> str:
        messages = [_with_parsed_arguments(message) for message in without_nulls(fields["messages"])]
        conversation = {"messages": messages, "tools": fields.get("tools", [])}
        return sha256(canonical_bytes(normalise_fields(conversation, self._rules))).hexdigest()


def _with_parsed_arguments(message: JsonObject) -> JsonObject:
    """Return a message with its tool calls' arguments as JSON values, because protocols serialise them differently."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [_parsed_call(call) for call in calls]} if isinstance(calls, list) else message


def _parsed_call(call: Any) -> Any:
    try:
        return call | {"function": call["function"] | {"arguments": orjson.loads(call["function"]["arguments"])}}
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return call
