"""The recordings that sessions replay: opened, indexed also across protocols, and encoded once per kind of call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject, Response
from offbook.recording.format.document import Document, check_strict, rules_from_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import document_from_dict
from offbook.recording.latency import Latency
from offbook.recording.maintain.edit import merge_documents
from offbook.recording.match.cursor import Cursor, ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules, canonical_bytes, normalise_fields
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader, StoredExchange
from offbook.vendors import CODEC_NAMES
from offbook.wire.encode import encode_exchange, has_wire_bytes, recorded_response
from offbook.wire.faults import FaultTarget, apply_fault, end_as_recorded
from offbook.wire.request import ParsedRequest, RequestParser
from offbook.wire.response import HttpResponse


class CrossProtocolIndex:
    """The entries of a recording that answer more than the very request they were recorded with.

    Spoken in another protocol, a conversation has other parameters around it and names another model: an entry that
    was recorded in another protocol answers the same messages and tools. An entry that does not say which request
    it answers answers any.
    """

    def __init__(self, shelf: RecordingReader, rules: NormaliseRules) -> None:
        self._rules = rules
        self._by_conversation: dict[str, list[StoredExchange[Exchange]]] = {}
        self._unsaid: list[StoredExchange[Exchange]] = []
        for stored in shelf:
            self._add(stored)

    def find(self, asked: ParsedRequest, cursor: Cursor[Exchange]) -> ExchangeMatch[Exchange]:
        """The first entry that fits and was not served; the last that fits and answers every call."""
        if asked.request is None:
            return ExchangeMatch("default", mismatch="missing")
        spoken = self._by_conversation.get(self._conversation(orjson.loads(asked.fields)), [])
        fitting = [stored for stored in spoken if _recorded_protocol(stored) != asked.route.protocol] or self._unsaid
        unused = next((stored for stored in fitting if not cursor.is_used(stored)), None)
        found = unused or next((stored for stored in reversed(fitting) if stored.repeats), None)
        if found is not None or not fitting:
            return ExchangeMatch("prompt_hash", found, None if fitting else "missing")
        return ExchangeMatch("prompt_hash", fitting[-1], "exhausted")

    def _add(self, stored: StoredExchange[Exchange]) -> None:
        if stored.fingerprint is None:
            self._unsaid.append(stored)
        elif (fields := stored.exchange.request_fields()) is not None:
            self._by_conversation.setdefault(self._conversation(fields), []).append(stored)

    def _conversation(self, fields: JsonObject) -> str:
        said = {"messages": fields["messages"], "tools": fields.get("tools", [])}
        return sha256(canonical_bytes(normalise_fields(said, self._rules))).hexdigest()


def _recorded_protocol(stored: StoredExchange[Exchange]) -> str:
    """The protocol that the entry was recorded in; empty if it does not say."""
    wire = stored.exchange.wire
    return CODEC_NAMES.get(stored.exchange.provider, "") if wire is None else wire.protocol


MAX_CACHED_RESPONSES = 4096


class PreparedResponse(Struct, frozen=True):
    """An answer with its frames `apart`, as faults count them, and `together` where they are due together."""

    apart: HttpResponse
    together: HttpResponse


def prepare_response(answer: HttpResponse) -> PreparedResponse:
    return PreparedResponse(answer, answer.together())


class ReplaySource:
    """A recording, and the answers that were made of it so far.

    Raises:
        RecordingFormatError: its rules are declared wrongly; or (strict) it is older than version 2.
    """

    def __init__(self, shelf: RecordingReader, *, latency: Latency, strict: bool) -> None:
        self.shelf, self.strict = shelf, strict
        self.rules = rules_from_meta(shelf.meta, source=shelf.source)
        self.reader = RequestParser(self.rules)
        self._latency = latency
        self._answers: dict[tuple[int, str, bool, bool, bool], PreparedResponse] = {}
        if strict:
            check_strict(shelf.version, source=shelf.source)

    @cached_property
    def loose(self) -> CrossProtocolIndex:
        return CrossProtocolIndex(self.shelf, self.rules)

    @cached_property
    def models(self) -> list[str]:
        """The models that the recording names, in its order."""
        named = (stored.exchange.model for stored in self.shelf)
        return list(dict.fromkeys(model for model in named if model))

    def answer(self, stored: StoredExchange[Exchange], asked: ParsedRequest) -> PreparedResponse:
        """What the entry answers to such a call, in the time that it should take."""
        kind = (stored.id, asked.route.protocol, asked.is_streamed, asked.wants_usage, asked.is_array)
        prepared = self._answers.get(kind)
        if prepared is None:
            prepared = prepare_response(self._made(stored.exchange, asked))
            is_told = stored.exchange.fault is None and bool(stored.exchange.model) and bool(stored.fingerprint)
            is_same_for_all = is_told or has_wire_bytes(stored.exchange, asked)
            if is_same_for_all and not self._latency.is_drawn and len(self._answers) < MAX_CACHED_RESPONSES:
                self._answers[kind] = prepared
        return prepared

    def _made(self, exchange: Exchange, asked: ParsedRequest) -> HttpResponse:
        fault = exchange.fault
        if has_wire_bytes(exchange, asked) and exchange.wire is not None:
            answer = self.paced(recorded_response(exchange.wire), exchange.latency_ms)
            return answer if fault is None else end_as_recorded(fault, answer)
        if fault is None:
            return self.paced(encode_exchange(exchange, asked), exchange.latency_ms)

        def clean() -> HttpResponse:
            return self.paced(encode_exchange(exchange, asked), exchange.latency_ms)

        def response() -> Response:
            return exchange.response(model=asked.model, provider="")

        return apply_fault(fault, FaultTarget(asked, clean, response))

    def paced(self, answer: HttpResponse, recorded_ms: float) -> HttpResponse:
        """The answer, due as the latency model says."""
        if self._latency.is_none:
            return answer.after(0.0)
        if self._latency.is_recorded and answer.is_streamed:
            return answer
        return answer.after(self._latency.delay_ms(recorded_ms))


class RecordingSet:
    """Recordings by the names of the runs that they answer.

    A folder answers every run from all the recordings in it, and a run that is named like one of them from that alone.

    Raises:
        InputError: a recording cannot be read, or both or neither of the two sources are given.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str] | None = None,
        *,
        responses: Mapping[str, Any] | Document | None = None,
        latency: Latency,
        strict: bool,
    ) -> None:
        if recording is not None and responses is not None:
            raise InputError("give a recording or responses, not both", source="serving")
        self._latency, self._strict = latency, strict
        self._named: dict[str, MemoryReader] = {}
        self._replay_sources: dict[str, ReplaySource] = {}
        self._whole = self._replay_source(self._open(recording, responses))

    def stock(self, name: str) -> ReplaySource:
        """What answers the run of that name."""
        shelf = self._named.get(name)
        if shelf is None:
            return self._whole
        if name not in self._replay_sources:
            self._replay_sources[name] = self._replay_source(shelf)
        return self._replay_sources[name]

    def file_of(self, stock: ReplaySource, exchange: Exchange) -> str:
        """The recording that has an exchange of the stock; of a folder, the file in it."""
        return self._files.get(id(exchange), stock.shelf.source)

    def close(self) -> None:
        self._whole.shelf.close()

    def _open(
        self, recording: str | os.PathLike[str] | None, responses: Mapping[str, Any] | Document | None
    ) -> RecordingReader:
        if recording is None:
            document = (
                responses
                if isinstance(responses, Document)
                else document_from_dict(responses or {}, source="responses")
            )
            return MemoryReader(document, source="responses")
        path = os.fspath(recording)
        if not path or "://" in path or not Path(path).is_dir():
            return open_store(recording).read()
        documents = _load_folder(Path(path))
        self._named = {
            _session_name(file, path): MemoryReader(found, source=str(file)) for file, found in documents.items()
        }
        return MemoryReader(merge_documents(list(documents.values())), source=path)

    @cached_property
    def _files(self) -> dict[int, str]:
        """The files of a folder, by the identities of the exchanges that they have."""
        return {id(stored.exchange): shelf.source for shelf in self._named.values() for stored in shelf}

    def _replay_source(self, shelf: RecordingReader) -> ReplaySource:
        return ReplaySource(shelf, latency=self._latency, strict=self._strict)


def _load_folder(folder: Path) -> dict[Path, Document]:
    """The recordings of a folder and those below it, by their paths."""
    paths = sorted(path for path in folder.rglob("*.json") if path.is_file())
    if not paths:
        raise InputError("the folder has no recordings", source=str(folder), hint="a recording is a file named *.json")
    return {path: open_store(path).load() for path in paths}


def _session_name(file: Path, folder: str) -> str:
    """The run that a recording in a folder answers: its path there without `.json`."""
    return file.relative_to(folder).with_suffix("").as_posix()
