"""Observes a run's model calls, tool calls and effects over all faces."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import Codec, retry_after_s
from offbook.codecs.chat_message import SYSTEM_ROLES
from offbook.errors import OffbookError
from offbook.explore.inferred_tools import InferredTool, ToolResult, ToolTurn, infer_tools
from offbook.explore.run import CallOutcome, ChunkKind, ChunkKinds, Follows, ModelCall, ToolRun
from offbook.faults.site import Site
from offbook.messages import (
    Accumulator,
    JsonObject,
    Response,
    StreamDelta,
    ToolCall,
    Usage,
    made_tool_calls,
    result_text,
    tool_results,
)
from offbook.recording.format.exchange import ToolExchange, json_arguments
from offbook.recording.format.wire_record import WireRecord
from offbook.recording.match.conversation import message_text
from offbook.recording.recorded_tools import is_steering
from offbook.session.injector import refuse_crash
from offbook.session.script import ModelScript
from offbook.text import shorten
from offbook.tools import ToolDef
from offbook.tools.effects import UNDECLARED, Effect, EffectOutcome, ToolDeclaration, count_collected
from offbook.tools.failures import is_failed_result
from offbook.vendors import CODECS
from offbook.wire.request import HttpRequest, ParsedRequest
from offbook.wire.response import JSON_TYPE, HttpResponse, recorded_response, spoils_answer, stream_events
from offbook.wire.session import CallAttempt, WireOutcome

if TYPE_CHECKING:
    from offbook.mcp.session import McpToolCall
    from offbook.wire.tools import ProgramToolCall


class EndlessRunError(BaseException):
    """A run makes too many calls. It is not an Exception, so that no agent catches it."""


class RunHost(Protocol):
    """The surroundings of a run, which can end it, and know its reports."""

    def crash(self) -> object:
        """End the process of the run, where its plan has a crash."""

    def end_endless(self, reason: str) -> object:
        """End a run that makes too many calls."""

    def end_hung(self, reason: str) -> object:
        """End a run whose client has waited too long for an answer."""

    def count_reports(self) -> int:
        """Return the number of effects that the run has reported, other than over HTTP."""


class RaisingHost:
    """Ends a run in this process by an error."""

    def crash(self) -> NoReturn:
        refuse_crash()

    def end_endless(self, reason: str) -> NoReturn:
        raise EndlessRunError(reason)

    def end_hung(self, reason: str) -> NoReturn:
        raise EndlessRunError(reason)

    def count_reports(self) -> int:
        return count_collected()


RAISING_HOST = RaisingHost()

MAX_CLEAN_CALLS = 10_000
SPARE_CALLS = 100
"""The number of calls that a run may make beyond five times the clean run's."""


class CallLimits(Struct, frozen=True, kw_only=True):
    """The limits of a run's model and tool calls, above which it counts as endless."""

    models: int = MAX_CLEAN_CALLS
    tools: int = MAX_CLEAN_CALLS


CLEAN_LIMITS = CallLimits()


def max_calls_after(clean_calls: int) -> int:
    """Return the limit of a run's calls, given the clean run's `clean_calls`."""
    return 5 * clean_calls + SPARE_CALLS


SentRequest: TypeAlias = tuple[str, bytes]
"""A request that the clean run has sent to a model: its path and its JSON body."""

MAX_REQUESTS, MAX_BYTES = 16, 1 << 20
"""The number and total size of the requests that are sent again. More would build no new models."""


class SentRequests:
    """The first requests of a clean run, up to a limit. They are sent again before cases' processes are forked.

    See `providers/first_use.py`.
    """

    def __init__(self, most: int = MAX_REQUESTS) -> None:
        self._requests: dict[int, SentRequest] = {}
        self._most, self._left_bytes = most, MAX_BYTES

    @property
    def requests(self) -> list[SentRequest]:
        return list(self._requests.values())

    def add(self, request: HttpRequest, number: int) -> None:
        self._left_bytes -= len(request.body)
        if request.body and self._left_bytes >= 0 and len(self._requests) < self._most:
            self._requests[number] = request.path, request.body

    def end(self, number: int) -> None:
        """Forget the request of this number, which has no answer, and add no more."""
        self._requests.pop(number, None)
        self._most = 0


def lost_messages(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> int:
    """Return the number of messages of the request `before` that the request `now` lacks, or 0 if it has a new one."""
    if len(now) >= len(before) or any(message not in before for message in now):
        return 0
    return len(before) - len(now)


def how_it_follows(before: Sequence[JsonObject] | None, now: Sequence[JsonObject]) -> Follows:
    """Return how the request `now` follows the previous call's request `before`, if any.

    It continues a conversation if it has a model or tool message that `before` lacks.
    """
    if before is None or list(before) == list(now):
        return "" if before is None else "repeats"
    turns = [message for message in now if message.get("role") in ("assistant", "tool")]
    return "continues" if turns and before.count(turns[-1]) < turns.count(turns[-1]) else ""


class ObservedCall(Struct, frozen=True, kw_only=True):
    """An attempt of a model call, as observed over any face.

    It began at `started_s` and ended at `ended_s`; the next one may come at `due_s`, as the answer requested. If its
    client `has_left` before the answer, it cannot obey that. `is_unrecorded` if the recording had no answer.
    `has_state` if the API keeps the conversation, and the request has only the new messages. In virtual time, all
    pauses are known (`knows_pauses`). The other fields are a ModelCall's.
    """

    site: Site
    messages: Sequence[JsonObject]
    started_s: float
    ended_s: float
    due_s: float
    outcome: CallOutcome
    error: str = ""
    model: str = ""
    has_tools: bool = False
    is_streamed: bool = False
    chunks: tuple[ChunkKind, ...] = ()
    asks_for: tuple[tuple[str, JsonObject], ...] = ()
    told: bool = False
    effects_before: int | None = None
    is_unrecorded: bool = False
    has_left: bool = False
    has_state: bool = False
    knows_pauses: bool = True
    is_over_http: bool = False
    refusal: str = ""
    identity: str = ""
    usage: Usage | UnsetType = UNSET


NO_RESPONSE = Response("", "")


def known_usage(response: Response) -> Usage | UnsetType:
    """Return the tokens of a response, if its API has counted them."""
    return response.usage if response.usage.total_tokens else UNSET


IDENTITY_CHARS = 16
"""The length of a fingerprint's prefix that distinguishes requests."""

MAX_AGENT_CHARS = 40


def agent_name(step_id: str | None, messages: Sequence[JsonObject]) -> str:
    """Return the step of a call, or the first line of its instructions; empty without either."""
    if step_id is not None:
        return step_id
    instructions = (message_text(each) for each in messages if each.get("role") in SYSTEM_ROLES)
    return shorten(next(instructions, "").strip().partition("\n")[0], MAX_AGENT_CHARS)


def model_calls(observed: Sequence[ObservedCall]) -> tuple[ModelCall, ...]:
    """Return the model calls of a run, each with its relation to earlier ones."""
    return tuple(_model_call(call, observed, observed[:place]) for place, call in enumerate(observed))


def _model_call(call: ObservedCall, observed: Sequence[ObservedCall], before: Sequence[ObservedCall]) -> ModelCall:
    site = call.site
    tries = [each for each in before if each.site.overall == site.overall]
    answered = [each for each in tries if not each.has_left]
    return ModelCall(
        number=site.overall,
        step_id=site.step_id,
        step_call=site.call,
        attempt=site.attempt,
        model=call.model,
        has_tools=call.has_tools,
        is_streamed=call.is_streamed,
        chunks=call.chunks,
        asks_for=call.asks_for,
        outcome=call.outcome,
        error=call.error,
        # A server that was busy may also read the request of a client that has left after the next one.
        is_too_soon=bool(answered) and not call.has_left and call.started_s < answered[-1].due_s,
        forgot=_forgot(call, before),
        told=call.told,
        waited_s=round(call.started_s - tries[-1].ended_s, 6) if tries and call.knows_pauses else None,
        effects_before=call.effects_before,
        follows=_follows(call, observed),
        is_over_http=call.is_over_http,
        refusal=call.refusal,
        agent=agent_name(site.step_id, call.messages),
        identity=call.identity,
        usage=call.usage,
        got_out=bool(call.refusal) and _gets_out(call, observed[len(before) + 1 :]),
    )


def _gets_out(call: ObservedCall, later: Sequence[ObservedCall]) -> bool:
    """Return whether a later request with a message of a refused one, other than instructions, was accepted."""
    texts = {message_text(message) for message in call.messages if message.get("role") not in SYSTEM_ROLES} - {""}
    accepted = (each for each in later if each.outcome == "answered" and _step(each) == _step(call))
    return any(message_text(message) in texts for each in accepted for message in each.messages)


def _forgot(call: ObservedCall, before: Sequence[ObservedCall]) -> int:
    """Return the number of messages of a failed call that its step's next unrecorded call lacks."""
    last = next((each for each in reversed(before) if _step(each) == _step(call)), None)
    if last is None or not call.is_unrecorded or last.outcome != "failed":
        return 0
    return lost_messages(last.messages, call.messages)


def _follows(call: ObservedCall, observed: Sequence[ObservedCall]) -> Follows:
    """Return how a call follows its step's previous one."""
    earlier = [each for each in observed if _step(each) == _step(call) and each.site.overall < call.site.overall]
    if not earlier:
        return ""
    last = max(earlier, key=lambda each: (each.site.overall, each.site.attempt))
    return "continues" if call.has_state else how_it_follows(last.messages, call.messages)


def _step(call: ObservedCall) -> tuple[str, str | None]:
    return call.site.workflow, call.site.step_id


def decoded_response(parsed: ParsedRequest, answer: HttpResponse) -> Response:
    """Return the response that an answer encodes; an empty one if it cannot be decoded."""
    codec = parsed.route.codec
    if codec is None or answer.status != 200:
        return Response("", parsed.model)
    try:
        return (
            _streamed_response(parsed, answer, codec) if answer.is_streamed else codec.decode_response(answer.content)
        )
    except OffbookError:
        return Response("", parsed.model)


def arrived_tools(parsed: ParsedRequest, answer: HttpResponse) -> tuple[ToolCall, ...]:
    """Return the complete tool calls of a truncated streamed answer."""
    codec = parsed.route.codec
    if codec is None or answer.status != 200 or not answer.is_streamed:
        return ()
    decoder, joined = codec.stream_decoder(), Accumulator()
    try:
        for _, frame in stream_events(answer, is_array=parsed.is_array):
            for delta in decoder.feed(frame):
                joined.add(delta)
    except OffbookError:
        pass  # what came before the broken event has arrived
    calls = joined.join(Response("", parsed.model)).tool_calls
    return tuple(call for call in calls if call.raw_arguments is None)


def chunk_kinds(parsed: ParsedRequest, answer: HttpResponse) -> tuple[ChunkKind, ...]:
    """Return the kind of each frame of a streamed answer, if it can be decoded."""
    codec = parsed.route.codec
    return () if codec is None else _chunk_kinds(answer, codec, is_array=parsed.is_array)


def recorded_chunk_kinds(wire: WireRecord) -> tuple[ChunkKind, ...]:
    """Return the kind of each frame of a recorded answer."""
    is_array = wire.is_streamed and wire.headers.get("content-type", "").startswith(JSON_TYPE)
    return _chunk_kinds(recorded_response(wire), CODECS[wire.protocol], is_array=is_array)


def _chunk_kinds(answer: HttpResponse, codec: Codec, *, is_array: bool) -> tuple[ChunkKind, ...]:
    if not answer.is_streamed:
        return ()
    chunks: list[ChunkKind] = []
    kinds, decoder = ChunkKinds(), codec.stream_decoder()
    try:
        for _, frame in stream_events(answer, is_array=is_array):
            found = [kinds.next(delta) for delta in decoder.feed(frame)]
            chunks.append(found[0] if found else "other")
    except OffbookError:
        return tuple(chunks)
    return tuple(chunks)


def _streamed_response(parsed: ParsedRequest, answer: HttpResponse, codec: Codec) -> Response:
    decoder, joined = codec.stream_decoder(), Accumulator()
    deltas: list[StreamDelta] = [
        delta for _, frame in stream_events(answer, is_array=parsed.is_array) for delta in decoder.feed(frame)
    ]
    rest, response = decoder.close()
    for delta in deltas + rest:
        joined.add(delta)
    return joined.join(response)


NEGLIGIBLE_WAIT_S = 0.1
"""A wait that a client need not respect."""
EARLY_S = 0.01
"""How much earlier than requested a client may come, because its clock differs."""


class _HttpCall(Struct, frozen=True):
    """An attempt that was answered at `at_s`."""

    attempt: CallAttempt
    answer: HttpResponse
    outcome: WireOutcome
    site: Site
    at_s: float
    effects_before: int

    @property
    def is_late(self) -> bool:
        """Whether a fault delays the answer, or a part of it."""
        return self.attempt.fault is not None and self.answer.end_ms > 0

    @property
    def pending(self) -> PendingAnswer:
        """The answer that the client waits for."""
        vendor, has_begun = self.attempt.parsed.route.vendor, self.answer.status is not None
        return PendingAnswer(f"call {self.site.overall}", vendor, has_begun, is_retry=self.site.attempt > 1)

    @property
    def due_s(self) -> float:
        """The earliest time of the next attempt."""
        wait_s = retry_after_s(self.answer.headers, now=SYSTEM_CLOCK.utc_now()) or 0.0
        return self.at_s + (wait_s - EARLY_S if wait_s > NEGLIGIBLE_WAIT_S else 0.0)


class PendingAnswer(Struct, frozen=True):
    """An answer that the client waits for: its call, like `call 2`, its vendor, and whether it has begun.

    `is_retry` if the client has asked for it before.
    """

    call: str
    vendor: str
    has_begun: bool
    is_retry: bool = False

    def waiting_text(self, waited_s: float) -> str:
        """Describe the client's wait so far, and the timeout that it needs."""
        part = "the rest of the answer" if self.has_begun else "the answer"
        return (
            f"it waited {waited_s:g} s for {part} to {self.call}: no timeout is set, or a longer one ({self._option})"
        )

    def retrying_text(self, limit_s: float) -> str:
        """Describe a run that took too long without a single long wait of its client."""
        reason = f"its waits add up: a shorter timeout ({self._option}), or fewer retries"
        return f"it had not ended after {limit_s:g} s, when it waited for the answer to {self.call} again; {reason}"

    @property
    def _option(self) -> str:
        return _CLIENT_TIMEOUTS.get(self.vendor, "a timeout of its client")


_CLIENT_TIMEOUTS = {
    "openai": "OpenAI(timeout=…)",
    "anthropic": "Anthropic(timeout=…)",
    "google": "Client(http_options=HttpOptions(timeout=…))",
    "ollama": "Client(timeout=…)",
    "bedrock": "Config(read_timeout=…)",
    "mcp": "ClientSession(read_timeout_seconds=…)",
}


class LastCall(Struct, frozen=True):
    """A call, like `call 2`, its time, and whether the server ended without an answer."""

    name: str
    at_s: float
    has_server_ended: bool = False


class _McpCall(Struct, frozen=True):
    """A call of an MCP tool that was answered at `at_s`."""

    call: McpToolCall
    at_s: float

    @property
    def last_call(self) -> LastCall:
        return LastCall(self.name, self.at_s, self.call.answer.ending in ("cut", "exit"))

    @property
    def name(self) -> str:
        return f"call {self.call.call} of {self.call.name}"

    @property
    def is_late(self) -> bool:
        """Whether a fault delays the answer."""
        return bool(self.call.fault) and self.call.answer.end_ms > 0


class ObservedTool:
    """A call of a tool in this process. `has_run` if no fault has prevented it, `has_done` if it then succeeded."""

    def __init__(self, tool: ToolDef, number: int, arguments: JsonObject) -> None:
        self.tool, self.number, self.arguments = tool, number, arguments
        self.has_run = self.has_done = False
        self.result = ""
        self.error: str | None = None

    def to_run(self) -> ToolRun:
        return ToolRun(
            tool=self.tool.name,
            call=self.number,
            arguments=self.arguments,
            result=self.result,
            error=self.error,
            has_run=self.has_run,
            has_failed=self.has_run and not self.has_done,
            side_effect=self.tool.side_effect,
        )

    def returned(self, value: object) -> None:
        """Note the tool's own result."""
        self.has_done = not is_failed_result(value, self.tool.failed)

    def to_effect(self) -> Effect:
        outcome: EffectOutcome = "done" if self.has_done else "failed"
        return Effect(tool=self.tool.name, arguments=self.arguments, outcome=outcome)


MAX_RESULT_CHARS = 4_000
NO_DECLARATIONS: Mapping[str, ToolDeclaration] = MappingProxyType({})


class RunObserver:
    """Observes the calls of one run. Its session reports those over HTTP and MCP, its harness those in-process.

    `script` is the clean run's. More calls than `limits` allow make the run `endless` with a reason, and its `host`
    ends it; further calls are ignored. Calls over HTTP and MCP have times of `now_s`. Only virtual time `knows_pauses`.
    `sent` keeps the requests of a clean run. `tools_took_s` is the duration of a program's function tools, as planned.
    """

    def __init__(
        self,
        script: ModelScript,
        host: RunHost = RAISING_HOST,
        *,
        limits: CallLimits = CLEAN_LIMITS,
        now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
        knows_pauses: bool = False,
        sent: SentRequests | None = None,
        declarations: Mapping[str, ToolDeclaration] = NO_DECLARATIONS,
    ) -> None:
        self._declarations = declarations
        self._program_tools: list[ProgramToolCall] = []
        self.tools_took_s = 0.0
        self._last_program_tool: LastCall | None = None
        self.endless, self.host, self.sent = "", host, sent
        self._script, self._limits, self._now_s, self._knows_pauses = script, limits, now_s, knows_pauses
        self._counts = Counter[str]()
        self._calls: list[_HttpCall | ObservedCall] = []
        self._tools: list[ObservedTool] = []
        self._tool_numbers = Counter[str]()
        self._ran: list[ObservedTool] = []  # tools may run in several threads, which cannot share a number
        self._effect_count = 0
        self._mcp_calls: list[_McpCall] = []
        self._delivered: set[int] = set()
        self._left: dict[int, float] = {}
        self._killed: list[tuple[int, CallAttempt]] = []

    def received(self, request: HttpRequest, number: int) -> None:
        if self.sent is not None:
            self.sent.add(request, number)

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        if outcome == "missed" and self.sent is not None:
            self.sent.end(attempt.number)
        if attempt.site is not None and self._allows("model", self._limits.models):
            call = _HttpCall(attempt, answer, outcome, attempt.site, self._now_s(), self.count_effects())
            self._calls.append(call)

    def delivered(self, attempt: CallAttempt) -> None:
        self._delivered.add(attempt.number)

    def left(self, attempt: CallAttempt) -> None:
        self._left.setdefault(attempt.number, self._now_s())

    def killed(self, attempt: CallAttempt) -> None:
        self._killed.append((len(self._http_calls), attempt))

    def crash(self) -> None:
        self.host.crash()

    def reported(self, effects: Sequence[Effect]) -> None:
        self._effect_count += len(effects)

    def tool_answered(self, call: McpToolCall, *, has_effect: bool) -> None:
        """Note an answered tool call over MCP, and whether it has changed something."""
        self._effect_count += has_effect
        if self._allows("tool", self._limits.tools):
            self._mcp_calls.append(_McpCall(call, self._now_s()))

    def tool_ended(self, call: ProgramToolCall) -> None:
        """Note that a function tool of a program has been answered, or has run."""
        if not self._allows("tool", self._limits.tools):
            return
        self._program_tools.append(call)
        self.tools_took_s += call.wait_s
        last, ends_s = self._last_program_tool, self._now_s() + call.wait_s
        if last is None or last.at_s < ends_s:  # another one that runs at the same time may take longer
            self._last_program_tool = LastCall(f"call {call.call} of {call.tool}", ends_s)
        self._effect_count += call.did is not None and self._declaration(call.tool).has_effect

    def _declaration(self, tool: str) -> ToolDeclaration:
        return self._declarations.get(tool, UNDECLARED)

    @property
    def program_tools(self) -> list[ProgramToolCall]:
        """The calls of a program's function tools so far, in the order in which they ended."""
        return self._program_tools.copy()

    def program_runs(self) -> list[ToolRun]:
        """Return the calls of the function tools of a program as the program saw them."""
        return [
            ToolRun(
                tool=call.tool,
                call=call.call,
                arguments=call.arguments,
                result="" if call.got.result is UNSET else shorten(result_text(call.got.result), MAX_RESULT_CHARS),
                error=None if call.got.error is None else call.got.error.message,
                has_run=call.did is not None,
                has_failed=call.did is not None and self._has_failed(call.tool, call.did),
                side_effect=self._declaration(call.tool).has_effect,
            )
            for call in self._program_tools
        ]

    def _has_failed(self, tool: str, did: ToolExchange) -> bool:
        return did.error is not None or is_failed_result(did.result, self._declaration(tool).failed)

    def program_effects(self) -> list[Effect]:
        """Return the effects of the function tools of a program, where they happened."""
        return [
            Effect(
                tool=call.tool,
                arguments=call.arguments,
                outcome="failed" if self._has_failed(call.tool, call.did) else "done",
            )
            for call in self._program_tools
            if call.did is not None and self._declaration(call.tool).has_effect
        ]

    def start_call(self) -> None:
        """Count a model call of this process. It is noted when it has `ended`."""
        self._allows("model", self._limits.models)

    def ended(self, call: ObservedCall) -> None:
        """Note that a model call of this process has ended."""
        self._calls.append(call)

    def start_tool(self, tool: ToolDef, arguments: JsonObject) -> ObservedTool:
        """Note that a tool of this process is called."""
        self._allows("tool", self._limits.tools)
        self._tool_numbers[tool.name] += 1
        call = ObservedTool(tool, self._tool_numbers[tool.name], json_arguments(arguments))
        self._tools.append(call)
        return call

    def run_tool(self, call: ObservedTool) -> None:
        """Note that the tool of a call runs itself."""
        if call.tool.declaration.has_effect and not call.has_run:
            self._ran.append(call)
        call.has_run = True

    def _allows(self, kind: str, most: int) -> bool:
        """Count a call, and return whether the run may make it. One too many ends the run."""
        self._counts[kind] += 1
        if self._counts[kind] <= most:
            return True
        self.endless = self.endless or f"it made more than {most} {kind} calls"
        self.host.end_endless(self.endless)
        return False

    def count_effects(self) -> int:
        """Return the number of observed and reported effects so far."""
        return len(self._ran) + self._effect_count + self.host.count_reports()

    @property
    def _http_calls(self) -> list[_HttpCall]:
        return [call for call in self._calls.copy() if isinstance(call, _HttpCall)]

    @property
    def last_call(self) -> LastCall | None:
        """The last call over HTTP or MCP, or of a program's tool, or None."""
        models = [LastCall(f"call {each.site.overall}", each.at_s) for each in self._http_calls[-1:]]
        tools = [each.last_call for each in self._mcp_calls[-1:]]
        own = [] if self._last_program_tool is None else [self._last_program_tool]
        return max([*models, *tools, *own], key=lambda each: each.at_s, default=None)

    @property
    def pending(self) -> PendingAnswer | None:
        """The answer that a program waits for, if a fault holds it back."""
        ended, calls = self._delivered | self._left.keys(), self._http_calls
        waiting = [call for call in calls if call.is_late and call.attempt.number not in ended]
        if waiting:
            return waiting[-1].pending
        last = self._mcp_calls[-1] if self._mcp_calls else None
        if last is None or not last.is_late or any(each.at_s > last.at_s for each in calls[-1:]):
            return None
        return PendingAnswer(last.name, "mcp", bool(last.call.answer.messages))

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls so far, in the order in which they ended."""
        calls = self._calls.copy()
        return model_calls([self._observed(call) if isinstance(call, _HttpCall) else call for call in calls])

    @property
    def retries(self) -> int:
        """The number of calls over HTTP that are later attempts."""
        return sum(call.site.attempt > 1 for call in self._http_calls)

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        """The tool calls of this process so far, in the order in which they started."""
        return tuple(call.to_run() for call in self._tools)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The side effects of this process's tools so far: those that ran."""
        return tuple(call.to_effect() for call in self._tools if call.has_run and call.tool.declaration.has_effect)

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls of MCP tools so far."""
        return [each.call for each in self._mcp_calls.copy()]

    def inferred_tools(self, *, observed: Collection[str] = ()) -> list[InferredTool]:
        """Return the tools that ran according to conversations over HTTP, without those that are `observed`."""
        if not (calls := self._http_calls) and not self._killed:
            return []
        turns = [self._turn(call) for call in calls]
        for place, attempt in reversed(self._killed):
            turns.insert(place, _turn_of(attempt))
        failed = {tool: each.failed for tool, each in self._declarations.items() if each.failed is not None}
        return [each for each in infer_tools(turns, failed) if each.tool not in observed]

    def _turn(self, call: _HttpCall) -> ToolTurn:
        """Return a request with the tools that its answer requests, as far as that has arrived."""
        if self._has_arrived(call):
            return _turn_of(call.attempt, decoded_response(call.attempt.parsed, call.answer).tool_calls)
        return _turn_of(call.attempt, arrived_tools(call.attempt.parsed, self._arrived_part(call)), is_cut=True)

    def _observed(self, call: _HttpCall) -> ObservedCall:
        attempt, request, outcome = call.attempt, call.attempt.parsed.request, self._outcome(call)
        messages = () if request is None else request.messages
        response = decoded_response(attempt.parsed, call.answer) if outcome == "answered" else NO_RESPONSE
        return ObservedCall(
            site=call.site,
            messages=messages,
            started_s=call.at_s,
            ended_s=call.at_s,
            due_s=call.due_s,
            outcome=outcome,
            error=_failure_text(call) if outcome != "answered" else "",
            model=attempt.parsed.model,
            has_tools=request is not None and bool(request.tools),
            is_streamed=attempt.parsed.is_streamed,
            chunks=chunk_kinds(attempt.parsed, self._arrived_part(call)),
            asks_for=tuple((tool.tool, tool.args) for tool in response.tool_calls),
            told=self._script.tells_failure(messages),
            effects_before=call.effects_before,
            is_unrecorded=request is not None and call.outcome in _UNRECORDED,
            has_left=attempt.number in self._left,
            has_state=request is not None and not _SERVER_STATE.isdisjoint(request.extra),
            knows_pauses=self._knows_pauses,
            is_over_http=True,
            refusal="" if attempt.refusal is None else str(attempt.refusal),
            identity=attempt.parsed.request_hash[:IDENTITY_CHARS],
            usage=known_usage(response),
        )

    def _outcome(self, call: _HttpCall) -> CallOutcome:
        if call.outcome == "missed" and call.attempt.refusal is None:
            return "diverged"
        return "answered" if self._has_arrived(call) else "failed"

    def _has_arrived(self, call: _HttpCall) -> bool:
        """Return whether the client got a complete answer."""
        if spoils_answer(call.attempt.fault, call.answer) or call.answer.status not in _ANSWERED:
            return False
        return call.answer.end_ms <= 0 or call.attempt.number in self._delivered

    def _arrived_part(self, call: _HttpCall) -> HttpResponse:
        """Return the part of an answer that had arrived when its client left."""
        number, answer = call.attempt.number, call.answer
        if answer.end_ms <= 0 or number in self._delivered:
            return answer
        waited_ms = (self._left.get(number, self._now_s()) - call.at_s) * 1000
        return replace(answer, frames=tuple(frame for frame in answer.frames if frame[0] <= waited_ms))


def _turn_of(attempt: CallAttempt, asked: Sequence[ToolCall] = (), *, is_cut: bool = False) -> ToolTurn:
    request = attempt.parsed.request
    if request is None:
        return ToolTurn(asked=asked, is_cut=is_cut)
    steering = {str(each["name"]) for each in _functions(request.tools) if is_steering(each)}
    acting = [each for each in asked if each.tool not in steering]
    offered = offered_tools(request.tools)
    return ToolTurn(results=_tool_results(request.messages), offered=offered, asked=acting, is_cut=is_cut)


_SERVER_STATE = frozenset(("previous_response_id", "conversation", "thread"))
"""Request fields for a conversation stored at the API."""

_ANSWERED = (200, 101)
"""The statuses of an answer: of a model call, or of a message to a socket."""

_UNRECORDED = ("missed", "default", "continued")


def _failure_text(call: _HttpCall) -> str:
    """Describe what the client got instead of an answer."""
    status, fault = call.answer.status, call.attempt.fault
    if fault is not None and (status is None or status in _ANSWERED):
        return fault.type
    return f"HTTP {status}"


def _tool_results(messages: Sequence[JsonObject]) -> list[ToolResult]:
    """Return the results of tools in a request."""
    made = defaultdict[str, list[ToolCall]](list)
    for call, function in made_tool_calls(messages):
        made[str(call.get("id"))].append(ToolCall.parse(str(function.get("name")), str(function.get("arguments"))))
    return [
        ToolResult(
            str(each.get("tool_call_id")),
            tool,
            str(each.get("content")),
            is_error=bool(each.get("is_error")) or each.get("status") == "error",
            arguments=_shared_arguments(made[str(each.get("tool_call_id"))]),
        )
        for tool, each in tool_results(messages)
    ]


def _shared_arguments(calls: Sequence[ToolCall]) -> JsonObject | None:
    """Return the arguments shared by all calls of one id, or None."""
    return calls[0].args if calls and all(each == calls[0] for each in calls) else None


def offered_tools(tools: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Return the schemas of the tools that a request offers."""
    return {each["name"]: _schema(each.get("parameters")) for each in _functions(tools)}


def _functions(tools: Sequence[JsonObject]) -> list[JsonObject]:
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    return [each for each in functions if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _schema(parameters: object) -> JsonObject:
    return parameters if isinstance(parameters, dict) else {}
