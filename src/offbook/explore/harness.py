"""The harness of a run in this process: replayed models, tools and HTTP APIs, with faults, observed."""

from __future__ import annotations

import asyncio
import threading
from collections import ChainMap, Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import retry_after_s
from offbook.errors import ProviderError, RecordingMismatchError
from offbook.events import BreakerChanged, Event, FallbackTaken, RetryScheduled
from offbook.explore.inferred_tools import InferredTool, inferred_effects, inferred_runs, offered_tool, unseen_calls
from offbook.explore.observer import (
    CLEAN_LIMITS,
    IDENTITY_CHARS,
    NO_DECLARATIONS,
    NO_RESPONSE,
    RAISING_HOST,
    CallLimits,
    ObservedCall,
    ObservedTool,
    PendingAnswer,
    RaisingHost,
    RunHost,
    RunObserver,
    SentRequest,
    SentRequests,
    known_usage,
    max_calls_after,
    offered_tools,
)
from offbook.explore.options import ANSWER_WAIT_S, EXPLORE_DIVERGENCE, Divergence
from offbook.explore.replay import ExploredModels, ExploredTools, RecordedUsers
from offbook.explore.run import CallOutcome, ChunkKind, ChunkKinds, ModelCall, ToolRun, error_text, overlaps_of
from offbook.faults import At, FaultInjector, FaultPlan, inject_tools
from offbook.faults.log import FaultLog
from offbook.faults.order import CallOrder, Cancelled
from offbook.faults.site import Site
from offbook.gateway.gateway import ProviderGateway
from offbook.messages import (
    Reply,
    Request,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    WholeReply,
    result_text,
)
from offbook.providers.first_use import Sdk, send_again
from offbook.providers.provider import Provider
from offbook.recording.format.document import check_strict
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.latency import NO_LATENCY
from offbook.recording.match.continuation import Continuation, gave_up_mark
from offbook.recording.match.fingerprint import fingerprint
from offbook.recording.redact.rules import redactor_in_force
from offbook.recording.stores.store import RecordingReader
from offbook.session.numbers import CallNumbers
from offbook.session.script import ModelScript, Script, ScriptedModels, ScriptedTools, ScriptLine, World
from offbook.session.sources import RecordedModels
from offbook.session.tape import Tape
from offbook.tools import Toolbox, ToolDef, ToolSpec
from offbook.tools.definition import wrap_tool
from offbook.tools.effects import UNDECLARED, Effect, ToolDeclaration, prefer_reported, split_reached
from offbook.tools.toolbox import GivenTool, GivenTools
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import AcceptedCall, accept_in, split_session_path
from offbook.wire.options import DEFAULT_RESPONSE
from offbook.wire.recordings import AnswerEncoder
from offbook.wire.request import HttpRequest
from offbook.wire.session import ExploredRun, WireSession

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx2

    from offbook.wire.intercept.in_process import InProcessInterception


_TOLERANCE_S = 1e-6


class _Attempt(Struct, frozen=True):
    """An attempt in progress."""

    request: Request
    site: Site
    started_s: float
    told: bool


class ObservedProvider(Provider):
    """Reports its model calls to a run's observer: a provider around its faults and its recording."""

    name = "explore"

    def __init__(
        self, provider: Provider, models: ExploredModels, observer: RunObserver, *, numbers: CallNumbers
    ) -> None:
        self._provider, self._models, self._observer = provider, models, observer
        self._call_numbers, self._has_failed = numbers, False

    async def send(self, request: Request) -> Reply:
        self._observer.start_call()
        attempt = self._start(request)
        try:
            reply = await self._provider.send(attempt.request)
            if request.stream:
                return StreamedReply(self._observe_stream(reply, attempt), source=reply)
            response = reply.response if isinstance(reply, WholeReply) else await reply.collect()
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(attempt, error)
            raise
        self._note(attempt, response=response)
        return WholeReply(response)

    def _start(self, request: Request) -> _Attempt:
        """Assign the request its site. A repetition of a failed request is a further attempt of that call.

        A gateway may make it, or an agent whose gateway has given up. A call of another model is a different call.
        """
        step = (request.workflow, request.step_id)
        # Hashing takes long, and before the first failure there is nothing that a request could repeat.
        identity = fingerprint(request) if self._has_failed else ""
        site = self._call_numbers.start(step, identity)
        numbered = replace(request, call=site.call, attempt=site.attempt)
        return _Attempt(numbered, site, _now_s(), self._models.source.tells_failure(request))

    async def _observe_stream(self, reply: Reply, attempt: _Attempt) -> AsyncIterator[StreamEvent]:
        chunks: list[ChunkKind] = []
        kinds, has_ended = ChunkKinds(), False
        try:
            async for event in reply:
                if isinstance(event, StreamEnd):
                    has_ended = True
                    self._note(attempt, response=event.response, chunks=chunks)
                elif not isinstance(event, StreamRestart):
                    chunks.append(kinds.next(event))
                yield event
        except (Exception, asyncio.CancelledError) as error:
            self._note_failure(attempt, error, chunks=chunks)
            raise
        except GeneratorExit:
            if not has_ended:  # the agent has stopped reading
                self._note(attempt, chunks=chunks)
            raise

    def _note_failure(self, attempt: _Attempt, error: BaseException, *, chunks: list[ChunkKind] | None = None) -> None:
        request = attempt.request
        self._models.take_back(request)
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, RecordingMismatchError):
            self._note(attempt, outcome="diverged", error=message)
            return
        self._call_numbers.finish(attempt.site, fingerprint(request), failed=True)
        self._has_failed = True
        wait_s = _requested_wait_s(error)
        self._note(attempt, outcome="failed", error=message, chunks=chunks, wait_s=wait_s)

    def _note(
        self,
        attempt: _Attempt,
        *,
        response: Response | None = None,
        outcome: CallOutcome = "answered",
        error: str = "",
        chunks: list[ChunkKind] | None = None,
        wait_s: float = 0.0,
    ) -> None:
        request, now_s = attempt.request, _now_s()
        self._observer.ended(
            ObservedCall(
                site=attempt.site,
                messages=request.messages,
                started_s=attempt.started_s,
                ended_s=now_s,
                due_s=now_s + wait_s - _TOLERANCE_S,
                outcome=outcome,
                error=error,
                model=request.model,
                has_tools=bool(request.tools),
                is_streamed=request.stream,
                chunks=tuple(chunks or ()),
                asks_for=() if response is None else tuple((call.tool, call.args) for call in response.tool_calls),
                told=attempt.told,
                effects_before=self._observer.count_effects(),
                is_unrecorded=self._models.is_unrecorded(request),
                identity=fingerprint(request)[:IDENTITY_CHARS],
                usage=known_usage(response or NO_RESPONSE),
            )
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _requested_wait_s(error: BaseException) -> float:
    """Return the wait that the API requests before the next attempt."""
    headers = error.headers if isinstance(error, ProviderError) else {}
    return retry_after_s(headers, now=SYSTEM_CLOCK.utc_now()) or 0.0 if headers else 0.0


_current_call: ContextVar[ObservedTool | None] = ContextVar("_current_call", default=None)
_UNKNOWN_TOOL = ToolDef(ToolSpec("unknown"), lambda: None)
"""The tool of a call whose context was lost, for example in an agent's own thread."""


def observe_called(tool: ToolDef, observer: RunObserver) -> ToolDef:
    """Wrap a tool as the agent sees it, around faults, and report each call and its result to the observer."""

    def call(**arguments: Any) -> Any:
        started = observer.start_tool(tool, arguments)
        token = _current_call.set(started)
        try:
            value = tool.callable(**arguments)
            if isinstance(value, Awaitable):
                return wait(started, value)
            started.result = result_text(value)
        except Exception as error:
            started.error = f"{type(error).__name__}: {error_text(error)}"
            raise
        else:
            return value
        finally:
            _current_call.reset(token)

    async def wait(started: ObservedTool, value: Awaitable[Any]) -> Any:
        token = _current_call.set(started)
        try:
            result = await value
        except (Exception, asyncio.CancelledError) as error:
            started.error = f"{type(error).__name__}: {error_text(error)}"
            raise
        finally:
            _current_call.reset(token)
        started.result = result_text(result)
        return result

    return wrap_tool(tool, call, timeout_s=tool.timeout_s)


def observe_run(tool: ToolDef, observer: RunObserver) -> ToolDef:
    """Wrap a tool itself, inside faults, and report its real runs to the observer."""

    def call(**arguments: Any) -> Any:
        started = _current_call.get() or ObservedTool(_UNKNOWN_TOOL, 0, {})
        observer.run_tool(started)
        value = tool.callable(**arguments)
        if isinstance(value, Awaitable):
            return wait(started, value)
        started.returned(value)
        return value

    async def wait(started: ObservedTool, value: Awaitable[Any]) -> Any:
        result = await value
        started.returned(result)
        return result

    return wrap_tool(tool, call, timeout_s=None)


class RecoveryCounter:
    """A sink that counts retries, fallbacks and state changes of breakers."""

    def __init__(self) -> None:
        self.paths = Counter[str]()

    def emit(self, event: Event) -> None:
        match event:
            case RetryScheduled():
                self.paths["retry"] += 1
            case FallbackTaken():
                self.paths["fallback"] += 1
            case BreakerChanged(state=state):
                self.paths[f"breaker {state}"] += 1


class HttpAnswers:
    """A recording as it answers HTTP clients in all runs."""

    def __init__(self, tape: Tape, divergence: Divergence) -> None:
        self._tape = tape
        self._default = divergence.default_response if divergence.policy == "default" else DEFAULT_RESPONSE
        self.lenient_requests = divergence.lenient_requests

    @cached_property
    def encoder(self) -> AnswerEncoder:
        """The encoder of its answers. Raises RecordingFormatError for a format older than version 2."""
        check_strict(self._tape.reader.version, source=self._tape.reader.source)
        return AnswerEncoder(self._tape, latency=NO_LATENCY, default_response=self._default)

    def prepare(self, lines: Sequence[ScriptLine], requests: Iterable[SentRequest]) -> None:
        """Prepare common data of all cases' processes: indexes, the tools of the clean run's requests, and the SDKs'
        models, built by sending these requests to their recorded answers.
        """
        _ = self._tape.cross_protocol, self._tape.written
        for fields in {line.fields for line in lines if line.fields}:
            for name, schema in offered_tools(orjson.loads(fields).get("tools", ())).items():
                offered_tool(name, schema)
        source = RecordedModels(self._tape)
        session = WireSession("", parser=self.encoder.parser, source=source, encoder=self.encoder)
        clients = ExploredHttp(session)

        def option_of(sdk: Sdk) -> dict[str, Any]:
            is_transport = sdk.client_option == "transport"
            return {sdk.client_option: clients.httpx_transport() if is_transport else clients.sync_http_client()}

        for path, body in requests:
            send_again(path, body, option_of)


class ExploredHttp(InProcessClients):
    """The HTTP APIs of one run. All clients of the run share one session.

    A client that waits longer than `patience_s` for a held answer ends the run through its `host`.
    """

    def __init__(self, session: WireSession, host: RunHost = RAISING_HOST, *, patience_s: float = inf) -> None:
        self.session, self.host, self.patience_s, self._lock = session, host, patience_s, threading.Lock()

    def accept(self, request: HttpRequest) -> InProcessCall:
        with self._lock:
            path = split_session_path(request.path)[1]
            accepted = accept_in(self.session, replace(request, path=path))
        return _ExploredCall(accepted, self)

    def close(self) -> None:
        """Do nothing: other clients may continue."""

    @property
    def guard(self) -> AbstractContextManager[object]:
        """The lock shared by the threads of the run."""
        return self._lock


class _ExploredCall(InProcessCall):
    """A call of an explored run. A client that waits too long for a held answer ends the run."""

    def __init__(self, accepted: AcceptedCall, http: ExploredHttp) -> None:
        assert accepted.answer is not None, "an explored run has no real API"
        super().__init__(accepted.answer, accepted, guard=http.guard)
        self._attempt, self._host = accepted.attempt, http.host
        self.patience_s = http.patience_s if accepted.attempt is not None and accepted.attempt.fault else inf

    def hang(self) -> None:
        assert self._attempt is not None
        assert self._attempt.site is not None
        vendor, has_begun = self._attempt.parsed.route.vendor, self.answer.status is not None
        pending = PendingAnswer(f"call {self._attempt.site.overall}", vendor, has_begun)
        self._host.end_hung(pending.waiting_text(self.patience_s))


class Harness:
    """The models and tools of one explored run.

    `provider` and `gateway` answer model calls from the recording, with the faults of the plan; so do the clients of
    `http_client()` and `sync_http_client()`, for SDKs. `tools` does the same for tools. Every call is reported to the
    `observer`. The `host` ends a run that hangs, or has a crash in its plan.

    `reporting` are the tools with reported effects in the clean run. An HTTP client may wait `answer_s` for a held
    answer.
    """

    def __init__(
        self,
        plan: FaultPlan,
        observer: RunObserver,
        host: RaisingHost = RAISING_HOST,
        *,
        models: ExploredModels,
        tools: ExploredTools | None,
        http: HttpAnswers,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
        reporting: Sequence[str] = (),
        answer_s: float = ANSWER_WAIT_S,
    ) -> None:
        self.recovery_counter = RecoveryCounter()
        self.reported: list[Effect] = []
        self._interceptions: list[InProcessInterception] = []
        self._wrapped: dict[str, ToolDeclaration] = {}
        self._plan, self._observer, self._host = plan, observer, host
        self._answers, self._answer_s = http, answer_s
        self._models, self._replayed_tools, self._declared = models, tools, declarations
        self._reporting, self._users = reporting, RecordedUsers(models)
        self._fault_log, self._order, self._numbers = FaultLog(), CallOrder(), CallNumbers()
        injector = FaultInjector(
            models,
            plan,
            call_numbers=self._numbers,
            fault_log=self._fault_log,
            marked=True,
            on_crash=host.crash,
            order=self._order,
        )
        if tools is not None:
            tools.source.remember(World(self._fault_log, ChainMap(self._wrapped, dict(declarations))))
        self._provider = ObservedProvider(injector, models, observer, numbers=self._numbers)
        self._faulty_tools = inject_tools(
            (),
            plan,
            fault_log=self._fault_log,
            marked=True,
            on_crash=host.crash,
            order=self._order,
            recorded=None if tools is None else tools.source.index,
        )

    @property
    def provider(self) -> Provider:
        """The provider that answers model calls. It does not retry."""
        return self._provider

    @property
    def users(self) -> Provider:
        """The provider of simulated users: their own recorded turns, in order, without faults and observers."""
        return self._users

    @cached_property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls."""
        gateway = ProviderGateway(sink=self.recovery_counter)
        gateway.register(self.provider)
        return gateway

    @property
    def stand_in(self) -> ExploredHttp:
        """The stand-in for HTTP clients of this run: `ollama.Client(transport=harness.stand_in.httpx_transport())`."""
        return self._http

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """Return a client for an SDK: `AsyncOpenAI(http_client=harness.http_client())`. No call goes to `transport`."""
        return self._http.http_client(transport)

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """Return a client for a synchronous SDK: `OpenAI(http_client=harness.sync_http_client())`."""
        return self._http.sync_http_client(transport)

    def intercept(self, *hosts: str) -> InProcessInterception:
        """Answer all requests of httpx, httpx2, requests and aiohttp to the APIs of vendors, and to `hosts`.

        It lasts until the end of the run, or of the block. Raises like `StandIn.intercept`.
        """
        interception = self._http.intercept(*hosts)
        self._interceptions.append(interception)
        return interception

    def end_interceptions(self) -> None:
        """Undo the effects of `intercept`."""
        while self._interceptions:
            self._interceptions.pop().close()

    @cached_property
    def _http(self) -> ExploredHttp:
        encoder, source = self._answers.encoder, self._models.source
        session = WireSession(
            "",
            parser=encoder.parser,
            source=source,
            encoder=encoder,
            plan=FaultPlan([line for line in self._plan if line.at.tool is None]),
            lenient_requests=self._answers.lenient_requests,
            explored_run=ExploredRun(source.script, self._observer, numbers=self._numbers, fault_log=self._fault_log),
        )
        if self._plan.has_orders:
            session.share_order(self._order)
        return ExploredHttp(session, self._host, patience_s=self._answer_s)

    @property
    def has_http(self) -> bool:
        """Whether the run has HTTP clients."""
        return "_http" in vars(self)

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools: `tools(search, book)`. They are replayed if the recording has tool calls."""
        return Toolbox(list(self.wrap_tools(Toolbox.of(*given)).values()))

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """Wrap tools by name."""
        return {name: self.wrap(tool) for name, tool in tools.items()}

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap one tool: the tool or its recording inside, then faults, then the agent's view."""
        declared = tool.declared_as(self._declared.get(tool.name, UNDECLARED))
        self._wrapped[tool.name] = declared.declaration
        inner = declared if self._replayed_tools is None else _replay_tool(declared, self._replayed_tools)
        return observe_called(self._faulty_tools.wrap(observe_run(inner, self._observer)), self._observer)

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls so far, by HTTP clients and by the provider."""
        return self._observer.calls

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        """The tool calls so far: observed ones, and those that an HTTP client's conversation shows."""
        return (*self._observer.tool_runs, *inferred_runs(self._inferred_tools, self._declared))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The side effects so far: real runs of tools with effects, with reports in place of inferences."""
        others = (*self._observer.effects, *inferred_effects(self._inferred_tools, self._declared))
        return prefer_reported(split_reached(self.reported)[0], others, reporting=self._reporting)

    @property
    def reached(self) -> tuple[str, ...]:
        """The places that the run has reported to have reached."""
        return tuple(dict.fromkeys(split_reached(self.reported)[1]))

    @property
    def unseen(self) -> tuple[Effect, ...]:
        """The calls that may or may not have run, of tools without reports."""
        reporting = {*self._reporting, *(effect.tool for effect in self.reported)}
        return tuple(each for each in unseen_calls(self._inferred_tools) if each.tool not in reporting)

    @property
    def declarations(self) -> dict[str, ToolDeclaration]:
        """The declarations about tools, by themselves or elsewhere."""
        return {**(self._declared if self.has_http else {}), **self._wrapped}

    @property
    def _inferred_tools(self) -> list[InferredTool]:
        return self._observer.inferred_tools(observed=self._wrapped)

    @property
    def fired(self) -> tuple[str, ...]:
        """The faults that fired, as lines of a plan."""
        return tuple(str(planned) for planned in self._fault_log.fired)

    @property
    def was_cancelled(self) -> bool:
        """Whether a fault has cancelled the run."""
        return any(isinstance(planned.fault, Cancelled) for planned in self._fault_log.fired)

    @property
    def overlaps(self) -> tuple[tuple[At, ...], ...]:
        """The sets of calls that were under way together, if the plan has faults of order."""
        return overlaps_of(self._order)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks that the texts of these faults carry."""
        return tuple(self._fault_log.marks)

    @property
    def diverged(self) -> list[str]:
        """The requests that were never recorded; of HTTP clients, the first one. In the clean run, it may be any."""
        models, tools = self._models.diverged, self._replayed_tools
        errors = [*([] if models is None else [models]), *([] if tools is None else tools.source.diverged)]
        explained = [error.replace(fired=self.fired, hint="") if self.fired else error for error in errors]
        texts = [str(error) for error in explained]
        if self.has_http:
            session = self._http.session
            misses = session.misses if self._models.source.is_clean else ()
            texts.append(misses[0].text if misses else session.diverged)
        return [text for text in texts if text]

    @property
    def continuation(self) -> str:
        """The answer to unrecorded calls: a continuation, `default`, `live`, or the result that a tool got."""
        tools = "" if self._replayed_tools is None else self._replayed_tools.source.continued_by
        return self._models.source.continued_by or tools

    @property
    def unknown_reads(self) -> tuple[str, ...]:
        """The unknown results of reads after unseen effects."""
        return () if self._replayed_tools is None else tuple(self._replayed_tools.source.unknown)

    @property
    def recovery_paths(self) -> dict[str, int]:
        """The numbers of the run's recoveries. Of SDKs, only retries are known."""
        retries = self._observer.retries
        paths = self.recovery_counter.paths + Counter({"retry": retries} if retries else {})
        return dict(sorted(paths.items()))


def _replay_tool(tool: ToolDef, recorded: ExploredTools) -> ToolDef:
    return wrap_tool(tool, lambda **arguments: recorded.answer(tool, arguments), timeout_s=tool.timeout_s)


class CleanScript(Struct, frozen=True):
    """The answers to the clean run, in order, and its number of calls, for runs in other processes.

    `requests` are the first requests of its HTTP clients, as paths and bodies, or None. `reporting` are the tools with
    reported effects.
    """

    models: tuple[ScriptLine, ...]
    tools: tuple[ScriptLine, ...]
    limits: CallLimits
    requests: tuple[SentRequest, ...] | None = None
    reporting: tuple[str, ...] = ()


class HarnessFactory:
    """Creates the harnesses of runs on one recording. The first is for the clean run, which writes the script.

    Args:
        reader: the recording. It is closed with the factory.
        divergence: the policy for unrecorded requests.
        declarations: external declarations about tools by name.
    """

    def __init__(
        self,
        reader: RecordingReader,
        divergence: Divergence = EXPLORE_DIVERGENCE,
        *,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    ) -> None:
        self._reader, self._declarations, self._divergence = reader, declarations, divergence
        self._tape, self._script = Tape(reader, strict=True, exact=divergence.exact), ModelScript()
        self._tool_script: Script[ToolExchange] = Script()
        self._http, self._sent = HttpAnswers(self._tape, divergence), SentRequests()
        self._clean: Harness | None = None
        self._loaded: CleanScript | None = None

    @property
    def has_script(self) -> bool:
        """Whether there was a clean run whose script the next run follows."""
        return self._loaded is not None or self._clean is not None

    @property
    def script(self) -> CleanScript:
        """The script of the clean run, which was made in this process."""
        clean = self._clean
        assert clean is not None
        return CleanScript(
            self._script.lines,
            self._tool_script.lines,
            CallLimits(models=max_calls_after(len(clean.calls)), tools=max_calls_after(len(clean.tool_runs))),
            requests=tuple(self._sent.requests) if clean.has_http else None,
            reporting=tuple(sorted({effect.tool for effect in split_reached(clean.reported)[0]})),
        )

    def load_script(self, script: CleanScript) -> None:
        """Follow the script of a clean run that was made in another process."""
        self._script.load(script.models, self._reader)
        self._script.conversations.prepare()
        self._tool_script.load(script.tools, self._reader.tools)
        self._loaded = script
        # Use once what every run uses, so that caches are filled before the processes of the runs are forked.
        harness = self.create(FaultPlan())
        redactor_in_force()
        if script.requests is not None:
            self._http.prepare(script.models, script.requests)
            harness.sync_http_client().close()

    def create(
        self,
        plan: FaultPlan,
        continuation: Continuation = "stubborn",
        host: RaisingHost = RAISING_HOST,
        *,
        answer_s: float = ANSWER_WAIT_S,
    ) -> Harness:
        """Return the harness of the next run. Tools run for real if the recording has no tool calls.

        `continuation` answers unrecorded requests, if that is the policy. The run happens in `host`. Its HTTP clients
        may wait `answer_s` for a held answer.
        """
        script = self._loaded or (None if self._clean is None else self.script)
        source = ScriptedModels(
            self._tape,
            self._script,
            on_miss=self._divergence.policy,
            continuation=continuation,
            mark=gave_up_mark(plan),
        )
        models, index = ExploredModels(source, self._divergence), self._reader.tools
        tools = ScriptedTools(source, self._tool_script) if len(index) else None
        harness = Harness(
            plan,
            RunObserver(
                self._script,
                host,
                limits=CLEAN_LIMITS if script is None else script.limits,
                knows_pauses=True,
                sent=self._sent if script is None else None,
                declarations=self._declarations,
            ),
            host,
            models=models,
            tools=None if tools is None else ExploredTools(tools, self._divergence, models=models),
            http=self._http,
            declarations=self._declarations,
            reporting=() if script is None else script.reporting,
            answer_s=answer_s,
        )
        if script is None:
            self._clean = harness
        return harness

    def close(self) -> None:
        """Close the recording."""
        self._reader.close()
