"""The recordings that sessions replay: opened, indexed also across protocols, and encoded once per kind of call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject, Response
from offbook.recording.edit import merge_documents
from offbook.recording.format.document import Document, check_strict, rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import document_from_dict
from offbook.recording.format.keys import short_key
from offbook.recording.latency import Latency
from offbook.recording.match.continuation import written_answers
from offbook.recording.match.cursor import AlikeRequests, Cursor, ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields, without_nulls
from offbook.recording.stores.locate import is_folder, open_store, recordings_in
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import PositionedReader, RecordingReader, StoredExchange
from offbook.text import printable, shorten
from offbook.vendors import CODEC_NAMES
from offbook.wire.faults import FaultTarget, apply_fault, end_as_recorded
from offbook.wire.request import ParsedRequest, RequestParser
from offbook.wire.response import HttpResponse, encode_exchange, has_wire_bytes, recorded_response

if TYPE_CHECKING:
    from offbook.recording.match.websocket import TurnIndex
    from offbook.wire.calls import RecordingUse

MAX_DESCRIPTION_CHARS = 60


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
            self._add(stored)

    def find(self, parsed: ParsedRequest, cursor: Cursor[Exchange]) -> ExchangeMatch[Exchange]:
        """Return the first entry that matches and was not served, or the last that matches and repeats."""
        if parsed.request is None:
            return ExchangeMatch("default", mismatch="missing")
        matching = self._recorded_in_others(parsed) or self._without_request
        unused = next((stored for stored in matching if not cursor.is_used(stored)), None)
        found = unused or next((stored for stored in reversed(matching) if stored.repeats), None)
        if found is not None or not matching:
            return ExchangeMatch("prompt_hash", found, None if matching else "missing")
        return ExchangeMatch("prompt_hash", matching[-1], "exhausted")

    def _recorded_in_others(self, parsed: ParsedRequest) -> list[StoredExchange[Exchange]]:
        """Return the entries of the same conversation that were recorded in other protocols."""
        if self._protocols <= {parsed.route.protocol}:
            return []
        same = self._by_conversation.get(self._conversation(orjson.loads(parsed.fields)), [])
        return [each for each in same if _recorded_protocol(each) != parsed.route.protocol]

    def _add(self, stored: StoredExchange[Exchange]) -> None:
        if stored.fingerprint is None:
            self._without_request.append(stored)
        elif (fields := stored.exchange.request_fields()) is not None:
            self._by_conversation.setdefault(self._conversation(fields), []).append(stored)
            self._protocols.add(_recorded_protocol(stored))

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


MAX_CACHED_RESPONSES = 4096
MAX_WRITTEN_ENTRIES = 500


class PreparedResponse(Struct, frozen=True):
    """A response with one frame an event (`split`), as faults count them, and with simultaneous frames `merged`."""

    split: HttpResponse
    merged: HttpResponse


def prepare_response(answer: HttpResponse) -> PreparedResponse:
    return PreparedResponse(answer, answer.merged())


class ReplaySource:
    """A recording, and the responses that were encoded from it so far.

    Raises:
        RecordingFormatError: its rules are invalid; or (strict) its format is older than version 2.
    """

    def __init__(self, reader: RecordingReader, *, latency: Latency, strict: bool) -> None:
        self.reader, self.strict = reader, strict
        self.rules = rules_from_meta(reader.meta, source=reader.source)
        self.parser = RequestParser(self.rules)
        self._latency = latency
        self._answers: dict[tuple[int, str, bool, bool, bool], PreparedResponse] = {}
        if strict:
            check_strict(reader.version, source=reader.source)

    @cached_property
    def cross_protocol(self) -> CrossProtocolIndex:
        return CrossProtocolIndex(self.reader, self.rules)

    @cached_property
    def answers_in_order(self) -> bool:
        """Whether answers depend on the order of calls: there are some that answer any request, one after the other.

        They are written by hand, and looked for among the first entries alone.
        """
        written = [stored for stored in islice(self.reader, MAX_WRITTEN_ENTRIES) if stored.fingerprint is None]
        return len(written) > 1 or not all(stored.repeats for stored in written)

    @cached_property
    def alike(self) -> AlikeRequests:
        """The entries by what their requests are without what does not count."""
        return AlikeRequests(self.reader, self.rules)

    @cached_property
    def websocket_turns(self) -> TurnIndex:
        """The exchanges of WebSocket sessions."""
        from offbook.recording.match.websocket import TurnIndex  # noqa: PLC0415 - only sessions need it

        return TurnIndex(self.reader, self.rules)

    @cached_property
    def written(self) -> list[StoredExchange[Exchange]]:
        """The answers that were written by hand for requests that nothing else answers."""
        return written_answers(self.reader)

    @cached_property
    def models(self) -> list[str]:
        """The models that the recording names, in its order."""
        models = (stored.exchange.model for stored in self.reader)
        return list(dict.fromkeys(model for model in models if model))

    def answer(self, stored: StoredExchange[Exchange], parsed: ParsedRequest) -> PreparedResponse:
        """Return the answer of the entry to such a request, timed by the latency model."""
        kind = (stored.id, parsed.route.protocol, parsed.is_streamed, parsed.wants_usage, parsed.is_array)
        prepared = self._answers.get(kind)
        if prepared is None:
            prepared = prepare_response(self._encode(stored.exchange, parsed))
            is_complete = stored.exchange.fault is None and bool(stored.exchange.model) and bool(stored.fingerprint)
            is_same_for_all = is_complete or has_wire_bytes(stored.exchange, parsed)
            if is_same_for_all and not self._latency.is_drawn and len(self._answers) < MAX_CACHED_RESPONSES:
                self._answers[kind] = prepared
        return prepared

    def _encode(self, exchange: Exchange, parsed: ParsedRequest) -> HttpResponse:
        fault = exchange.fault
        if has_wire_bytes(exchange, parsed) and exchange.wire is not None:
            answer = self.paced(recorded_response(exchange.wire), exchange.latency_ms)
            return answer if fault is None else end_as_recorded(fault, answer)

        def clean() -> HttpResponse:
            return self.paced(encode_exchange(exchange, parsed), exchange.latency_ms)

        def response() -> Response:
            return exchange.response(model=parsed.model, provider="")

        return clean() if fault is None else apply_fault(fault, FaultTarget(parsed, clean, response))

    def paced(self, answer: HttpResponse, recorded_ms: float) -> HttpResponse:
        """Return the answer, timed by the latency model."""
        if self._latency.is_none:
            return answer.delayed(0.0)
        if self._latency.is_recorded and answer.is_streamed:
            return answer
        return answer.delayed(self._latency.delay_ms(recorded_ms))


class RecordingSet:
    """The recordings of a backend, by session name.

    A folder answers each session from all its recordings, and a session named like one of them from that one alone.

    Raises:
        InputError: a recording cannot be read, or both or neither of the two sources are given.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str] | None = None,
        *,
        responses: Mapping[str, Any] | Document | RecordingReader | None = None,
        latency: Latency,
        strict: bool,
    ) -> None:
        if recording is not None and responses is not None:
            raise InputError("give a recording or responses, not both", source="serving")
        self._latency, self._strict = latency, strict
        self._named: dict[str, MemoryReader] = {}
        self._sources: dict[str, ReplaySource] = {}
        self._whole = self._source_of(self._open(recording, responses))

    def source(self, session: str) -> ReplaySource:
        """Return the source of a session."""
        reader = self._named.get(session)
        if reader is None:
            return self._whole
        if session not in self._sources:
            self._sources[session] = self._source_of(reader)
        return self._sources[session]

    def file_of(self, source: ReplaySource, exchange: Exchange) -> str:
        """Return the recording that has an exchange of the source; of a folder, the file in it."""
        return self._files.get(id(exchange), source.reader.source)

    def needs_positions(self) -> bool:
        """Return whether an answer depends on the calls before, so that processes must share how far sessions are.

        Raises:
            InputError: it does, and the recording is not in Redis, through which they could.
        """
        reader, seen = self._whole.reader, set[str | None]()
        for stored in reader:
            if stored.is_conditional:
                continue
            if not stored.repeats or stored.fingerprint in seen:
                if isinstance(reader, PositionedReader):
                    return True
                raise _unshared_error(stored, source=reader.source)
            seen.add(stored.fingerprint)
        return False

    def close(self) -> None:
        self._whole.reader.close()

    def _open(
        self,
        recording: str | os.PathLike[str] | None,
        responses: Mapping[str, Any] | Document | RecordingReader | None,
    ) -> RecordingReader:
        if isinstance(responses, RecordingReader):
            return responses
        if recording is None:
            if not isinstance(responses, Document):
                responses = document_from_dict(responses or {}, source="responses")
            return MemoryReader(responses, source="responses")
        path = os.fspath(recording)
        if not is_folder(path):
            return open_store(recording).read()
        documents = _load_folder(Path(path))
        self._named = {
            _session_name(file, path): MemoryReader(document, source=str(file)) for file, document in documents.items()
        }
        return MemoryReader(merge_documents(list(documents.values())), source=path)

    @cached_property
    def _files(self) -> dict[int, str]:
        """The files of a folder, by the identities of their exchanges."""
        return {id(stored.exchange): reader.source for reader in self._named.values() for stored in reader}

    def _source_of(self, reader: RecordingReader) -> ReplaySource:
        return ReplaySource(reader, latency=self._latency, strict=self._strict)


def _unshared_error(stored: StoredExchange[Exchange], *, source: str) -> InputError:
    what = "entries that answer any request" if stored.fingerprint is None else "the answers of an entry"
    reason = f"{what} are served in their order, and processes do not share how far they are"
    hint = "copy it to Redis (offbook recording copy), leave one answer for each request, or use one process"
    return InputError(reason, source=source, place=short_key(stored.key), hint=hint)


def _load_folder(folder: Path) -> dict[Path, Document]:
    """Load the recordings of a folder and its subfolders, by path."""
    return {path: open_store(path).load() for path in recordings_in(folder)}


def _session_name(file: Path, folder: str) -> str:
    """Return the session that a recording in a folder answers: its path there without `.json`."""
    return file.relative_to(folder).with_suffix("").as_posix()


class UnusedExchange(Struct, frozen=True):
    """An exchange that no session was served: its key, and its position in the key's list from 0.

    `about` describes it: the model and its last message, or `GET /v1/models`. `recording` is where it is recorded;
    `session` is the session that was answered from there, empty if there were several.
    """

    key: str
    position: int
    about: str
    recording: str
    session: str


class OverusedExchange(Struct, frozen=True):
    """A recorded exchange that a session was served more often than it was recorded, like an UnusedExchange."""

    key: str
    about: str
    served: int
    session: str


def unused_exchanges(
    uses: Mapping[ReplaySource, RecordingUse], file_of: Callable[[ReplaySource, Exchange], str]
) -> list[UnusedExchange]:
    """Return what the sessions did not use, source by source. An exchange of two sources is used if one served it."""
    known = [(source, stored) for source, use in uses.items() for stored in source.reader if stored.id in use.ids]
    unused: list[UnusedExchange] = []
    for source, use in uses.items():
        elsewhere: dict[str, list[Exchange]] = {}
        for other, stored in known:
            if other is not source:
                elsewhere.setdefault(stored.key, []).append(stored.exchange)
        session = min(use.sessions) if len(use.sessions) == 1 else ""
        for position, stored in _unused_in(source, use):
            if not any(stored.exchange.is_same(each) for each in elsewhere.get(stored.key, ())):
                file = file_of(source, stored.exchange)
                unused.append(UnusedExchange(stored.key, position, describe_exchange(stored.exchange), file, session))
                known.append((source, stored))
    return unused


def _unused_in(source: ReplaySource, use: RecordingUse) -> Iterator[tuple[int, StoredExchange[Exchange]]]:
    """Return the exchanges that were not served from this source, each with its position in its key's list."""
    positions = dict[str, int]()
    for stored in source.reader:
        position = positions[stored.key] = positions.get(stored.key, -1) + 1
        if stored.id not in use.ids:
            yield position, stored


def describe_exchange(exchange: Exchange) -> str:
    """Describe an exchange: `gpt-4o: What is the weather?`, `GET /v1/models`, or its answer if no request is recorded.

    Control characters are escaped.
    """
    if place := exchange.http_place():
        return shorten(place, MAX_DESCRIPTION_CHARS)
    question = _last_message(exchange)
    about = ": ".join(filter(None, [exchange.model, question])) if question else f"answers {_answer_text(exchange)}"
    return shorten(" ".join(printable(about).split()), MAX_DESCRIPTION_CHARS)


def _last_message(exchange: Exchange) -> str:
    """Return the last text that was sent to the model."""
    messages = (exchange.request_fields() or {}).get("messages", [])
    texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
    return texts[-1] if texts else ""


def _answer_text(exchange: Exchange) -> str:
    """Return the text of the answer, else its tool calls, else its fault."""
    calls = [f"{call.name}(…)" for call in exchange.tool_calls or ()]
    return exchange.content or ", ".join(calls) or ("nothing" if exchange.fault is None else exchange.fault.type)
