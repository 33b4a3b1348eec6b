"""Builds sessions and the recorder from WireOptions, finds the session of a call, and reports calls."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence, Set
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.events import guard_sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.faults.log import FaultLog
from offbook.recording.call_cache import CacheCounts
from offbook.recording.latency import Latency
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.folders import NOWHERE, SAME_FOLDERS, FolderMap, FolderNotes, RunFolders
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import PositionedReader
from offbook.session.log import Log, Served
from offbook.session.script import ScriptedModels
from offbook.session.session import NO_FAULTS
from offbook.session.sources import CachedModels, CachedTools, ClaimedModels, RecordedModels, RecordedTools
from offbook.session.tape import Tape
from offbook.wire.options import DEFAULT_RESPONSE, ProgramToolOptions, WireOptions, parse_fault_plan
from offbook.wire.recordings import (
    OverusedExchange,
    RecordingSet,
    RecordingUse,
    UnusedExchange,
    describe_exchange,
)
from offbook.wire.request import HttpRequest, ParsedRequest, RequestParser, route_of
from offbook.wire.response import HttpResponse, refusal_response
from offbook.wire.session import (
    MAX_CALLS,
    CallAttempt,
    ExploredRun,
    Miss,
    RequestMemory,
    WireCall,
    WireOutcome,
    WireSession,
)

if TYPE_CHECKING:
    from offbook.session.recorder import Recorder
    from offbook.wire.proxy.recorder import WireRecorder
    from offbook.wire.tools import ProgramTools

MAX_SESSIONS = 10_000
MAX_SESSION_NAME_CHARS = 2_000
SESSION_HEADER = "x-offbook-session"
_PREFIX = re.compile(r"/s/([^/]{1,2000})(/.*)?", re.DOTALL)


def split_session_path(path: str) -> tuple[str, str]:
    """Split a path into its unquoted session, or "", and the path within the session."""
    prefixed = _PREFIX.fullmatch(path) if path.startswith("/s/") else None
    return ("", path) if prefixed is None else (unquote(prefixed[1]), prefixed[2] or "/")


def session_prefix(name: str) -> str:
    """Return the path prefix of a session. The name is quoted twice, since servers decode a quoted slash."""
    return f"/s/{quote(quote(name, safe=''), safe='')}"


MAX_NAMED_SESSIONS = 2
"""The number of sessions of a recording remembered by name, enough to detect several."""


class SessionTotals:
    """Counts over all sessions with calls.

    `calls` counts calls, `cost_usd` is the cost of real APIs' answers. `outcomes` counts the outcomes of all attempts,
    `failures` the recorded failures of real APIs by description, and `unrecorded` the calls that could not be recorded
    by reason. `faults` has the latest faults.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.cost_usd = 0.0
        self.outcomes: Counter[WireOutcome] = Counter()
        self.failures: Counter[str] = Counter()
        self.unrecorded: Counter[str] = Counter()
        self.faults = FaultLog()
        self.uses: dict[Tape, RecordingUse] = {}
        self.tool_uses: dict[Tape, RecordingUse] = {}

    @property
    def but_for(self) -> Counter[tuple[str, ...]]:
        """The calls that matched although they differ from the recording, counted by the harmless difference."""
        return sum((tape.but_for for tape in self.uses), Counter[tuple[str, ...]]())

    @property
    def tries(self) -> int:
        """The number of attempts of all calls."""
        return self.outcomes.total()

    def add(self, session: WireSession) -> None:
        """Add a session, which must be added only once."""
        if session.outcomes:
            self._count(session, calls=session.call_count)
            for uses, source in ((self.uses, session.source), (self.tool_uses, session.tool_source)):
                if source is not None:
                    _use(uses, source.tape, {session.name}, source.used_ids)

    def plus(self, sessions: Iterable[WireSession]) -> SessionTotals:
        """Return the totals of these and further sessions."""
        totals = SessionTotals()
        totals._count(self, calls=self.calls)
        for uses, ours in ((totals.uses, self.uses), (totals.tool_uses, self.tool_uses)):
            for tape, use in ours.items():
                _use(uses, tape, use.sessions, use.ids)
        for session in sessions:
            totals.add(session)
        return totals

    def _count(self, other: SessionTotals | WireSession, *, calls: int) -> None:
        self.calls += calls
        self.cost_usd += other.cost_usd
        self.outcomes.update(other.outcomes)
        self.failures.update(other.failures)
        self.unrecorded.update(other.unrecorded)
        self.faults.update(other.faults)
        del self.faults.fired[:-MAX_CALLS]


def _use(uses: dict[Tape, RecordingUse], tape: Tape, sessions: set[str], ids: Set[int]) -> None:
    use = uses.setdefault(tape, RecordingUse(set(), set()))
    use.ids.update(ids)
    if len(use.sessions) < MAX_NAMED_SESSIONS:
        use.sessions.update(sessions)


class SessionRegistry:
    """The sessions by name. A session is created on first use, with the server's fault plan.

    `has_tools` says whether tool faults can fire. Above 10,000 sessions, the least recently used one is deleted. `past`
    has the totals of deleted sessions.
    """

    def __init__(
        self,
        create: Callable[[str, FaultPlan], WireSession],
        plan: FaultPlan = NO_FAULTS,
        *,
        has_tools: bool = False,
        create_tools: Callable[[WireSession], ProgramTools] | None = None,
    ) -> None:
        self._create, self._plan, self.has_tools = create, plan, has_tools
        self._create_tools = create_tools
        self._tools: dict[str, ProgramTools] = {}
        self.past = SessionTotals()
        self._sessions: dict[str, WireSession] = {}
        self._by_use: dict[str, WireSession] = {}
        self._latest: WireSession | None = None

    def for_request(self, request: HttpRequest) -> tuple[WireSession, HttpRequest]:
        """Return the session that the request names by path or header, and the request without the path prefix."""
        name, path = split_session_path(request.path)
        if name:
            return self.named(name), replace(request, path=path)
        return self.named(request.headers.get(SESSION_HEADER, "")), request

    def named(self, name: str) -> WireSession:
        """Return the session of that name, created if necessary."""
        session = self._sessions.get(name)
        if session is None:
            return self.start(name, self._plan)
        if session is not self._latest:
            self._latest = self._by_use[name] = self._by_use.pop(name)
        return session

    def tools_of(self, session: WireSession) -> ProgramTools | None:
        """Return the face for the function tools of a session's program, or None if they are not taken over."""
        tools = self._tools.get(session.name)
        if self._create_tools is not None and (tools is None or tools.session is not session):
            tools = self._tools[session.name] = self._create_tools(session)
        return tools

    @property
    def program_tools(self) -> list[ProgramTools]:
        """The function tools of all sessions' programs that were asked about."""
        return list(self._tools.values())

    def find(self, name: str) -> WireSession | None:
        """Return the session of that name, or None."""
        return self._sessions.get(name)

    def start(self, name: str, plan: FaultPlan) -> WireSession:
        """Create a session, which replaces one of that name."""
        return self.add(self._create(name, plan))

    def add(self, session: WireSession) -> WireSession:
        """Add a session, which replaces one of its name."""
        self.forget(session.name)
        if len(self._sessions) >= MAX_SESSIONS:
            self.forget(next(iter(self._by_use)))
        self._latest = self._by_use[session.name] = self._sessions[session.name] = session
        return session

    def follow(self, plan: FaultPlan) -> None:
        """Use this fault plan in all sessions from now on."""
        self._plan = plan
        for session in self:
            session.follow(plan)

    def forget(self, name: str) -> bool:
        """Delete a session, and return whether it existed."""
        session = self._sessions.pop(name, None)
        if session is not None:
            del self._by_use[name]
            self._tools.pop(name, None)
            self._latest = None
            if not session.is_explored:  # there are thousands, and each has faults of its own, which its run reports
                self.past.add(session)
            session.close()
        return session is not None

    def __iter__(self) -> Iterator[WireSession]:
        return iter(list(self._sessions.values()))


class WireBackend:
    """The sessions of a set of options, and the recorder if `record` is given.

    Raises:
        InputError: an option is invalid, or a recording cannot be read.
    """

    def __init__(self, options: WireOptions) -> None:
        options.check()
        self._options = options
        plan = parse_fault_plan(options.faults, has_tools=options.has_tools, can_crash=options.can_crash)
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=options.seed)
        forked = None if options.live_from is None else _forked_recording(options, latency)
        self._folder_notes = FolderNotes(options.folders) if options.folders is not SAME_FOLDERS else None
        self.recorder = _open_recorder(
            options, self._folder_notes, options.normalise if forked is None else forked.encoder("").tape.rules
        )
        self.cache = None if self.recorder is None else self.recorder.cache
        self._recordings, self._latency = forked, latency
        self._tool_recorder: Recorder | None = None
        self._tool_answers: Tape | None = None
        try:
            self._recordings = forked or _recording_set(options, self.recorder, latency)
            self._open_tool_recorder()
        except InputError:
            self.close()
            raise
        self._parser = RequestParser(NO_RULES if self.recorder is None else self.recorder.rules)
        self._request_memory = RequestMemory()
        self._group = ""
        create_tools = None if options.tools is None else self._program_tools
        self.sessions = SessionRegistry(self._session, plan, has_tools=options.has_tools, create_tools=create_tools)

    @property
    def is_live(self) -> bool:
        """Whether calls without a recorded answer go upstream."""
        return self.recorder is not None and self.recorder.is_live

    @property
    def cache_counts(self) -> CacheCounts | None:
        """The uses of a shared recording by models and by tools, or None if it is not shared."""
        tools = None if self._tool_recorder is None else self._tool_recorder.cache
        counts = None if self.cache is None else self.cache.counts
        return counts if counts is None or tools is None else counts.plus(tools.counts)

    @property
    def takes_tools(self) -> bool:
        """Whether programs ask about their tool calls."""
        return self._options.tools is not None

    @property
    def got_no_answer(self) -> bool:
        """Whether calls were recorded, and no API has answered any of them."""
        return self.recorder is not None and self.recorder.got_no_answer

    def keep_recording(self) -> None:
        """Keep a recording that was to be replaced, because the run failed."""
        for recorder in (self.recorder, self._tool_recorder):
            if recorder is not None:
                recorder.keep()

    def close(self) -> None:
        """Close the recording."""
        if self._recordings is not None:
            self._recordings.close()
        if self._tool_answers is not None:
            self._tool_answers.reader.close()
        for recorder in (self.recorder, self._tool_recorder):
            if recorder is not None:
                recorder.close()

    def share_sessions(self, group: str) -> None:
        """Share sessions with all processes of the group through the recording.

        No effect if no answer depends on earlier calls.

        Raises:
            InputError: an answer does, and the recording is not in Redis.
        """
        if self._recordings is not None and self._recordings.needs_positions():
            self._group = group

    @property
    def replayed(self) -> RecordingSet | None:
        """The recordings that a run should use completely, or None, as for a cache."""
        return self._recordings if self.cache is None and self._options.live_from is None else None

    def start(
        self,
        name: str,
        faults: Iterable[str | PlannedFault] | FaultPlan,
        explored_run: ExploredRun | None = None,
    ) -> WireSession:
        """Create a session, which replaces one of that name."""
        options = self._options
        plan = parse_fault_plan(faults, has_tools=options.has_tools, can_crash=options.can_crash)
        return self.sessions.add(self._session(name, plan, explored_run))

    def _session(self, name: str, plan: FaultPlan, explored_run: ExploredRun | None = None) -> WireSession:
        options = self._options
        encoder = None if self._recordings is None else self._recordings.encoder(name)
        return self._session_type()(
            name,
            parser=self._parser if encoder is None else encoder.parser,
            source=None if encoder is None else self._source(name, encoder.tape, explored_run),
            encoder=encoder,
            plan=plan,
            is_live=self.is_live,
            lenient_requests=options.lenient_requests,
            retry_after_ms=options.retry_after_ms,
            sink=guard_sink(options.sink),
            on_call=options.on_call,
            explored_run=explored_run,
            memory=self._request_memory,
            folders=self._folders_of(None if encoder is None else encoder.tape, explored_run),
        )

    def _folders_of(self, tape: Tape | None, explored_run: ExploredRun | None) -> FolderMap:
        """Return a session's own folders, or else those of the options."""
        given = self._options.folders
        if given is SAME_FOLDERS and explored_run is None and (tape is None or tape.folders is NOWHERE):
            return SAME_FOLDERS
        today = given.today if explored_run is None else explored_run.folders
        recorded = given.recorded if tape is None else tape.folders.or_else(given.recorded)
        if self._options.exact:  # a copy of a folder is another one in each run, and no difference
            recorded = RunFolders(work=recorded.work if given.recorded.work else ())
        folders = FolderMap(recorded, today)
        return folders if folders.is_needed else SAME_FOLDERS

    def _open_tool_recorder(self) -> None:
        """Open the recorder of a program's tools, and its source of earlier answers, if it records."""
        options = self._options
        if options.tools is None or options.record is None:
            return
        from offbook.session.recorder import Recorder  # noqa: PLC0415 - only recording needs it

        self._tool_recorder = Recorder(
            options.record,
            mode=options.record_mode,
            kind="tools",
            redactor=options.redactor,
            folders=self._folder_notes,
            sink=options.sink,
        )
        if self._tool_recorder.has_answers and self._tool_recorder.cache is None:
            self._tool_answers = Tape(self._tool_recorder.answers(), strict=True)

    def _program_tools(self, session: WireSession) -> ProgramTools:
        from offbook.wire.tools import ProgramTools  # noqa: PLC0415 - only programs that we start have such tools

        default = self._options.default_response
        return ProgramTools(
            session,
            self._tool_source(session),
            options=self._options.tools or ProgramToolOptions(),
            recorder=self._tool_recorder,
            latency=self._latency,
            default_response=DEFAULT_RESPONSE if default is None else default,
            sink=guard_sink(self._options.sink),
        )

    def _tool_source(self, session: WireSession) -> RecordedTools | None:
        source = self._open_tool_source(session)
        if source is not None:
            source.folders = session.folders
        return source

    def _open_tool_source(self, session: WireSession) -> RecordedTools | None:
        """Return the source of recorded results for a session's tools."""
        if session.tool_script is not None:
            from offbook.wire.tools import SessionTools  # noqa: PLC0415 - only explored programs have scripts

            return SessionTools(session, session.tool_script)
        if self._options.live_from is not None and session.source is not None and self._tool_recorder is not None:
            from offbook.wire.proxy.fork import ForkedTools  # noqa: PLC0415 - few runs fork

            return ForkedTools(session.source.tape, recorder=self._tool_recorder)
        if self._tool_recorder is not None:
            if self._tool_recorder.cache is not None:
                return CachedTools(self._tool_recorder.cache)
            return None if self._tool_answers is None else RecordedTools(self._tool_answers)
        return None if session.source is None else RecordedTools(session.source.tape)

    def _session_type(self) -> Callable[..., WireSession]:
        if self._options.live_from is None or self.recorder is None:
            return WireSession
        from offbook.wire.proxy.fork import ForkedSession  # noqa: PLC0415 - few runs fork

        return partial(ForkedSession, live_from=self._options.live_from, recorder=self.recorder)

    def _source(self, session: str, tape: Tape, explored_run: ExploredRun | None) -> RecordedModels:
        if self.cache is not None:
            return CachedModels(tape, self.cache)
        if self._group and isinstance(tape.reader, PositionedReader):
            return ClaimedModels(tape, tape.reader.position(self._group, session))
        if explored_run is None:
            return RecordedModels(tape)
        return ScriptedModels(
            tape,
            explored_run.script,
            on_miss=explored_run.on_miss,
            continuation=explored_run.continuation,
            mark=explored_run.mark,
        )


def _forked_recording(options: WireOptions, latency: Latency) -> RecordingSet:
    """Open the recording that a run follows up to its fork.

    Raises:
        InputError: the new recording is the same one, or there is a folder of them.
    """
    recording, record = options.recording or "", options.record or ""
    if not Path(recording).is_dir() and open_store(recording).identity == open_store(record).identity:
        hint = "record to another file: what was recorded before the fork is copied there"
        raise InputError("a fork does not write to the recording that it follows", source="record", hint=hint)
    return RecordingSet(recording, latency=latency, strict=True)


def _open_recorder(options: WireOptions, folders: FolderNotes | None, rules: NormaliseRules) -> WireRecorder | None:
    if options.record is None:
        return None
    from offbook.wire.proxy.recorder import WireRecorder  # noqa: PLC0415 - only recording needs it

    return WireRecorder(
        options.record,
        mode=options.record_mode,
        redactor=options.redactor,
        folders=folders,
        sink=options.sink,
        rules=rules,
    )


def _recording_set(options: WireOptions, recorder: WireRecorder | None, latency: Latency) -> RecordingSet | None:
    """Open the recordings that answer before, or instead of, the real APIs, or return None."""
    if recorder is None or options.record is None:
        default = DEFAULT_RESPONSE if options.default_response is None else options.default_response
        return RecordingSet(
            options.recording,
            responses=options.responses,
            latency=latency,
            strict=options.is_strict,
            default_response=default,
            exact=options.exact,
        )
    if not recorder.has_answers:
        return None
    return RecordingSet(responses=recorder.answers(), latency=latency, strict=True)


class CallInspection(Served):
    """Shows the calls of a backend and their outcomes. Calls without a session name belong to the session `""`."""

    def __init__(self, backend: WireBackend) -> None:
        self._backend = backend

    @property
    def calls(self) -> list[WireCall]:
        """The calls of all sessions, session by session, in the order in which they were answered."""
        return [call for session in self._backend.sessions for call in session.calls.copy()]

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for session in self._backend.sessions for miss in session.misses.copy()]

    @property
    def sessions(self) -> list[WireSession]:
        """All sessions."""
        return list(self._backend.sessions)

    @property
    def log(self) -> Log:
        """The log of the session without a name."""
        return self.session("").log

    def fired(self) -> list[PlannedFault]:
        """Return the faults that fired in all sessions."""
        return [planned for session in self._backend.sessions for planned in session.fired]

    @property
    def got_no_answer(self) -> bool:
        """Whether calls were made to real APIs and none was answered."""
        return self._backend.got_no_answer

    @property
    def cache_counts(self) -> CacheCounts | None:
        """The uses of a shared recording, or None if it is not shared."""
        return self._backend.cache_counts

    def totals(self) -> SessionTotals:
        """Return the totals of all sessions, including deleted ones, except those of explored runs."""
        return self._backend.sessions.past.plus(self._backend.sessions)

    def unused_exchanges(self) -> list[UnusedExchange]:
        """Return the exchanges that no session was served, of the recordings in use. Call it before closing."""
        replayed, totals = self._backend.replayed, self.totals()
        if replayed is None:
            return []
        tools = replayed.tools_left_after(totals.tool_uses, servers=self.mcp_names) if self._backend.takes_tools else []
        return replayed.left_after(totals.uses) + tools

    @property
    def mcp_names(self) -> Sequence[str]:
        """The MCP servers with stand-ins."""
        return ()

    def overused_exchanges(self) -> list[OverusedExchange]:
        """Return the exchanges that a session was served too often. Call it before closing."""
        return [
            OverusedExchange(each.key, describe_exchange(each.exchange), each.served, session.name)
            for session in self._backend.sessions
            for each in session.overused()
        ]

    def unfired(self) -> list[PlannedFault]:
        """Return the faults planned for the session without a name that have not fired yet."""
        return self.log.unfired()

    def session(self, name: str) -> WireSession:
        """Return the session of that name, created if necessary."""
        return self._backend.sessions.named(name)

    def start_session(
        self,
        name: str,
        *,
        faults: Iterable[str | PlannedFault] | FaultPlan = (),
        explored_run: ExploredRun | None = None,
    ) -> WireSession:
        """Create a session with its own faults, which replaces one of that name."""
        return self._backend.start(name, faults, explored_run)

    @property
    def program_tools(self) -> list[ProgramTools]:
        """The function tools of all sessions' programs that were asked about."""
        return self._backend.sessions.program_tools

    def tools_of(self, session: WireSession) -> ProgramTools | None:
        """Return the face for the function tools of a session's program, or None if they are not taken over."""
        return self._backend.sessions.tools_of(session)

    def end_session(self, name: str) -> None:
        """Delete a session, if it exists."""
        self._backend.sessions.forget(name)

    def follow(self, plan: FaultPlan) -> None:
        """Use this fault plan in all sessions from now on."""
        self._backend.sessions.follow(plan)


logger = logging.getLogger("offbook.wire")

ACCEPTED_CALL = "offbook.accepted_call"
"""The key of an ASGI scope for the AcceptedCall, if the connection has already accepted it."""


class AcceptedCall(Struct, frozen=True, gc=False):
    """A call accepted by its session. Without an `answer` only the real API can answer it.

    `attempt` is None if the session failed; `answer` then has the reason.
    """

    session: WireSession
    request: HttpRequest
    attempt: CallAttempt | None
    answer: HttpResponse | None

    @property
    def is_ordered(self) -> bool:
        """Whether the answer must be sent `in_order`."""
        return self.session.has_orders and self.attempt is not None and self.attempt.site is not None

    @asynccontextmanager
    async def in_order(self) -> AsyncIterator[None]:
        """Hold the answer until the fault plan releases it; send it in the block."""
        if not self.is_ordered or self.attempt is None or self.attempt.site is None:
            yield
            return
        async with self.session.in_order(self.attempt.site, self.attempt.fault):
            yield

    def delivered(self) -> None:
        """Note that the answer was sent while the client was connected."""
        if self.attempt is not None:
            self.session.delivered(self.attempt)

    def left(self) -> None:
        """Note that the client has left without the answer."""
        if self.attempt is not None:
            self.session.left(self.attempt)


def accept(sessions: SessionRegistry, request: HttpRequest) -> AcceptedCall:
    """Have the session of a request answer it. Never raises: an error is logged, and answered with a 500."""
    session, request = sessions.for_request(request)
    return accept_in(session, request)


def accept_in(session: WireSession, request: HttpRequest, parsed: ParsedRequest | None = None) -> AcceptedCall:
    """Accept a request in a session. See `accept`."""
    try:
        attempt = session.start(request, parsed)
        return AcceptedCall(session, request, attempt, session.answer(attempt))
    except Exception:
        logger.exception("%s %s could not be answered", request.method, request.path)
        codec = route_of(request.method, request.path, request.headers).any_codec
        answer = refusal_response(codec, 500, "the server failed to answer; see its log")
        return AcceptedCall(session, request, None, answer)
