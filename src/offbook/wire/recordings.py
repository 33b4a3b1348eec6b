"""The recordings that sessions replay: opened by session name, and encoded once per kind of call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import Response, deltas_of, result_text
from offbook.recording.edit import merge_documents
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.file import document_from_dict
from offbook.recording.format.keys import is_mcp_key, short_key, tool_key
from offbook.recording.latency import Latency
from offbook.recording.match.cursor import ExchangeMatch, unserved
from offbook.recording.stores.locate import is_folder, open_store, recordings_in
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import PositionedReader, RecordingReader, StoredExchange
from offbook.session.tape import Tape
from offbook.text import printable, shorten
from offbook.wire.faults import FaultTarget, apply_fault, end_as_recorded
from offbook.wire.options import DEFAULT_RESPONSE
from offbook.wire.request import ParsedRequest, RequestParser
from offbook.wire.response import (
    HttpResponse,
    encode_exchange,
    encode_model_response,
    has_wire_bytes,
    recorded_response,
)

MAX_DESCRIPTION_CHARS = 60
MAX_CACHED_RESPONSES = 4096


class PreparedResponse(Struct, frozen=True):
    """A response with one frame an event (`split`), as faults count them, and with simultaneous frames `merged`."""

    split: HttpResponse
    merged: HttpResponse


def prepare_response(answer: HttpResponse) -> PreparedResponse:
    return PreparedResponse(answer, answer.merged())


class AnswerEncoder:
    """Encodes recorded answers as HTTP responses, each once for all calls of a kind.

    `default_response` is the model's default text. `parser` parses requests by the recording's rules.
    """

    def __init__(self, tape: Tape, *, latency: Latency, default_response: str = DEFAULT_RESPONSE) -> None:
        self.tape, self.parser = tape, RequestParser(tape.rules)
        self._latency, self._default_response = latency, default_response
        self._answers: dict[tuple[int, str, bool, bool, bool], PreparedResponse] = {}

    def answer(self, match: ExchangeMatch[Exchange], parsed: ParsedRequest) -> PreparedResponse:
        """Return the answer of a match, timed by the latency model."""
        if match.stored is not None:
            return self._recorded(match, parsed)
        if parsed.request is None or parsed.route.codec is None:
            from offbook.wire.synthetic.answers import synthetic_response  # noqa: PLC0415 - most runs ask for none

            return prepare_response(self._paced(synthetic_response(parsed, self.tape.models), 0.0))
        response = self.response(match, parsed)
        answer = encode_model_response(response, deltas_of(response), parsed, parsed.route.codec)
        return prepare_response(self._paced(answer, 0.0))

    def response(self, match: ExchangeMatch[Exchange], parsed: ParsedRequest) -> Response:
        """Return the model's response of a match."""
        if match.given is not None:
            return match.given
        if match.stored is None:
            return Response(self._default_response, parsed.model)
        return match.exchange.response(model=parsed.model, provider="")

    def _recorded(self, match: ExchangeMatch[Exchange], parsed: ParsedRequest) -> PreparedResponse:
        stored = match.stored
        if match.renamed is not None or stored is None:
            return prepare_response(self._encode(match.exchange, parsed))
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
            answer = self._paced(recorded_response(exchange.wire), exchange.latency_ms)
            return answer if fault is None else end_as_recorded(fault, answer)

        def clean() -> HttpResponse:
            return self._paced(encode_exchange(exchange, parsed), exchange.latency_ms)

        def response() -> Response:
            return exchange.response(model=parsed.model, provider="")

        return clean() if fault is None else apply_fault(fault, FaultTarget(parsed, clean, response))

    def _paced(self, answer: HttpResponse, recorded_ms: float) -> HttpResponse:
        if self._latency.is_none:
            return answer.delayed(0.0)
        if self._latency.is_recorded and answer.is_streamed:
            return answer
        return answer.delayed(self._latency.delay_ms(recorded_ms))


class RecordingUse(Struct, frozen=True):
    """The uses of one recording: the first sessions' names, and the ids of the served exchanges."""

    sessions: set[str]
    ids: set[int]


class RecordingSet:
    """The recordings of a backend, by session name.

    A folder answers each session from all its recordings, including subfolders. A session named like the path of one of
    them, without `.json`, is answered from that one alone.

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
        default_response: str = DEFAULT_RESPONSE,
        exact: bool = False,
    ) -> None:
        if recording is not None and responses is not None:
            raise InputError("give a recording or responses, not both", source="serving")
        self._latency, self._strict, self._default_response, self._exact = latency, strict, default_response, exact
        self._named: dict[str, MemoryReader] = {}
        self._encoders: dict[str, AnswerEncoder] = {}
        self._whole = self._encoder_of(self._open(recording, responses))

    def encoder(self, session: str) -> AnswerEncoder:
        """Return the encoder of the recording that answers a session."""
        reader = self._named.get(session)
        if reader is None:
            return self._whole
        if session not in self._encoders:
            self._encoders[session] = self._encoder_of(reader)
        return self._encoders[session]

    def left_after(self, uses: Mapping[Tape, RecordingUse]) -> list[UnusedExchange]:
        """Return the exchanges that sessions did not use, tape by tape; all of them without a session.

        An exchange of two tapes is used if either served it. In a folder, its recording is the file.
        """
        uses = uses or {self._whole.tape: RecordingUse(set(), set())}
        known = [(tape, stored) for tape, use in uses.items() for stored in tape.reader if stored.id in use.ids]
        unused: list[UnusedExchange] = []
        for tape, use in uses.items():
            elsewhere: dict[str, list[Exchange]] = {}
            for other, stored in known:
                if other is not tape:
                    elsewhere.setdefault(stored.key, []).append(stored.exchange)
            session = min(use.sessions) if len(use.sessions) == 1 else ""
            for position, stored in unserved(tape.reader, use.ids):
                if not any(stored.exchange.is_same(each) for each in elsewhere.get(stored.key, ())):
                    file = self._files.get(id(stored.exchange), tape.reader.source)
                    about = describe_exchange(stored.exchange)
                    unused.append(UnusedExchange(stored.key, position, about, file, session))
                    known.append((tape, stored))
        return unused

    def tools_left_after(
        self, uses: Mapping[Tape, RecordingUse], *, servers: Iterable[str] = ()
    ) -> list[UnusedExchange]:
        """Return the tool calls that no program used, tape by tape; all of them if none has asked. Tools of MCP
        `servers`, and other recorded tools, are not a program's own.
        """
        uses, of_servers = uses or {self._whole.tape: RecordingUse(set(), set())}, tuple(f"{name}." for name in servers)
        unused: list[UnusedExchange] = []
        for tape, use in uses.items():
            session = min(use.sessions) if len(use.sessions) == 1 else ""
            for position, stored in unserved(tape.reader.tools, use.ids):
                is_mcp = is_mcp_key(stored.key) or stored.exchange.wire is not None
                if not is_mcp and not stored.key.startswith(of_servers):
                    file = self._files.get(id(stored.exchange), tape.reader.source)
                    about = describe_exchange(stored.exchange)
                    unused.append(UnusedExchange(tool_key(stored.key), position, about, file, session))
        return unused

    def needs_positions(self) -> bool:
        """Return whether an answer depends on earlier calls, so that processes must share their positions.

        Raises:
            InputError: it does, and the recording is not in Redis.
        """
        reader, seen = self._whole.tape.reader, set[str | None]()
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
        self._whole.tape.reader.close()

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
        documents = {file: open_store(file).load() for file in recordings_in(Path(path))}
        self._named = {
            file.relative_to(path).with_suffix("").as_posix(): MemoryReader(document, source=str(file))
            for file, document in documents.items()
        }
        return MemoryReader(merge_documents(list(documents.values())), source=path)

    @cached_property
    def _files(self) -> dict[int, str]:
        """The files of a folder, by the identities of their exchanges."""
        return {
            id(stored.exchange): reader.source
            for reader in self._named.values()
            for stored in chain[StoredExchange[Any]](reader, reader.tools)
        }

    def _encoder_of(self, reader: RecordingReader) -> AnswerEncoder:
        tape = Tape(reader, strict=self._strict, exact=self._exact)
        if self._strict:
            is_empty = next(chain[StoredExchange[Any]](reader, reader.tools), None) is None
            check_strict(reader.version, source=reader.source, is_empty=is_empty)
        return AnswerEncoder(tape, latency=self._latency, default_response=self._default_response)


def _unshared_error(stored: StoredExchange[Exchange], *, source: str) -> InputError:
    what = "entries that answer any request" if stored.fingerprint is None else "the answers of an entry"
    reason = f"{what} are served in their order, and processes do not share how far they are"
    hint = "copy it to Redis (offbook recording copy), leave one answer for each request, or use one process"
    return InputError(reason, source=source, place=short_key(stored.key), hint=hint)


class UnusedExchange(Struct, frozen=True):
    """An exchange that no session was served: its key, and its position in the key's list from 0.

    `about` describes it: the model and its last message, or `GET /v1/models`. `recording` is its location; `session` is
    the single session that was answered from there, or "".
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


def describe_exchange(exchange: Exchange | ToolExchange) -> str:
    """Describe an exchange: `gpt-4o: What is the weather?`, `GET /v1/models`, or its answer without a recorded request.

    A tool call is described by its arguments. Control characters are escaped.
    """
    if isinstance(exchange, ToolExchange):
        about = result_text(exchange.arguments) if isinstance(exchange.arguments, dict) else "(any arguments)"
    elif place := exchange.http_place():
        return shorten(place, MAX_DESCRIPTION_CHARS)
    elif question := _last_message(exchange):
        about = ": ".join(filter(None, [exchange.model, question]))
    else:
        about = f"answers {_answer_text(exchange)}"
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
