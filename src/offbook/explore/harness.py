"""The harness of one in-process run: replayed models and tools with faults and observers around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from offbook.explore.observers.calls import ModelObserver, RecoveryCounter, ToolObserver, model_calls, raise_endless
from offbook.explore.observers.inferred_tools import InferredTool, inferred_effects, inferred_runs
from offbook.explore.options import ANSWER_WAIT_S, EXPLORE_DIVERGENCE, Divergence
from offbook.explore.replay import ExploredModels, ExploredTools, RecordedUsers
from offbook.explore.run import ModelCall, ToolRun, overlaps_of
from offbook.faults import At, FaultInjector, FaultPlan, inject_tools
from offbook.faults.log import FaultLog
from offbook.faults.order import CallOrder, Cancelled
from offbook.gateway.gateway import ProviderGateway
from offbook.providers.provider import Provider
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.match.continuation import Continuation, gave_up_mark
from offbook.recording.redact.rules import redactor_in_force
from offbook.recording.stores.store import RecordingReader
from offbook.session.injector import refuse_crash
from offbook.session.numbers import CallNumbers
from offbook.session.script import ModelScript, Script, ScriptedModels, ScriptedTools, ScriptLine
from offbook.session.tape import Tape
from offbook.tools import Toolbox, ToolDef
from offbook.tools.definition import is_async, wrap_tool
from offbook.tools.effects import Effect, ToolDeclaration, count_collected, prefer_reported
from offbook.tools.toolbox import GivenTool, GivenTools

if TYPE_CHECKING:
    import httpx2

    from offbook.explore.http_harness import ExploredHttp, HttpRecording
    from offbook.wire.intercept.in_process import InProcessInterception

NO_DECLARATIONS: Mapping[str, ToolDeclaration] = MappingProxyType({})


class CallLimits(Struct, frozen=True, kw_only=True):
    """How many calls of models and of tools a run may make before it counts as endless."""

    models: int
    tools: int


class Harness:
    """The models and tools of one explored run.

    `provider` and `gateway` answer model calls from the recording, with the faults of the plan; so do the clients of
    `http_client()` and `sync_http_client()`, for SDKs. `tools` does the same for tools. Every call is observed.

    `reporting` are the tools whose effects the clean run has reported. An HTTP client may wait `answer_s` for an answer
    that a fault holds back. `on_crash` ends the process where the plan has a crash.
    """

    def __init__(
        self,
        plan: FaultPlan,
        *,
        models: ExploredModels,
        tools: ExploredTools | None,
        limits: CallLimits,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
        open_http: Callable[[ScriptedModels, CallNumbers, FaultLog], ExploredHttp],
        reporting: Sequence[str] = (),
    ) -> None:
        self.recovery_counter = RecoveryCounter()
        self.reported: list[Effect] = []
        self._on_endless: Callable[[str], object] = raise_endless
        self._on_hung: Callable[[str], object] = raise_endless
        self.answer_s = ANSWER_WAIT_S
        self._interceptions: list[InProcessInterception] = []
        self._wrapped: dict[str, ToolDeclaration] = {}
        self._open_http, self._reporting = open_http, reporting
        self._models, self._replayed_tools, self._declared = models, tools, declarations
        self._users = RecordedUsers(models)
        self._fault_log, self._tool_observer = FaultLog(), ToolObserver(max_calls=limits.tools)
        self.on_crash: Callable[[], NoReturn] = refuse_crash
        self._plan, self._order, self._numbers = plan, CallOrder(), CallNumbers()
        injector = FaultInjector(
            models,
            plan,
            call_numbers=self._numbers,
            fault_log=self._fault_log,
            marked=True,
            on_crash=self._crash,
            order=self._order,
        )
        self._model_observer = ModelObserver(injector, models, numbers=self._numbers, max_calls=limits.models)
        self._model_observer.count_effects = self._count_effects
        self._faulty_tools = inject_tools(
            (), plan, fault_log=self._fault_log, marked=True, on_crash=self._crash, order=self._order
        )

    def _crash(self) -> NoReturn:
        self.on_crash()

    @property
    def provider(self) -> Provider:
        """The provider that answers model calls. It does not retry."""
        return self._model_observer

    @property
    def users(self) -> Provider:
        """What plays simulated users: their own recorded turns, in order, without faults and observers."""
        return self._users

    @cached_property
    def gateway(self) -> ProviderGateway:
        """A gateway around `provider`, which retries failed calls."""
        gateway = ProviderGateway(sink=self.recovery_counter)
        gateway.register(self.provider)
        return gateway

    @property
    def stand_in(self) -> ExploredHttp:
        """What answers HTTP clients of this run: `ollama.Client(transport=harness.stand_in.httpx_transport())`."""
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
        """Undo what `intercept` has done."""
        while self._interceptions:
            self._interceptions.pop().close()

    @cached_property
    def _http(self) -> ExploredHttp:
        http = self._open_http(self._models.source, self._numbers, self._fault_log)
        http.count_effects_by(self._count_effects)
        http.on_endless, http.on_hung = self._on_endless, self._on_hung
        http.patience_s = self.answer_s
        if self._plan.has_orders:
            http.share_order(self._order)
        return http

    @property
    def _opened_http(self) -> ExploredHttp | None:
        return vars(self).get("_http")

    def tools(self, *given: GivenTool | GivenTools) -> Toolbox:
        """Wrap tools: `tools(search, book)`. They are replayed if the recording has any calls of tools."""
        return Toolbox(list(self.wrap_tools(Toolbox.of(*given)).values()))

    def wrap_tools(self, tools: Mapping[str, ToolDef]) -> dict[str, ToolDef]:
        """Wrap tools by name."""
        return {name: self.wrap(tool) for name, tool in tools.items()}

    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap one tool: inside is the tool or its recording, around it are faults, outside is what the agent sees."""
        declared = _declare(tool, self._declared.get(tool.name))
        self._wrapped[tool.name] = declared.declaration
        inner = declared if self._replayed_tools is None else _replay_tool(declared, self._replayed_tools)
        return self._tool_observer.outside(self._faulty_tools.wrap(self._tool_observer.inside(inner)))

    def on_endless(self, end: Callable[[str], object]) -> None:
        """Call `end` with the reason when the run makes too many calls, instead of raising an error."""
        self._model_observer.on_endless = self._tool_observer.on_endless = self._on_endless = end
        if self._opened_http is not None:
            self._opened_http.on_endless = end

    def on_hung(self, end: Callable[[str], object]) -> None:
        """Call `end` with the reason when an HTTP client has waited for an answer for `answer_s`."""
        self._on_hung = end
        if self._opened_http is not None:
            self._opened_http.on_hung = end

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls so far, by HTTP clients and by the provider."""
        over_http = [] if self._opened_http is None else self._opened_http.observed
        observed = [*over_http, *self._model_observer.observed]
        if over_http:
            observed.sort(key=lambda call: (call.ended_s, call.site.overall))
        return model_calls(observed)

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        """The tool calls so far: those that were observed, and those that the conversation of an HTTP client shows."""
        return (*self._tool_observer.runs, *inferred_runs(self._inferred_tools, self._declared))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The side effects so far: the calls of tools that have one and that ran, reported ones instead of inferred."""
        inferred = [each for each in self._inferred_tools if each.tool not in self._reporting]
        others = (*self._tool_observer.effects, *inferred_effects(inferred, self._declared))
        return prefer_reported(self.reported, others)

    @property
    def declarations(self) -> dict[str, ToolDeclaration]:
        """What is declared about tools, by themselves or elsewhere."""
        return {**(self._declared if self._opened_http is not None else {}), **self._wrapped}

    @property
    def _inferred_tools(self) -> list[InferredTool]:
        return [] if self._opened_http is None else self._opened_http.inferred_tools(observed=self._wrapped)

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
        """The requests that were never recorded; of HTTP clients, the first one."""
        over_http = "" if self._opened_http is None else self._opened_http.diverged
        models, tools = self._models.diverged, self._replayed_tools
        errors = [*([] if models is None else [models]), *([] if tools is None else tools.diverged)]
        fired = [str(planned) for planned in self._fault_log.fired]
        explained = [error.replace(fired=fired, hint="") if fired else error for error in errors]
        return [*map(str, explained), *filter(None, [over_http])]

    @property
    def continuation(self) -> str:
        """What answered what was never recorded: a continuation, `default` or `live`; empty if nothing had to."""
        tools = "" if self._replayed_tools is None else self._replayed_tools.continued_by
        return self._models.source.continued_by or tools

    @property
    def recovery_paths(self) -> dict[str, int]:
        """How often the run did what to recover; of SDKs, only retries are known."""
        retries = 0 if self._opened_http is None else self._opened_http.retries
        paths = self.recovery_counter.paths + Counter({"retry": retries} if retries else {})
        return dict(sorted(paths.items()))

    def _count_effects(self) -> int:
        return count_collected() + self._tool_observer.effect_count


def _declare(tool: ToolDef, declared: ToolDeclaration | None) -> ToolDef:
    """Return the tool with what is declared about it elsewhere, beside what it declares itself."""
    if declared is None:
        return tool
    return replace(
        tool,
        side_effect=tool.side_effect or declared.side_effect,
        read_only=tool.read_only or declared.read_only,
        idempotent=tool.idempotent or declared.idempotent,
        undoes=tool.undoes or declared.undoes,
    )


def _replay_tool(tool: ToolDef, recorded: ExploredTools) -> ToolDef:
    def answer(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    async def answer_later(**arguments: Any) -> Any:
        return recorded.answer(tool, arguments)

    return wrap_tool(tool, answer_later if is_async(tool.callable) else answer, timeout_s=tool.timeout_s)


SPARE_CALLS = 100
"""How many calls a run may make beyond five times those of the clean run, before it counts as endless."""

MAX_CLEAN_CALLS = 10_000


class CleanScript(Struct, frozen=True):
    """What the clean run was answered, in order, and how many calls it made: for runs in other processes.

    `requests` are the first requests of its HTTP clients, as paths and bodies; None if it has none. `reporting` are the
    tools whose effects it has reported.
    """

    models: tuple[ScriptLine, ...]
    tools: tuple[ScriptLine, ...]
    limits: CallLimits
    requests: tuple[tuple[str, bytes], ...] | None = None
    reporting: tuple[str, ...] = ()


class HarnessFactory:
    """Creates the harnesses of runs on one recording. The first is for the clean run, which writes the script.

    Args:
        reader: the recording. It is closed with the factory.
        divergence: what answers a request that was never recorded.
        declarations: what is declared about tools by name, beside what they declare themselves.
    """

    def __init__(
        self,
        reader: RecordingReader,
        divergence: Divergence = EXPLORE_DIVERGENCE,
        *,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    ) -> None:
        self._reader, self._declarations, self._divergence = reader, declarations, divergence
        self._tape, self._script = Tape(reader, strict=True), ModelScript()
        self._tool_script: Script[ToolExchange] = Script()
        self._http: HttpRecording | None = None
        self._clean: Harness | None = None
        self._limits: CallLimits | None = None
        self._reporting: tuple[str, ...] = ()

    @property
    def has_script(self) -> bool:
        """Whether there was a clean run, so that the next run follows its script."""
        return self._limits is not None or self._clean is not None

    @property
    def script(self) -> CleanScript:
        """The script of the clean run, which was made in this process."""
        return CleanScript(
            self._script.lines,
            self._tool_script.lines,
            self._call_limits(),
            requests=None if self._http is None else self._http.requests,
            reporting=self._reporting_tools(),
        )

    def load_script(self, script: CleanScript) -> None:
        """Follow the script of a clean run that was made in another process."""
        self._script.load(script.models, self._reader)
        self._script.conversations.prepare()
        self._tool_script.load(script.tools, self._reader.tools)
        self._limits, self._reporting = script.limits, script.reporting
        if script.requests is not None:
            self._http = self._http_recording()
            self._http.prepare(script.models, script.requests)
        self._warm_up()

    def _warm_up(self) -> None:
        """Use once what every run uses, so that caches are filled before the processes of the runs are forked."""
        harness = self.create(FaultPlan())
        redactor_in_force()
        if self._http is not None:
            harness.sync_http_client().close()

    def create(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Harness:
        """Return the harness of the next run. Tools run for real if the recording has no calls of tools.

        `continuation` answers what was never recorded, if that is how divergences are answered.
        """
        source = ScriptedModels(
            self._tape,
            self._script,
            on_miss=self._divergence.policy,
            continuation=continuation,
            mark=gave_up_mark(plan),
        )
        models, index = ExploredModels(source, self._divergence), self._reader.tools
        tools = ScriptedTools(index, self._tool_script) if len(index) else None
        harness = Harness(
            plan,
            models=models,
            tools=None if tools is None else ExploredTools(tools, self._divergence, models=models),
            limits=self._call_limits(),
            declarations=self._declarations,
            open_http=partial(self._open_http, plan, is_clean=not self.has_script),
            reporting=self._reporting_tools(),
        )
        if not self.has_script:
            self._clean = harness
        return harness

    def _open_http(
        self, plan: FaultPlan, source: ScriptedModels, numbers: CallNumbers, fault_log: FaultLog, *, is_clean: bool
    ) -> ExploredHttp:
        if self._http is None:
            self._http = self._http_recording()
        max_calls = MAX_CLEAN_CALLS if is_clean else self._call_limits().models
        return self._http.start_run(plan, source, numbers=numbers, fault_log=fault_log, max_calls=max_calls)

    def _http_recording(self) -> HttpRecording:
        from offbook.explore.http_harness import HttpRecording  # noqa: PLC0415 - most runs have no HTTP clients

        return HttpRecording(self._tape, self._script, self._divergence)

    def _reporting_tools(self) -> tuple[str, ...]:
        if self._clean is None:
            return self._reporting
        return tuple(sorted({effect.tool for effect in self._clean.reported}))

    def _call_limits(self) -> CallLimits:
        if self._clean is None:
            return self._limits or CallLimits(models=MAX_CLEAN_CALLS, tools=MAX_CLEAN_CALLS)
        calls, tools = len(self._clean.calls), len(self._clean.tool_runs)
        return CallLimits(models=max_calls_after(calls), tools=max_calls_after(tools))

    def close(self) -> None:
        """Close the recording."""
        self._reader.close()


def max_calls_after(clean_calls: int) -> int:
    """Return how many calls a run may make where the clean run made `clean_calls`."""
    return 5 * clean_calls + SPARE_CALLS
