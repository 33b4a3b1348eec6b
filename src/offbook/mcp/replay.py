"""Answers the requests to an MCP server from a recording, in either era, and explains missing answers."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from offbook.clock import pauses_until
from offbook.errors import InputError, RecordingMismatchError
from offbook.mcp.answer import (
    NOTHING_DUE,
    DueMessages,
    FoundAnswer,
    McpAnswer,
    McpSource,
    TimedMessage,
    client_answers,
    discover_result,
    error_answer,
    fit_messages,
    initialize_result,
    model_text,
    result_answer,
)
from offbook.mcp.message import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_META,
    CursorNames,
    McpMessage,
    arguments_hash,
    encode,
    further_params,
    json_in_texts,
    parse_message,
    recorded_arguments,
    text_result,
)
from offbook.messages import JsonObject, result_text
from offbook.recording.call_cache import ANSWERED, CallCache, CallTurn
from offbook.recording.format.exchange import RecordedError, ToolExchange, hash_arguments
from offbook.recording.format.keys import is_mcp_key, mcp_key, split_mcp_key
from offbook.recording.latency import NO_LATENCY, Latency
from offbook.recording.match.cursor import AlikeArguments
from offbook.recording.stores.store import ExchangeIndex, StoredExchange
from offbook.session.log import Log, Served
from offbook.session.numbers import ToolCallNames
from offbook.session.recorder import RecordedAs
from offbook.session.sources import CachedTools, RecordedTools
from offbook.session.tape import Tape
from offbook.wire.options import DEFAULT_RESPONSE

PROTOCOL = "mcp"
"""The protocol of the wire records of MCP: their frames are the lines that a server wrote."""

DISCOVERIES: tuple[str, ...] = ("server/discover", "initialize")
UNRECORDED_METHODS: frozenset[str] = frozenset(("ping", "logging/setLevel", "subscriptions/listen"))
EMPTY_RESULTS: frozenset[str] = frozenset(("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
_HANDSHAKE_METHODS = EMPTY_RESULTS | {"initialize"}
"""Methods that modern clients no longer have."""


SERVER_REQUESTS = frozenset(("sampling/createMessage", "elicitation/create", "roots/list", "ping"))
"""The requests that servers send. Clients' requests are recorded under other methods; `ping` is not."""


class OwnMessages:
    """A server's messages outside any call, in their place among the exchanges of `server` in a recording.

    The place is the recording time: a message sent between two exchanges is due after the first was served, and at the
    latest before the second is. A hand-written entry without a time is due first.
    """

    def __init__(self, server: str, index: ExchangeIndex[ToolExchange]) -> None:
        self._waiting: list[tuple[str, StoredExchange[ToolExchange]]] = []
        self._times: list[str] = []
        for stored in index:
            owner, method = split_mcp_key(stored.key) if is_mcp_key(stored.key) else ("", "")
            is_ours = owner == server if method else stored.key.startswith(f"{server}.")
            if not is_ours or method in DISCOVERIES:
                continue
            recorded_at = stored.exchange.recorded_at or ""
            if method.startswith("notifications/") or method in SERVER_REQUESTS:
                self._waiting.append((recorded_at, stored))
            elif recorded_at:
                self._times.append(recorded_at)
        self._waiting.sort(key=lambda each: each[0])
        self._times.sort()

    def take_first(self) -> tuple[StoredExchange[ToolExchange], ...]:
        """Return the messages sent before any exchange, each once."""
        return self._take(self._times[0] if self._times else None)

    def take_around(self, exchange: ToolExchange) -> DueMessages:
        """Return the messages due around a served exchange."""
        if not self._waiting:
            return NOTHING_DUE
        at = exchange.recorded_at or ""
        before = self._take(at)
        place = bisect_right(self._times, at)
        return DueMessages(before, self._take(self._times[place] if place < len(self._times) else None))

    def _take(self, until: str | None) -> tuple[StoredExchange[ToolExchange], ...]:
        count = len(self._waiting)
        if until is not None:
            count = next((place for place, (at, _) in enumerate(self._waiting) if at and at >= until), count)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return tuple(stored for _, stored in taken)


class McpArguments(AlikeArguments):
    """The recorded requests to MCP servers, found by meaning: JSON inside text is compared as JSON, and page cursors by
    their order of appearance.

    Clients serialise differently, and cursors may have been masked.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.reader.tools, tape.rules)
        self._seen = defaultdict[str, CursorNames](CursorNames)
        self._recorded = defaultdict[str, CursorNames](CursorNames)

    def meaning(self, key: str, arguments: JsonObject) -> JsonObject:
        return self._meaning(arguments, self._seen[key])

    def recorded_meaning(self, stored: StoredExchange[ToolExchange]) -> JsonObject | None:
        arguments, names = stored.exchange.arguments, self._recorded[stored.key]
        meaning = None
        if isinstance(arguments, dict) and (stored.exchange.arguments_hash is None or "cursor" in arguments):
            meaning = self._meaning(arguments, names)
        names.see_in(stored.exchange.result)
        return meaning

    def note_served(self, stored: StoredExchange[ToolExchange]) -> None:
        self._seen[stored.key].see_in(stored.exchange.result)

    @staticmethod
    def _meaning(arguments: JsonObject, names: CursorNames) -> JsonObject:
        meaning: JsonObject = json_in_texts(names.name_in(arguments))
        return meaning


def recorded_tools(tape: Tape) -> RecordedTools:
    """Return the source of one session's answers from the MCP servers of a recording."""
    return RecordedTools(tape, alike=McpArguments(tape))


class McpReplay(McpSource, Served):
    """Answers one session's requests to `server` from the answers that `tools` finds.

    An unrecorded tool call gets the text `default`, unless `tools` refuses it. One that does not fit its tool's
    `inputSchema` is refused, unless `lenient_requests`.
    """

    def __init__(
        self,
        server: str,
        tools: RecordedTools,
        *,
        latency: Latency = NO_LATENCY,
        default: str = DEFAULT_RESPONSE,
        lenient_requests: bool = False,
    ) -> None:
        self.server, self.tools, self._latency, self._default = server, tools, latency, default
        self._index, self._lenient_requests = tools.index, lenient_requests

    @cached_property
    def _own_messages(self) -> OwnMessages:
        return OwnMessages(self.server, self._index)

    def find(self, request: McpMessage) -> FoundAnswer:
        """Return the answer to a request; see `McpSource`."""
        if request.method in _HANDSHAKE_METHODS and request.era == "modern":
            return FoundAnswer(error_answer(request, METHOD_NOT_FOUND, f"Method not found: {request.method}"))
        if request.method in EMPTY_RESULTS:
            return FoundAnswer(result_answer(request, {}))
        if request.method == "subscriptions/listen":
            return FoundAnswer(_open_subscription(request))
        if request.method in DISCOVERIES:
            return FoundAnswer(self._discovery(request))
        arguments, further = recorded_arguments(request), further_params(request)
        fingerprint = arguments_hash(request) if further else ""
        if problem := self._problem(request, arguments | further, fingerprint):
            raise RecordingMismatchError(f"Input validation error: {problem}", kind="rejected", key=self.key(request))
        try:
            match = self.tools.find(self.key(request), arguments | further, fingerprint)
        except RecordingMismatchError as error:
            is_unlisted = error.kind == "missing" and request.method == "tools/list"
            if is_unlisted and not request.params.get("cursor"):
                return FoundAnswer(result_answer(request, {"tools": self._tools_by_name()}))
            raise
        exchange = ToolExchange(result=self._default) if match.stored is None else match.exchange
        messages = recorded_messages(exchange, request)
        answer = self._answer(exchange, messages, request)
        return FoundAnswer(answer, match, client_answers(messages) if answer.asks_client else {})

    def _problem(self, request: McpMessage, arguments: JsonObject, fingerprint: str) -> str:
        """Return a real server's reason to refuse the arguments of a tool call, or "".

        The real server has accepted recorded calls. The words are the Python SDK's.
        """
        schema = self._schemas.get(request.tool) if request.tool and not self._lenient_requests else None
        if schema is None or self.tools.look_up(self.key(request), arguments, fingerprint).mismatch is None:
            return ""
        from offbook.tools.schema_parameters import schema_problem  # noqa: PLC0415 - few calls are not recorded

        return schema_problem(schema, recorded_arguments(request))

    @cached_property
    def _schemas(self) -> dict[str, JsonObject]:
        """The schema of each listed tool, from the last list that has it."""
        listed = {tool["name"]: tool.get("inputSchema") for tool in listed_tools(self._index, self.server)}
        return {name: schema for name, schema in listed.items() if isinstance(schema, dict)}

    def key(self, request: McpMessage) -> str:
        """Return the key of a request in a recording."""
        return f"{self.server}.{request.tool}" if request.tool else mcp_key(self.server, request.method)

    def first_messages(self) -> Sequence[StoredExchange[ToolExchange]]:
        return self._count(self._own_messages.take_first())

    def tool_headers(self, tool: str) -> Mapping[str, str]:
        return self._tool_headers.get(tool, {})

    @cached_property
    def _tool_headers(self) -> dict[str, dict[str, str]]:
        tools = listed_tools(self._index, self.server)
        return {tool["name"]: headers for tool in tools if (headers := _headers_of(tool.get("inputSchema")))}

    def _count(self, own: tuple[StoredExchange[ToolExchange], ...]) -> tuple[StoredExchange[ToolExchange], ...]:
        self.tools.note_used(stored.id for stored in own)
        return own

    def use(self, found: FoundAnswer) -> DueMessages:
        if found.stored is None or found.match is None:
            return NOTHING_DUE
        self.tools.use(found.match)
        due = self._own_messages.take_around(found.stored.exchange)
        self._count((*due.before, *due.after))
        return due

    @property
    def log(self) -> Log:
        """The log of this server's recorded tool calls."""
        return self.tools.log_of([self.server])

    def _answer(self, exchange: ToolExchange, recorded: list[TimedMessage], request: McpMessage) -> McpAnswer:
        messages = fit_messages(recorded, request)
        if self._latency.is_none:
            return McpAnswer(messages=tuple((0.0, raw) for _, raw in messages))
        if self._latency.is_recorded:
            return McpAnswer(messages=messages, end_ms=exchange.latency_ms)
        delay_ms = self._latency.delay_ms(exchange.latency_ms)
        return McpAnswer(messages=tuple((delay_ms, raw) for _, raw in messages), end_ms=delay_ms)

    def _discovery(self, request: McpMessage) -> McpAnswer:
        known = self.discovery()
        if request.method == "initialize":
            return result_answer(request, initialize_result(known, request))
        if self._needs_handshake():
            return error_answer(request, METHOD_NOT_FOUND, "Method not found: server/discover")
        return result_answer(request, known if "supportedVersions" in known else discover_result(known))

    def discovery(self) -> JsonObject:
        """Return the server's description of itself in either era, or what its tools imply."""
        for method in DISCOVERIES:
            for stored in _exchanges(self._index, mcp_key(self.server, method)):
                if isinstance(stored.exchange.result, dict):
                    return stored.exchange.result
        return {"capabilities": {"tools": {}}, "serverInfo": {"name": self.server, "version": ""}}

    def _needs_handshake(self) -> bool:
        """Return whether the server sent requests of its own, which only handshake-era clients accept."""
        frames = (stored.exchange.wire for stored in self._index if stored.key.startswith(f"{self.server}."))
        lines = (raw for wire in frames if wire is not None and wire.is_streamed for _, raw in wire.timed_frames())
        return any(parse_message(raw).is_request for raw in lines)

    def _tools_by_name(self) -> list[JsonObject]:
        """Return a list of the recorded tools, for a recording without one."""
        prefix = f"{self.server}."
        names = dict.fromkeys(each.key.removeprefix(prefix) for each in self._index if each.key.startswith(prefix))
        return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def _exchanges(index: ExchangeIndex[ToolExchange], key: str) -> Iterator[StoredExchange[ToolExchange]]:
    stored = index.find(key=key, fingerprint=None, after=-1)
    while stored is not None:
        yield stored
        stored = index.find(key=key, fingerprint=None, after=stored.id)


def _open_subscription(request: McpMessage) -> McpAnswer:
    """Return the answer to `subscriptions/listen`, which acknowledges the request; nothing changes."""
    wanted = request.params.get("notifications")
    params = {"notifications": wanted or {}, "_meta": {SUBSCRIPTION_META: request.id}}
    raw = encode({"method": "notifications/subscriptions/acknowledged", "params": params})
    return McpAnswer(messages=((0.0, raw),), ending="silence", end_ms=float("inf"))


def recorded_messages(exchange: ToolExchange, request: McpMessage) -> list[TimedMessage]:
    """Return the messages of the server's answer, the response last. After an edit by hand, or if it was not recorded
    over MCP, the response is made from the result.
    """
    wire = exchange.wire
    lines = [] if wire is None or wire.protocol != PROTOCOL else wire.timed_frames()
    messages = [(at_ms, line.strip()) for at_ms, line in lines if line.strip()]
    if messages and (not request.tool or _is_unchanged(exchange, messages[-1][1])):
        return messages
    return [*messages[:-1], (exchange.latency_ms, _response_of(exchange, is_call=bool(request.tool)))]


def _is_unchanged(exchange: ToolExchange, response: bytes) -> bool:
    outcome = call_outcome(parse_message(response).fields)
    return outcome.result == exchange.result and outcome.error == exchange.error


def own_arguments(message: McpMessage) -> JsonObject:
    """Return the recorded part of a message that a server sent by itself."""
    return {name: value for name, value in message.params.items() if name != "_meta"}


def call_outcome(response: Mapping[str, Any]) -> ToolExchange:
    """Return the result or error of the response to a tool call, as a recording has it."""
    if (error := response.get("error")) is not None:
        message = error.get("message", "") if isinstance(error, dict) else error
        return ToolExchange(error=RecordedError("McpError", str(message)))
    result = response.get("result")
    if not isinstance(result, dict):
        return ToolExchange(result=result)
    seen = model_text(result) if "content" in result else result
    if result.get("isError") is True:
        return ToolExchange(error=RecordedError("ToolError", seen if isinstance(seen, str) else result_text(seen)))
    return ToolExchange(result=seen)


def _response_of(exchange: ToolExchange, *, is_call: bool) -> bytes:
    if exchange.error is not None and is_call and exchange.error.type != "McpError":
        return encode({"id": 0, "result": text_result(exchange.error.message, is_error=True)})
    if exchange.error is not None:
        return encode({"id": 0, "error": {"code": INTERNAL_ERROR, "message": exchange.error.message}})
    value = None if exchange.result is UNSET else exchange.result
    if not is_call:
        return encode({"id": 0, "result": value})
    if isinstance(value, list) and value and all(isinstance(block, dict) and "type" in block for block in value):
        return encode({"id": 0, "result": {"content": value}})
    if isinstance(value, dict) and "resultType" in value:
        return encode({"id": 0, "result": value})
    result = text_result(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return encode({"id": 0, "result": result | ({"structuredContent": value} if isinstance(value, dict) else {})})


def recorded_servers(index: ExchangeIndex[ToolExchange]) -> list[str]:
    """Return the servers of a recording, in order: those with a discovery or a list."""
    return list(dict.fromkeys(split_mcp_key(stored.key)[0] for stored in index if is_mcp_key(stored.key)))


def annotations_of(index: ExchangeIndex[ToolExchange], server: str) -> dict[str, JsonObject]:
    """Return the annotations of a server's tools by name, such as `readOnlyHint`, from its last lists."""
    annotations: dict[str, JsonObject] = {}
    for tool in listed_tools(index, server):
        declared = tool.get("annotations")
        annotations[tool["name"]] = declared if isinstance(declared, dict) else {}
    return annotations


def listed_tools(index: ExchangeIndex[ToolExchange], server: str) -> Iterator[JsonObject]:
    """Yield the tools that a server has listed, in order, with repetitions."""
    for stored in _exchanges(index, mcp_key(server, "tools/list")):
        listed = stored.exchange.result
        for tool in listed.get("tools", []) if isinstance(listed, dict) else []:
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                yield tool


def _headers_of(schema: object) -> dict[str, str]:
    """Return the properties of a schema that clients repeat in headers, by the names of these."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    declared = properties.items() if isinstance(properties, dict) else ()
    named = {name: each.get("x-mcp-header") for name, each in declared if isinstance(each, dict)}
    return {header: name for name, header in named.items() if isinstance(header, str) and header}


_Place: TypeAlias = tuple[str, str]
"""The common identity of equal calls: the key in the recording, and the hash of the arguments."""

_OWN_METHODS = UNRECORDED_METHODS | EMPTY_RESULTS | set(DISCOVERIES)
"""Methods that every process sends to its own server."""


class SharedMcpReplay(McpReplay):
    """Answers one session's requests to `server` from a recording that other processes extend meanwhile.

    Only recorded answers are given: the rest, such as `ping`, goes to the running real server. Equal tool calls are
    numbered, because their results may differ: the second call of every session gets the second answer. Equal calls of
    a session are made one at a time, so that processes agree on the numbers.
    """

    def __init__(self, server: str, cache: CallCache, *, latency: Latency = NO_LATENCY) -> None:
        super().__init__(server, CachedTools(cache), latency=latency, lenient_requests=True)
        self._cache = cache
        self._names = ToolCallNames()
        self._lines: dict[_Place, deque[object]] = {}
        self._admitted = set[_Place]()
        self._made: dict[CallTurn, tuple[_Place, object]] = {}
        self._places: dict[int, _Place] = {}

    def shares(self, request: McpMessage) -> bool:
        """Return whether one process makes such a request for all."""
        return request.method not in _OWN_METHODS

    def find(self, request: McpMessage) -> FoundAnswer:
        """Return the presently recorded answer; see `McpSource`. It is for the first of equal waiting calls.

        Raises:
            RecordingMismatchError: no recorded answer matches.
            InputError: the recording cannot be reached.
        """
        place = self._place(request)
        is_first = place in self._admitted or not self._lines.get(place)
        self._admitted.discard(place)
        if not is_first or not self._cache.has_answer(lambda: self._has_answer(request)):
            raise RecordingMismatchError("no process has recorded this yet", kind="missing", key=place[0])
        found = super().find(request)
        assert found.stored is not None
        self._places[found.stored.id] = place
        return found

    def use(self, found: FoundAnswer) -> DueMessages:
        """Count an answer as served. The real server sends its own messages."""
        assert found.match is not None
        assert found.stored is not None
        self.tools.use(found.match)
        self._names.count(*self._places[found.stored.id])
        return NOTHING_DUE

    async def turn(self, request: McpMessage) -> CallTurn:
        """Wait until a call is ours to make, or `find` has its answer. Equal calls have their turns in order.

        `note_recorded` or `give_up` ends our turn.

        Raises:
            InputError: the recording cannot be reached.
        """
        place, me = self._place(request), object()
        line = self._lines.setdefault(place, deque())
        line.append(me)
        try:
            for pause_s in pauses_until(lambda: line[0] is me):
                await self._cache.clock.sleep_s(pause_s)
            turn = await self._turn(place, request)
        except BaseException:
            line.remove(me)
            raise
        if turn.is_answered:
            line.remove(me)
            self._admitted.add(place)
        else:
            self._made[turn] = place, me
        return turn

    async def _turn(self, place: _Place, request: McpMessage) -> CallTurn:
        def check() -> bool:
            return self._has_answer(request)

        if self._cache.has_answer(check):
            return ANSWERED
        return await self._cache.turn(self._names.next(*place, is_numbered=bool(request.tool)), check)

    def claim(self, request: McpMessage) -> CallTurn | None:
        """Return the turn to record a call made without one: a call of a batch, or one that every process makes.

        Returns None if it is recorded, or another process records it now.

        Raises:
            InputError: the recording cannot be reached.
        """
        if request.method in UNRECORDED_METHODS:
            return None
        return self._claim(self._place(request), is_numbered=bool(request.tool))

    def claim_own(self, message: McpMessage) -> CallTurn | None:
        """Return the turn to record a message that the server has sent on its own, like `claim`."""
        place = mcp_key(self.server, message.method), hash_arguments(own_arguments(message))
        return self._claim(place, is_numbered=True)

    def _claim(self, place: _Place, *, is_numbered: bool) -> CallTurn | None:
        name = self._names.next(*place, is_numbered=is_numbered)
        if not self._cache.acquire(name):
            return None
        if self._cache.has_answer(lambda: self._use_recorded(place, is_numbered=is_numbered)):
            self._cache.release(name)
            return None
        turn = CallTurn(lambda: self._cache.release(name), call=name)
        self._made[turn] = place, None
        return turn

    def _use_recorded(self, place: _Place, *, is_numbered: bool) -> bool:
        """Return whether a message is recorded. The second of two equal numbered ones is a different message."""
        match = self.tools.look_up(place[0], {}, place[1])
        if match.mismatch is not None or match.stored is None:
            return False
        if match.stored.id in self.tools.used_ids:
            return not is_numbered
        self.tools.note_used([match.stored.id])
        self._names.count(*place)
        return True

    def note_recorded(self, turn: CallTurn, recorded: RecordedAs | None) -> None:
        """End our turn with the recorded exchange, which is for other processes."""
        if recorded is None:
            self.give_up(turn)
        elif (place := self._end(turn)) is not None:
            if recorded.id is not None:
                self.tools.note_used([recorded.id])
            self._names.count(*place)

    def give_up(self, turn: CallTurn) -> None:
        """End a turn of ours without an answer. Safe to call twice."""
        if self._end(turn) is not None:
            with suppress(InputError):  # the lease ends by itself
                turn.release()

    def _end(self, turn: CallTurn) -> _Place | None:
        """Give the next of equal calls its turn. Return None if that was done already."""
        place, me = self._made.pop(turn, (None, None))
        if place is not None and me is not None:
            self._lines[place].remove(me)
        return place

    def _place(self, request: McpMessage) -> _Place:
        return self.key(request), arguments_hash(request)

    def _has_answer(self, request: McpMessage) -> bool:
        key, fingerprint = self._place(request)
        return self.shares(request) and self.tools.look_up(key, {}, fingerprint).mismatch is None
