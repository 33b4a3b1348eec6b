"""A session answers the calls of one run from its recording and fault plan."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.framing import PackedBodyError
from offbook.errors import (
    InputError,
    MismatchKind,
    RecordingMismatchError,
    RecordingUnavailableError,
    RecordingWriteError,
)
from offbook.events import NULL_SINK, CallContent, FaultFired, ReplayMissed, ReplayServed, Sink, capture_content
from offbook.faults import AnyFault, AnyToolFault, Crash, FaultPlan, ToolSite
from offbook.faults.catalog import AnyOrderFault
from offbook.faults.log import FaultLog
from offbook.faults.site import Site
from offbook.messages import JsonObject, Request, Response, Usage
from offbook.recording.format.exchange import Exchange, RecordedToolCall, ToolExchange
from offbook.recording.format.wire_record import WEBSOCKET_METHOD
from offbook.recording.match.continuation import Continuation
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.match.fingerprint import NormaliseRules
from offbook.recording.match.folders import NOWHERE, SAME_FOLDERS, FolderMap, RunFolders
from offbook.session.log import Log, Served
from offbook.session.numbers import CallNumbers
from offbook.session.script import ModelScript, OnMiss, Script, ScriptedModels, World
from offbook.session.session import NO_FAULTS, Session
from offbook.session.sources import RecordedModels, RecordedTools
from offbook.text import shorten
from offbook.tools.effects import Effect, ToolDeclaration, split_reached
from offbook.vendors import codec_of
from offbook.wire.faults import FaultTarget, apply_fault, with_retry_after
from offbook.wire.recordings import AnswerEncoder
from offbook.wire.request import HttpRequest, ParsedRequest, RequestParser, note_credentials_of, unpacked_body
from offbook.wire.response import (
    NO_ANSWER,
    HttpResponse,
    has_wire_bytes,
    refusal_response,
    spoils_answer,
    vendor_refusal,
)
from offbook.wire.server.session_clock import LOOP_CLOCK, ResponseClock

if TYPE_CHECKING:
    from offbook.codecs.rules.rule import RuleRefusal
    from offbook.wire.synthetic.objects import StoredObjects
    from offbook.wire.tools import ProgramToolCall

logger = logging.getLogger("offbook.wire")

OK = 200
MISS_STATUS = 422
"""A status that no SDK retries, and that no vendor uses for an error that an agent could correct."""

_MISS_HINTS: dict[MismatchKind, str] = {
    "missing": "",
    "drifted": "record it again, or undo the change",
    "exhausted": "a new session starts from the beginning",
    "rejected": "correct the request, or set lenient_requests",
}

MAX_ERROR_CHARS = 4_000
MAX_EFFECTS = 100_000
CALL_BYTES = 1_000
"""The approximate memory of a call without its request."""


MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""The memory of remembered model requests over all sessions, latest first. Earlier calls lose their requests."""


class CallAttempt(Struct, frozen=True, gc=False):
    """One attempt of a call. `number` counts the requests of the session; `fault` applies to this one.

    `call` counts the model calls of the session, and is 0 for other requests; `attempt_number` counts the attempts of
    one call. `site` is a model call's place in fault plans. In an exploration, the fault's texts carry the `mark`.
    `refusal` is the vendor's refusal of the request.
    """

    parsed: ParsedRequest
    number: int
    attempt_number: int
    step_id: str | None = None
    fault: AnyFault | AnyOrderFault | None = None
    site: Site | None = None
    call: int = 0
    mark: str = ""
    crash: Crash | None = None
    refusal: RuleRefusal | None = None

    def content(self, exchange: Exchange | None) -> CallContent | None:
        """Return the messages of a model call that the exchange answers, or None for other requests."""
        request = self.parsed.request
        if request is None:
            return None
        is_answered = exchange is not None and exchange.fault is None
        response = exchange.response(model=request.model, provider="") if exchange and is_answered else None
        return CallContent(request, response, self.step_id, call=self.number, attempt=self.attempt_number)


class ToolAttempt(Struct, frozen=True, gc=False):
    """A tool call over MCP: its number among the requests of the session, its site, and the fault that applies."""

    number: int
    site: ToolSite
    fault: AnyToolFault | AnyOrderFault | None = None
    mark: str = ""
    crash: Crash | None = None


STEP_HEADER = "x-offbook-step"
FAULTED_OPERATIONS = ("generate", "embed")


WireOutcome = Literal["served", "fault", "default", "continued", "synthetic", "recorded", "passed", "missed", "refused"]
"""`served` from the recording; `fault` if one fired; `default` response for an unrecorded call; `continued` by a
continuation in an exploration; `synthetic` (an embedding, a list of models); `recorded` from upstream; `passed` on from
there without being recorded (too large, or the client left before anything arrived); `missed`; or `refused`, because
the request cannot be answered, or its answer could not be recorded.
"""


class CallOutcome(Struct, frozen=True, gc=False):
    """The outcome of a call to a model or an MCP server, with the `key` of the answering or recorded entry.

    `failure` describes a failure of the real one, `unrecorded` the reason why its answer could not be recorded, and
    `cost_usd` the cost of that answer. `tool_calls` are those of the client's answer.
    """

    type: WireOutcome
    key: str | None = None
    failure: str = ""
    unrecorded: str = ""
    cost_usd: float = 0.0
    tool_calls: list[RecordedToolCall] | None = None

    @property
    def problem(self) -> str:
        """The note in the list of calls for a call that failed or was not recorded."""
        return f"not recorded: {self.unrecorded}" if self.unrecorded else self.failure


class WireCall(Struct, frozen=True, gc=False):
    """One attempt of a call over HTTP, and its outcome.

    `number` counts all requests of the session from 1. `call` counts its model calls, as fault plans do, and is 0 for
    other requests; `attempt` counts the attempts of one call. `status` is None if the client got no response; `key` is
    the answering or recorded entry. `failure` describes a failure of the real API, or why its answer could not be
    recorded. `request` is the model request.
    """

    number: int
    session: str
    vendor: str
    place: str
    outcome: WireOutcome
    model: str = ""
    status: int | None = None
    key: str | None = None
    fault: str | None = None
    attempt: int = 1
    request: Request | None = None
    method: str = "POST"
    call: int = 0
    failure: str = ""


class Miss(Struct, frozen=True, gc=False):
    """A call without a recorded answer. `text` is the whole message: the nearest entry, and the difference.

    `call`, `attempt` and `number` are those of its WireCall. `is_after_fault` if a fault fired in the session before.
    """

    call: int
    session: str
    place: str
    kind: MismatchKind
    key: str | None
    text: str
    number: int
    attempt: int = 1
    method: str = "POST"
    is_after_fault: bool = False

    def __str__(self) -> str:
        return self.text


MAX_CALLS = 10_000
"""The number of remembered calls and faults, latest first."""


class CallObserver(Protocol):
    """Observes the calls of a run, on the server's thread."""

    def received(self, request: HttpRequest, number: int) -> None:
        """Handle a request and its number before it is answered."""

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        """Handle a call that the session has answered. Sending the answer may still take long."""

    def delivered(self, attempt: CallAttempt) -> None:
        """Handle the complete delivery of an answer that a fault delayed."""

    def left(self, attempt: CallAttempt) -> None:
        """Handle the end of a connection before the answer arrived completely, as far as that is known."""

    def killed(self, attempt: CallAttempt) -> None:
        """Called when the program is killed before its call is answered. The call does not count."""

    def reported(self, effects: Sequence[Effect]) -> None:
        """Called with effects that the program has reported over HTTP."""

    def tool_ended(self, call: ProgramToolCall) -> None:
        """Called when a function tool of the program has been answered, or has run."""

    def crash(self) -> None:
        """Kill the program at a planned crash. The program gets no answer."""


class RequestMemory:
    """Limits the model requests that a backend's sessions remember. The oldest are forgotten first."""

    def __init__(self, limit_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._limit_bytes, self._bytes = limit_bytes, 0
        self._kept: deque[tuple[WireSession, int]] = deque()

    def keep(self, session: WireSession, size: int) -> None:
        """Keep the request of a session's latest call, of `size` bytes."""
        self._kept.append((session, size))
        self._bytes += size
        while self._bytes > self._limit_bytes and len(self._kept) > 1:
            oldest, size = self._kept.popleft()
            self._bytes -= size
            oldest.forget_request()

    def forget(self, session: WireSession) -> None:
        """Stop counting the requests of a session."""
        if any(kept is session for kept, _ in self._kept):
            self._kept = deque(kept for kept in self._kept if kept[0] is not session)
            self._bytes = sum(size for _, size in self._kept)


class NullCallObserver:
    """Ignores all calls."""

    def received(self, request: HttpRequest, number: int) -> None: ...

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None: ...

    def delivered(self, attempt: CallAttempt) -> None: ...

    def left(self, attempt: CallAttempt) -> None: ...

    def killed(self, attempt: CallAttempt) -> None: ...

    def reported(self, effects: Sequence[Effect]) -> None: ...

    def tool_ended(self, call: ProgramToolCall) -> None: ...

    def crash(self) -> None: ...


NULL_OBSERVER = NullCallObserver()


class ExploredRun(Struct, frozen=True):
    """One run of an exploration: see `ScriptedModels`. The parts of its answers are due on `clock`.

    If the run also has calls outside HTTP, `numbers` and `fault_log` are those of all its calls. `tool_script` is the
    script of a program's function tools, `declarations` are the declarations about its tools, `folders`
    the folders of the run.
    """

    script: ModelScript
    observer: CallObserver
    on_miss: OnMiss = "explore"
    continuation: Continuation = "stubborn"
    mark: str = ""
    clock: ResponseClock = LOOP_CLOCK
    numbers: CallNumbers | None = None
    fault_log: FaultLog | None = None
    tool_script: Script[ToolExchange] | None = None
    declarations: Mapping[str, ToolDeclaration] = {}
    folders: RunFolders = NOWHERE


class WireSession(Session, Served):
    """Answers the calls of one run from a recording, with the faults of a plan.

    `calls` are the latest calls with their outcomes; `memory` limits how many of them keep their requests. `misses` are
    calls without a recorded answer. `call_count` counts all calls, `outcomes` the outcomes of all attempts, and
    `failures` the recorded failures of real APIs by description; `cost_usd` is the cost of their answers, and
    `tool_turns` are the tool calls of each answer with some. A session that `is_live` leaves unrecorded calls to the
    real API. `source` finds recorded answers, and `encoder` encodes them; both are None without a recording. Requests
    that their vendor refuses are refused, unless `lenient_requests`. `tool_source` has the recorded results of the
    program's own tools, if it asks for them.

    `diverged` is the first miss of a model call: other calls, such as for a list of models, change no conversation.
    `effects` are the side effects that the program reported over HTTP, `reached` the places, `refused_effects` the
    unreadable reports. `on_call` is called with each answered call. `explored_run` is set for a run of an exploration,
    and `observer` is its observer.
    """

    needs_numbers = False
    """Whether answers depend on the numbers of calls even without a plan."""

    def __init__(  # noqa: PLR0913 - each is an option of its own, given by name
        self,
        name: str,
        *,
        parser: RequestParser,
        source: RecordedModels | None,
        encoder: AnswerEncoder | None,
        plan: FaultPlan = NO_FAULTS,
        is_live: bool = False,
        lenient_requests: bool = False,
        retry_after_ms: float | None = None,
        sink: Sink = NULL_SINK,
        on_call: Callable[[WireCall], None] | None = None,
        explored_run: ExploredRun | None = None,
        memory: RequestMemory | None = None,
        folders: FolderMap = SAME_FOLDERS,
    ) -> None:
        self._explored_run = explored_run
        super().__init__(
            plan,
            numbers=None if explored_run is None else explored_run.numbers,
            fault_log=None if explored_run is None else explored_run.fault_log,
            marked=explored_run is not None,
            wait=self.clock.wait,
            recorded_tools=None if source is None else source.tape.reader.tools,
            now_s=SYSTEM_CLOCK.monotonic_s if self.clock is LOOP_CLOCK else self.clock.time,
        )
        self.name, self.is_live, self.source, self._encoder = name, is_live, source, encoder
        self._lenient_requests = lenient_requests
        self._has_real_answers: bool | None = None  # as long as none was given
        self.tool_source: RecordedTools | None = None
        self.folders = folders
        self.calls: deque[WireCall] = deque(maxlen=MAX_CALLS)
        self.misses: deque[Miss] = deque(maxlen=MAX_CALLS)
        self.diverged = ""
        self.effects: list[Effect] = []
        self.reached: list[str] = []
        self.refused_effects: deque[InputError] = deque(maxlen=MAX_CALLS)
        self.call_count, self.cost_usd = 0, 0.0
        self.outcomes: Counter[WireOutcome] = Counter()
        self.failures: Counter[str] = Counter()
        self.unrecorded: Counter[str] = Counter()
        self._memory = RequestMemory() if memory is None else memory
        self._with_request = 0
        self._parser, self._sink = parser, sink
        self.observer = NULL_OBSERVER if explored_run is None else explored_run.observer
        self._late: set[int] = set()
        self.tool_turns: deque[list[RecordedToolCall]] = deque(maxlen=MAX_CALLS)
        self._retry_after_ms, self._on_call = retry_after_ms, on_call

    @property
    def depends_on_order(self) -> bool:
        """Whether the numbers of its calls, or their answers, depend on the order in which they begin."""
        has_plan = self.plan is not NO_FAULTS or self.is_explored or self.needs_numbers
        return has_plan or (self.source is not None and self.source.tape.answers_in_order)

    @property
    def world(self) -> World:
        """The state that the tools of an explored run must remember."""
        return World(self.faults, {} if self._explored_run is None else self._explored_run.declarations)

    @property
    def tool_script(self) -> Script[ToolExchange] | None:
        """The script of the function tools of an explored program."""
        return None if self._explored_run is None else self._explored_run.tool_script

    @property
    def lenient_requests(self) -> bool:
        """Whether requests that a vendor or a server refuses are answered."""
        return self._lenient_requests

    @property
    def is_explored(self) -> bool:
        """Whether this is a run of an exploration."""
        return self._explored_run is not None

    @property
    def clock(self) -> ResponseClock:
        """The time on which its answers are due."""
        return LOOP_CLOCK if self._explored_run is None else self._explored_run.clock

    @property
    def rules(self) -> NormaliseRules:
        """The rules for parts that the fingerprints of its calls ignore."""
        return self._parser.rules

    def start(self, request: HttpRequest, parsed: ParsedRequest | None = None) -> CallAttempt:
        """Parse the request, unless it is already `parsed`, and number it."""
        parsed = self._parse(request) if parsed is None else parsed
        note_credentials_of(request)
        number, step_id = self.numbers.next_request(), request.headers.get(STEP_HEADER) or None
        self.observer.received(request, number)
        if parsed.route.operation not in FAULTED_OPERATIONS:
            attempt = self.numbers.start_other(parsed.request_hash, request.attempt)
            return CallAttempt(parsed, number, attempt, step_id)
        site = self.numbers.start_received(("", step_id), parsed.request_hash, request.attempt)
        struck = self.strike(site)
        return CallAttempt(
            parsed,
            number,
            site.attempt,
            step_id,
            fault=struck.model_fault,
            site=site,
            call=site.overall,
            mark=struck.mark,
            crash=struck.crash,
        )

    def _parse(self, request: HttpRequest) -> ParsedRequest:
        """Parse a request as it would have been in the recorded run, unless exactly this one is recorded."""
        if self.folders is SAME_FOLDERS:
            return self._parser.parse(request)
        as_recorded, named = self._as_recorded(request)
        parsed = self._parser.parse(request)
        is_recorded = self.source is not None and not self.source.judges(parsed.request_hash)
        if as_recorded is not request and not is_recorded:
            parsed = self._parser.parse(as_recorded)
        return replace(parsed, renames=self.folders.renames(named))

    def _as_recorded(self, request: HttpRequest) -> tuple[HttpRequest, frozenset[str]]:
        """Return a request with the folders of the recording, the same if it has none, and which folders it names."""
        try:
            body = unpacked_body(request)
        except PackedBodyError:
            return request, frozenset()
        texts = (request.path, request.query, body.decode("utf-8", "surrogateescape"))
        renamed = [self.folders.as_recorded(text) for text in texts]
        named = frozenset(name for _, names in renamed for name in names)
        path, query, text = (text for text, _ in renamed)
        if (path, query, text) == texts:
            return request, named
        headers = {name: value for name, value in request.headers.items() if name != "content-encoding"}
        body = text.encode("utf-8", "surrogateescape")
        return replace(request, path=path, query=query, headers=headers, body=body), named

    def answer(self, attempt: CallAttempt) -> HttpResponse | None:
        """Return the answer to the call, or None if only the real API can answer it."""
        if attempt.crash is not None:
            return self._crash(attempt, attempt.crash)
        try:
            if attempt.fault is None:
                return self._answer_from_recording(attempt)
            return self._rejected(attempt) or self._answer_with_fault(attempt)
        except RecordingMismatchError as error:
            return None if self.is_live else self._rejected(attempt) or self._answer_miss(attempt, error)
        except (RecordingUnavailableError, RecordingWriteError) as error:
            return self.refuse(attempt, error)

    def refuse(self, attempt: CallAttempt, error: InputError) -> HttpResponse:
        """Return the answer to a call when the recording cannot be reached. No SDK retries it."""
        logger.error("%s: %s", attempt.parsed.place, error)
        refusal = refusal_response(attempt.parsed.route.any_codec, MISS_STATUS, str(error))
        return self.note(replace(attempt, fault=None), refusal, CallOutcome("refused", unrecorded=error.reason))

    def apply_fault(
        self, attempt: CallAttempt, clean: HttpResponse, response: Response, *, key: str | None = None
    ) -> HttpResponse:
        """Apply the call's fault to the answer of the real API."""
        answer = self._apply_fault(attempt, FaultTarget(attempt.parsed, lambda: clean, lambda: response))
        return self.note(attempt, answer, CallOutcome("fault", key))

    def note(self, attempt: CallAttempt, answer: HttpResponse, outcome: CallOutcome) -> HttpResponse:
        """Add the call to the list of calls, with its outcome, and return `answer`."""
        is_late = attempt.fault is not None and answer.end_ms > 0
        if is_late:
            self._late.add(attempt.number)
        self._finish(attempt, failed=is_late or self._has_failed(attempt, answer))
        parsed = attempt.parsed
        self.call_count += attempt.attempt_number == 1
        call = WireCall(
            number=attempt.number,
            session=self.name,
            vendor=parsed.route.vendor,
            place=parsed.place,
            outcome=outcome.type,
            model=parsed.model,
            status=answer.status,
            key=outcome.key,
            fault=None if attempt.fault is None else attempt.fault.type,
            attempt=attempt.attempt_number,
            request=parsed.request,
            method=parsed.method,
            call=attempt.call,
            failure=outcome.problem,
        )
        self._add(call, outcome, size_bytes=len(parsed.fields))
        self.observer.answered(attempt, answer, outcome.type)
        return answer

    def _add(self, call: WireCall, outcome: CallOutcome, *, size_bytes: int = 0) -> None:
        self.calls.append(call)
        self._with_request += 1
        self._memory.keep(self, CALL_BYTES + size_bytes)
        self.outcomes[outcome.type] += 1
        self.cost_usd += outcome.cost_usd
        if outcome.tool_calls:
            self.tool_turns.append(outcome.tool_calls)
        for counter, reason in ((self.failures, outcome.failure), (self.unrecorded, outcome.unrecorded)):
            if reason:
                counter[reason] += 1
        if self._on_call is not None:
            self._on_call(call)

    def start_tool_call(self, tool: str) -> ToolAttempt:
        """Number a call of an MCP tool, named `server.tool`, and find its fault."""
        number, site = self.numbers.next_request(), self.numbers.start_tool(tool)
        struck = self.strike(site)
        return ToolAttempt(number, site, struck.tool_fault, struck.mark, struck.crash)

    def next_number(self) -> int:
        """Number a request to an MCP server that is not a tool call."""
        return self.numbers.next_request()

    def note_tool_call(self, call: WireCall, outcome: CallOutcome) -> None:
        """Add a request to an MCP server to the list of calls."""
        self.call_count += 1
        self._add(call, outcome)

    def note_tool_miss(
        self, call: WireCall, error: RecordingMismatchError, *, hint: str = ""
    ) -> RecordingMismatchError:
        """Note an unrecorded tool call, or other request to an MCP server, and return the client's error.

        A server's refusal in an exploration is a part of the run, except in the clean one.
        """
        if error.kind == "rejected" and isinstance(self.source, ScriptedModels) and not self.source.is_clean:
            return error
        error = self.faults.explain(error.replace(hint=hint or _MISS_HINTS[error.kind]))
        self._note_miss(error, call=0, place=call.place, number=call.number, attempt=1, method=call.method)
        self.diverged = self.diverged or str(error)
        if self._explored_run is None:
            logger.warning("%s", error)
        return error

    def _crash(self, attempt: CallAttempt, crash: Crash) -> HttpResponse:
        """Kill the program at this call. `before` is before it counts, when no model was asked."""
        if crash.when == "after":
            self.answer(replace(attempt, crash=None))
        else:
            self.observer.killed(attempt)
        self.observer.crash()
        return NO_ANSWER

    def add_effects(self, effects: Sequence[Effect]) -> bool:
        """Note effects that the program reported, and return whether it was killed after one of them.

        Raises:
            InputError: there are too many; none is noted.
        """
        if len(self.effects) + len(effects) > MAX_EFFECTS:
            raise InputError(f"a session has at most {MAX_EFFECTS:,} effects", hint="use a session for each run")
        effects, reached = split_reached(effects)
        self.effects += effects
        self.reached += reached
        self.observer.reported(effects)
        is_killed = self.crash_after_effects(effect.tool for effect in effects)
        if is_killed:
            self.observer.crash()
        return is_killed

    def forget_request(self) -> None:
        """Forget the oldest remembered model request. Its call stays."""
        at = len(self.calls) - self._with_request
        if at >= 0:
            self.calls[at] = replace(self.calls[at], request=None)
        self._with_request -= 1

    def close(self) -> None:
        """Stop counting toward the memory of all sessions."""
        self._memory.forget(self)

    def _finish(self, attempt: CallAttempt, *, failed: bool) -> None:
        identity = attempt.parsed.request_hash
        if attempt.site is not None:
            self.numbers.finish(attempt.site, identity, failed=failed)
        else:
            self.numbers.finish_other(identity, attempt.attempt_number, failed=failed)

    def _has_failed(self, attempt: CallAttempt, answer: HttpResponse) -> bool:
        """Return whether an equal request is a further attempt, as after every error of a fault."""
        is_error = attempt.fault is not None and answer.status is not None and answer.status >= 400
        return is_error or spoils_answer(attempt.fault, answer)

    def delivered(self, attempt: CallAttempt) -> None:
        """Note that the answer was sent completely before the client left, if a fault had delayed it."""
        if attempt.number in self._late:
            self._late.discard(attempt.number)
            self._finish(attempt, failed=False)
            self.observer.delivered(attempt)

    def left(self, attempt: CallAttempt) -> None:
        """Note that the client, or a fault, has ended the connection before the answer had arrived completely."""
        self.observer.left(attempt)

    @property
    def continued_by(self) -> str:
        """The answer to an explored run's misses: a continuation, `default`, or "" if none was needed."""
        return self.source.continued_by if isinstance(self.source, ScriptedModels) else ""

    def forgive(self, attempt: CallAttempt) -> CallAttempt:
        """Forget a call's fault without effect, and return the call without it."""
        if attempt.site is not None and attempt.fault is not None:
            self.take_back(attempt.site, attempt.fault)
        return replace(attempt, fault=None)

    @property
    def log(self) -> Log:
        models = [] if self.source is None else [self.source.log]
        tools = [] if self.tool_source is None else [self.tool_source.log.placed(of_tools=True)]
        return Log.of([*models, *tools, super().log])

    def _answer_from_recording(self, attempt: CallAttempt) -> HttpResponse:
        source, encoder = self._require_recording()
        match = source.find(attempt.parsed, attempt.step_id)
        is_same = match.stored is not None and match.stored.fingerprint == attempt.parsed.request_hash
        if not is_same and (rejection := self._rejected(attempt)) is not None:
            source.give_back(match)
            return rejection
        answer = self._stored_object(match, attempt.parsed) or encoder.answer(match, attempt.parsed).merged
        is_real = match.stored is not None and has_wire_bytes(match.exchange, attempt.parsed)
        self._has_real_answers = is_real and self._has_real_answers is not False
        self._use(source, match)
        if not source.tape.strict:
            self._objects.note(attempt.parsed, answer)
        self._report_served(attempt, match)
        outcome: WireOutcome = (
            "served" if match.stored else "synthetic" if attempt.parsed.request is None else "default"
        )
        return self.note(attempt, answer, CallOutcome(outcome, match.key, tool_calls=_tool_calls_of(match)))

    @cached_property
    def _objects(self) -> StoredObjects:
        from offbook.wire.synthetic.objects import StoredObjects  # noqa: PLC0415 - a strict replay has none

        return StoredObjects(self._ask, accepts_unknown=self._lenient_requests)

    def _ask(self, path: str, body: JsonObject) -> HttpResponse:
        """Return the answer that this model call would get. It does not enter the list of calls."""
        source, encoder = self._require_recording()
        parsed = self._parser.parse(HttpRequest("POST", path, "", {}, orjson.dumps(body)))
        match = source.find(parsed, None)
        self._use(source, match)
        return encoder.answer(match, parsed).merged

    def _stored_object(self, match: ExchangeMatch[Exchange], parsed: ParsedRequest) -> HttpResponse | None:
        """Return the answer to a request for an object of this session, or None for other requests.

        A strict replay knows only recorded objects.
        """
        source, encoder = self._require_recording()
        if parsed.request is not None or match.stored is not None or source.tape.strict:
            return None
        return self._objects.answer(parsed, encoder.response(match, parsed))

    def _use(self, source: RecordedModels, match: ExchangeMatch[Exchange]) -> None:
        """Count a match as served."""
        source.use(match)

    def _answer_with_fault(self, attempt: CallAttempt) -> HttpResponse:
        """Apply the call's fault to its recorded answer. An entry whose answer failed stays for the next attempt."""
        match: ExchangeMatch[Exchange] | None = None

        def find() -> ExchangeMatch[Exchange]:  # only if the fault needs it
            nonlocal match
            if match is None:
                match = self._require_recording()[0].find(attempt.parsed, attempt.step_id)
            return match

        def clean() -> HttpResponse:
            return self._require_recording()[1].answer(find(), attempt.parsed).split

        def response() -> Response:
            return self._require_recording()[1].response(find(), attempt.parsed)

        answer = self._apply_fault(attempt, FaultTarget(attempt.parsed, clean, response))
        if answer.status == OK:
            self._has_real_answers = False
        if match is None:
            return self.note(attempt, answer, CallOutcome("fault"))
        self._report_served(attempt, match)
        source = self._require_recording()[0]
        if spoils_answer(attempt.fault, answer):
            source.give_back(match)
            return self.note(attempt, answer, CallOutcome("fault", match.key))
        self._use(source, match)
        return self.note(attempt, answer, CallOutcome("fault", match.key, tool_calls=_tool_calls_of(match)))

    def _apply_fault(self, attempt: CallAttempt, target: FaultTarget) -> HttpResponse:
        assert attempt.fault is not None
        target = replace(target, mark=attempt.mark)
        if attempt.parsed.method == WEBSOCKET_METHOD:
            from offbook.wire.websocket.faults import apply_to_frames  # noqa: PLC0415 - only sessions need it

            answer = apply_to_frames(attempt.fault, target).merged()
        else:
            answer = apply_fault(attempt.fault, target).merged()
        model, fault_type = attempt.parsed.model, attempt.fault.type
        self._sink.emit(FaultFired(attempt.step_id, model, fault_type, "", attempt.number, attempt.attempt_number))
        return with_retry_after(answer, self._retry_after_ms)

    def _report_served(self, attempt: CallAttempt, match: ExchangeMatch[Exchange]) -> None:
        """Emit an event for an answered model call; synthetic answers have none."""
        parsed = attempt.parsed
        if self._sink is NULL_SINK or (match.stored is None and parsed.request is None):
            return
        exchange = None if match.stored is None else match.exchange
        capture_content(self._sink, lambda: attempt.content(exchange))
        usage = (None if exchange is None else exchange.usage) or Usage()
        self._sink.emit(
            ReplayServed(
                step_id=attempt.step_id,
                model=parsed.model,
                matched_by=match.matched_by,
                key=match.key,
                request_hash=parsed.request_hash,
                fault_type=exchange.fault.type if exchange is not None and exchange.fault is not None else None,
                call=attempt.number,
                attempt=attempt.attempt_number,
                provider=exchange.provider or "" if exchange is not None else "",
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cost_usd=0.0 if exchange is None else exchange.cost_usd,
            )
        )

    def _require_recording(self) -> tuple[RecordedModels, AnswerEncoder]:
        if self.source is None or self._encoder is None:
            raise RecordingMismatchError("nothing is recorded yet", kind="missing")
        return self.source, self._encoder

    def _rejected(self, attempt: CallAttempt) -> HttpResponse | None:
        """Return the vendor's refusal of a request that breaks its rules, or None.

        The real API has accepted recorded requests. They are looked up only here, because an exact match never comes
        here, and rules are checked once a request.
        """
        sent, source = attempt.parsed.sent, self.source
        if sent is None or self._lenient_requests or self.is_live:
            return None
        if source is not None and not source.judges(attempt.parsed.request_hash):
            return None
        refusal = sent.refusal(has_real_answers=self._has_real_answers is True)
        if refusal is None or (source is not None and source.has_accepted_alike(attempt.parsed)):
            return None
        attempt = replace(self.forgive(attempt), refusal=refusal)
        error = RecordingMismatchError(
            f"the API would refuse this request ({refusal.status}): {refusal}",
            kind="rejected",
            hint=_MISS_HINTS["rejected"],
        )
        self._report_miss(attempt, error)
        if self._explored_run is None:
            logger.warning("%s", error)
        elif isinstance(source, ScriptedModels) and source.is_clean:
            self._note_divergence(attempt, error, is_answered=False)
        codec = codec_of(sent.protocol)
        return self.note(attempt, vendor_refusal(codec, refusal), CallOutcome("missed"))

    def _answer_miss(self, attempt: CallAttempt, error: RecordingMismatchError) -> HttpResponse:
        from offbook.recording.match.mismatch import MASK_IT  # noqa: PLC0415 - most runs have no miss

        hint = error.hint if error.hint == MASK_IT else _MISS_HINTS[error.kind]
        error = self.faults.explain(error.replace(hint=hint), attempt.site)
        self._report_miss(attempt, error)
        scripted = self.source if isinstance(self.source, ScriptedModels) else None
        match = None if scripted is None else scripted.continued(attempt.parsed, attempt.step_id)
        self._note_divergence(attempt, error, is_answered=match is not None)
        if match is not None:
            return self._answer_continued(attempt, match)
        if self._explored_run is None:
            logger.warning("%s", error)
        message = shorten(str(error), MAX_ERROR_CHARS)
        refusal = refusal_response(attempt.parsed.route.any_codec, MISS_STATUS, message)
        return self.note(attempt, refusal, CallOutcome("missed"))

    def _note_divergence(self, attempt: CallAttempt, error: RecordingMismatchError, *, is_answered: bool) -> None:
        parsed = attempt.parsed
        is_conversation = parsed.request is not None or bool(parsed.problem)
        if not self.diverged and (is_conversation or (attempt.site is not None and not is_answered)):
            self.diverged = str(error)

    def _answer_continued(self, attempt: CallAttempt, match: ExchangeMatch[Exchange]) -> HttpResponse:
        """Answer a miss of an explored run, with the call's fault if it has one."""
        encoder, parsed = self._require_recording()[1], attempt.parsed
        self._has_real_answers = False
        if attempt.fault is None:
            outcome: WireOutcome = "continued" if match.stored or match.given else "default"
            return self.note(attempt, encoder.answer(match, parsed).merged, CallOutcome(outcome, match.key))
        target = FaultTarget(
            parsed, lambda: encoder.answer(match, parsed).split, lambda: encoder.response(match, parsed)
        )
        return self.note(attempt, self._apply_fault(attempt, target), CallOutcome("fault", match.key))

    def _report_miss(self, attempt: CallAttempt, error: RecordingMismatchError) -> None:
        self._note_miss(
            error,
            call=attempt.call,
            place=attempt.parsed.place,
            number=attempt.number,
            attempt=attempt.attempt_number,
            method=attempt.parsed.method,
        )
        self._sink.emit(
            ReplayMissed(
                step_id=attempt.step_id,
                model=attempt.parsed.model,
                kind=error.kind,
                call=attempt.number,
                attempt=attempt.attempt_number,
            )
        )

    def _note_miss(
        self, error: RecordingMismatchError, *, call: int, place: str, number: int, attempt: int, method: str
    ) -> None:
        self.misses.append(
            Miss(
                call=call,
                session=self.name,
                place=place,
                kind=error.kind,
                key=error.key,
                text=str(error),
                number=number,
                attempt=attempt,
                method=method,
                is_after_fault=bool(error.fired),
            )
        )


def _tool_calls_of(match: ExchangeMatch[Exchange]) -> list[RecordedToolCall] | None:
    """Return the tool calls of an entry, unless it is a failure."""
    if match.stored is None or match.stored.exchange.fault is not None:
        return None
    return match.stored.exchange.tool_calls
