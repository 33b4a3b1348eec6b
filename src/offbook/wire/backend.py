"""Builds sessions and the recorder from WireOptions, finds the session of a call, and shows what happened."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink, guard_sink
from offbook.faults import FaultPlan, PlannedFault, parse_fault
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.match.fingerprint import NO_RULES
from offbook.recording.record_mode import RecordMode
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import StoredExchange
from offbook.text import printable, shorten
from offbook.wire.calls import NO_FAULTS, CallAttempt, Miss, WireCall, ignore_call
from offbook.wire.encode import error_response
from offbook.wire.proxy.recorder import WireRecorder
from offbook.wire.replay import ExploredReplay, ExploredRun, WireReplay
from offbook.wire.replay_source import RecordingSet, ReplaySource
from offbook.wire.request import HttpRequest, RequestParser, route_of
from offbook.wire.response import HttpResponse
from offbook.wire.session import RecordingUse, SessionTotals, WireSession

MAX_DESCRIPTION_CHARS = 60


class UnusedExchange(Struct, frozen=True):
    """An exchange that no session was served: its key, and its place in the key's list from 0.

    `about` tells it from others: the model and what was asked, or `GET /v1/models`. `recording` has it; `session` is
    the one that was answered from there, empty if there were several.
    """

    key: str
    position: int
    about: str
    recording: str
    session: str


def unused_exchanges(
    uses: Mapping[ReplaySource, RecordingUse], file_of: Callable[[ReplaySource, Exchange], str]
) -> list[UnusedExchange]:
    """What the sessions have left, stock by stock. What is in two stocks was used if it was used from one of them."""
    taken = [(stock, stored) for stock, use in uses.items() for stored in stock.shelf if stored.id in use.ids]
    left: list[UnusedExchange] = []
    for stock, use in uses.items():
        others: dict[str, list[Exchange]] = {}
        for other, stored in taken:
            if other is not stock:
                others.setdefault(stored.key, []).append(stored.exchange)
        session = min(use.sessions) if len(use.sessions) == 1 else ""
        for position, stored in _unused_in(stock, use):
            if not any(stored.exchange.is_same(each) for each in others.get(stored.key, ())):
                file = file_of(stock, stored.exchange)
                left.append(UnusedExchange(stored.key, position, describe_exchange(stored.exchange), file, session))
                taken.append((stock, stored))
    return left


def _unused_in(stock: ReplaySource, use: RecordingUse) -> Iterator[tuple[int, StoredExchange[Exchange]]]:
    """The exchanges that were not served from here, each with its place in its key's list."""
    positions = dict[str, int]()
    for stored in stock.shelf:
        position = positions[stored.key] = positions.get(stored.key, -1) + 1
        if stored.id not in use.ids:
            yield position, stored


def describe_exchange(exchange: Exchange) -> str:
    """An exchange in a few words: `gpt-4o: What is the weather?`, `GET /v1/models`, or where that is not told, what it
    answers. Nothing in them can control a terminal."""
    if place := exchange.http_place():
        return shorten(place, MAX_DESCRIPTION_CHARS)
    asked = _last_message(exchange)
    told = ": ".join(filter(None, [exchange.model, asked])) if asked else f"answers {_answer_text(exchange)}"
    return shorten(" ".join(printable(told).split()), MAX_DESCRIPTION_CHARS)


def _last_message(exchange: Exchange) -> str:
    """The last text that was said to the model."""
    messages = (exchange.request_fields() or {}).get("messages", [])
    texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
    return texts[-1] if texts else ""


def _answer_text(exchange: Exchange) -> str:
    """The text of the answer, else the tools that it calls, or the fault that it is."""
    calls = [f"{call.name}(…)" for call in exchange.tool_calls or ()]
    return exchange.content or ", ".join(calls) or ("nothing" if exchange.fault is None else exchange.fault.type)


MAX_SESSIONS = 10_000
SESSION_HEADER = "x-offbook-session"
_PREFIX = re.compile(r"/s/([^/]{1,2000})(/.*)", re.DOTALL)


def split_session_path(path: str) -> tuple[str, str]:
    """The session that a path names, empty if it names none, and the path within it. Its name may be quoted."""
    prefixed = _PREFIX.fullmatch(path) if path.startswith("/s/") else None
    return ("", path) if prefixed is None else (unquote(prefixed[1]), prefixed[2])


def session_prefix(name: str) -> str:
    """What the paths of a session begin with. It is quoted twice, since servers read a quoted slash as a slash."""
    return f"/s/{quote(quote(name, safe=''), safe='')}"


class SessionRegistry:
    """Makes a session when its name is first used; one that nobody started has the plan that the server was given.

    Beyond 10,000 the oldest is forgotten. `past` counts what became of those that are gone.
    """

    def __init__(self, make: Callable[[str, FaultPlan], WireSession], plan: FaultPlan = NO_FAULTS) -> None:
        self._make, self._plan = make, plan
        self.past = SessionTotals()
        self._sessions: dict[str, WireSession] = {}

    def of(self, call: HttpRequest) -> tuple[WireSession, HttpRequest]:
        """The session that the call belongs to, by its path or header, and the call without that."""
        name, path = split_session_path(call.path)
        if name:
            return self.named(name), replace(call, path=path)
        return self.named(call.headers.get(SESSION_HEADER, "")), call

    def named(self, name: str) -> WireSession:
        """The session of that name, made if there is none."""
        session = self._sessions.get(name)
        return self.start(name, self._plan) if session is None else session

    def find(self, name: str) -> WireSession | None:
        """The session of that name, if there is one."""
        return self._sessions.get(name)

    def start(self, name: str, plan: FaultPlan) -> WireSession:
        """A new session of that name, in the place of the one that may be there."""
        return self.add(self._make(name, plan))

    def add(self, session: WireSession) -> WireSession:
        """The session, from now on the one of its name."""
        self.forget(session.name)
        if len(self._sessions) >= MAX_SESSIONS:
            self.forget(next(iter(self._sessions)))
        self._sessions[session.name] = session
        return session

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, in all sessions from now on."""
        self._plan = plan
        for session in self:
            session.follow(plan)

    def forget(self, name: str) -> bool:
        """Whether there was a session of that name, which is no more."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self.past.add(session)
        return session is not None

    def __iter__(self) -> Iterator[WireSession]:
        return iter(list(self._sessions.values()))


DEFAULT_RESPONSE = "Mock response"


class WireOptions(Struct, frozen=True, kw_only=True):
    """What answers calls, and how.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; `responses` is the same as a dict, instead.
    What neither has is refused if `strict`, else answered with `default_response`. By default a recording is strict,
    unless a default response is given, and responses are not. `faults` are lines like `call=3: http_error 500`, or a
    plan. `retry_after_ms` goes with injected errors that do not say how long to wait, so that SDKs try again at once.
    `on_call` is told of each call as it is answered, on the server's thread.

    `record` is the recording to be made of what the real APIs answer, instead of one to answer from. `record_mode` is
    that of RecordingProvider: `append`, `once`, `new`, `all` or `fresh`. `upstreams` says where the APIs are, by vendor
    (`openai`, `anthropic`, `google`, `ollama`), as the SDKs' variables would; by default at the vendors'.
    `upstream_keys` are keys by vendor, which go there in the place of what clients give as their key.
    `upstream_timeout_s` is the longest wait for an API to go on; None waits for ever. `redactor` says what counts as a
    secret.
    """

    recording: str | os.PathLike[str] | None = None
    responses: Mapping[str, Any] | Document | None = None
    strict: bool | None = None
    default_response: str | None = None
    faults: Iterable[str | PlannedFault] | FaultPlan = ()
    latency_model: LatencyModel = "constant"
    latency_ms: float = 0.0
    seed: int = 0
    retry_after_ms: float | None = None
    sink: Sink = NULL_SINK
    on_call: Callable[[WireCall], None] = ignore_call
    record: str | os.PathLike[str] | None = None
    record_mode: RecordMode = "append"
    upstreams: Mapping[str, str] | None = None
    upstream_keys: Mapping[str, str] | None = None
    upstream_timeout_s: float | None = None
    redactor: Redactor | None = None


class WireBackend:
    """The sessions of a set of options, and the recorder if there is something to record.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """

    def __init__(self, options: WireOptions) -> None:
        _check_source(options)
        self._options = options
        plan = parse_fault_plan(options.faults)
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=options.seed)
        self.recorder = _open_recorder(options)
        self._library: RecordingSet | None = None
        try:
            self._library = _recording_set(options, self.recorder, latency)
        except InputError:
            self.close()
            raise
        self._reader = RequestParser(NO_RULES if self.recorder is None else self.recorder.rules)
        self.sessions = SessionRegistry(self._session, plan)

    @property
    def is_live(self) -> bool:
        """Whether what there is no answer for is asked upstream."""
        return self.recorder is not None and self.recorder.is_live

    def close(self) -> None:
        """Close the recording."""
        if self._library is not None:
            self._library.close()
        if self.recorder is not None:
            self.recorder.close()

    def unused_exchanges(self, totals: SessionTotals) -> list[UnusedExchange]:
        """The exchanges that no session was served, of the recordings that answered one; else of the whole."""
        if self._library is None:
            return []
        uses = totals.uses or {self._library.stock(""): RecordingUse(set(), set())}
        return unused_exchanges(uses, self._library.file_of)

    def start(self, name: str, plan: FaultPlan, explored_run: ExploredRun | None = None) -> WireSession:
        """A new session of that name, in the place of the one that may be there."""
        return self.sessions.add(self._session(name, plan, explored_run))

    def _session(self, name: str, plan: FaultPlan, explored_run: ExploredRun | None = None) -> WireSession:
        options = self._options
        stock = None if self._library is None else self._library.stock(name)
        return WireSession(
            name,
            reader=self._reader if stock is None else stock.reader,
            replay=None if stock is None else self._replay(stock, explored_run),
            plan=plan,
            is_live=self.is_live,
            retry_after_ms=options.retry_after_ms,
            sink=guard_sink(options.sink),
            on_call=options.on_call,
            explored_run=explored_run,
        )

    def _replay(self, stock: ReplaySource, explored_run: ExploredRun | None) -> WireReplay:
        default = DEFAULT_RESPONSE if self._options.default_response is None else self._options.default_response
        if explored_run is None:
            return WireReplay(stock, default_response=default)
        return ExploredReplay(stock, default_response=default, explored_run=explored_run)


def parse_fault_plan(faults: Iterable[str | PlannedFault] | FaultPlan) -> FaultPlan:
    """The plan that is given, or that the lines make; NO_FAULTS if there are none.

    Raises:
        InputError: a line cannot be read, or is about a tool.
    """
    if isinstance(faults, str):
        raise InputError("expected a list of faults, got a text", source="faults", hint=f"[{faults!r}]")
    if not isinstance(faults, FaultPlan):
        lines = [parse_fault(fault) if isinstance(fault, str) else fault for fault in faults]
        faults = FaultPlan(lines) if lines else NO_FAULTS
    for line in faults:
        if line.at.tool is not None:
            hint = "strike them there: inject_tools(tools, plan), or tool_call_fault for a tool that the model asks for"
            raise InputError("tools run in the program under test", source=repr(str(line)), place="tool", hint=hint)
    return faults


def _check_source(options: WireOptions) -> None:
    given = (options.recording, options.responses, options.default_response, options.record)
    if all(each is None for each in given):
        hint = "give a recording, responses, a default_response, or record, a path to record to"
        raise InputError("there is nothing to answer with", hint=hint)


def _open_recorder(options: WireOptions) -> WireRecorder | None:
    if options.record is None:
        if options.upstreams or options.upstream_keys:
            raise InputError("nothing is asked upstream", source="upstreams", hint="give record=, a path to record to")
        return None
    if options.recording is not None or options.responses is not None:
        hint = "record_mode='new' answers from what the recording has, and records what it lacks"
        raise InputError("give record, or else a recording or responses", source="record", hint=hint)
    if options.strict is not None or options.default_response is not None:
        raise InputError("what is not recorded yet is asked upstream: leave out strict and default_response")
    return WireRecorder(options.record, mode=options.record_mode, redactor=options.redactor, sink=options.sink)


def _recording_set(options: WireOptions, recorder: WireRecorder | None, latency: Latency) -> RecordingSet | None:
    """What answers before upstream is asked, or instead; None if nothing does."""
    if recorder is None or options.record is None:
        return RecordingSet(options.recording, responses=options.responses, latency=latency, strict=_is_strict(options))
    if not recorder.has_answers:
        return None
    if not recorder.is_live:
        return RecordingSet(options.record, latency=latency, strict=True)
    return RecordingSet(responses=open_store(options.record).load(), latency=latency, strict=True)


def _is_strict(options: WireOptions) -> bool:
    if options.strict is not None:
        return options.strict
    return options.recording is not None and options.default_response is None


class CallInspection:
    """The calls of a stage, and what became of them. Calls that name no session belong to the one without a name."""

    def __init__(self, stage: WireBackend) -> None:
        self._stage = stage

    @property
    def calls(self) -> list[WireCall]:
        """The calls of all sessions, in the order in which they were answered in each."""
        return [call for session in self._stage.sessions for call in session.calls.copy()]

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for session in self._stage.sessions for miss in session.misses.copy()]

    @property
    def sessions(self) -> list[WireSession]:
        """The sessions that there are."""
        return list(self._stage.sessions)

    def unused(self) -> list[UnusedEntry]:
        """The entries of the recording that the session without a name was never served."""
        return self.session("").unused()

    def fired(self) -> list[PlannedFault]:
        """The faults that fired, of all sessions."""
        return [planned for session in self._stage.sessions for planned in session.fired]

    def totals(self) -> SessionTotals:
        """What became of the calls of all sessions, also of those that are gone."""
        return self._stage.sessions.past.plus(self._stage.sessions)

    def unused_exchanges(self) -> list[UnusedExchange]:
        """The exchanges that no session was served, of the recordings that answered one. To be asked while it runs."""
        return self._stage.unused_exchanges(self.totals())

    def unfired(self) -> list[PlannedFault]:
        """The faults planned for the session without a name that have not fired so far."""
        return self.session("").unfired()

    def session(self, name: str) -> WireSession:
        """The session of that name, made if there is none."""
        return self._stage.sessions.named(name)

    def start_session(
        self,
        name: str,
        *,
        faults: Iterable[str | PlannedFault] | FaultPlan = (),
        explored_run: ExploredRun | None = None,
    ) -> WireSession:
        """A new session, with faults of its own, in the place of one of that name that may be there."""
        return self._stage.start(name, parse_fault_plan(faults), explored_run)

    def end_session(self, name: str) -> None:
        """Forget a session, if there is one of that name."""
        self._stage.sessions.forget(name)

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, in all sessions from now on."""
        self._stage.sessions.follow(plan)


logger = logging.getLogger("offbook.wire")

ACCEPTED_CALL = "offbook.begun"
"""Where a scope has the call, if it was begun."""


class AcceptedCall(Struct, frozen=True, gc=False):
    """A call with its answer. Without one, only upstream can tell it. One that could not be taken is not `taken`."""

    session: WireSession
    call: HttpRequest
    taken: CallAttempt | None
    answer: HttpResponse | None


def accept(sessions: SessionRegistry, call: HttpRequest) -> AcceptedCall:
    """Have the call taken on by its session. Never raises: what fails here is logged, and answered with a 500."""
    session, call = sessions.of(call)
    try:
        taken = session.take(call)
        return AcceptedCall(session, call, taken, session.answer(taken))
    except Exception:
        logger.exception("%s %s could not be answered", call.method, call.path)
        codec = route_of(call.method, call.path, call.headers).vendor_codec
        told = "the stand-in failed to answer; its log says why"
        return AcceptedCall(session, call, None, error_response(codec, 500, told, headers={"x-should-retry": "false"}))
