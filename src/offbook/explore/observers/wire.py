"""Observes the calls of a program: of its models over HTTP, and of the tools of its MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import Codec, retry_after_s
from offbook.errors import OffbookError
from offbook.explore.observers.calls import ObservedCall, model_calls
from offbook.explore.observers.inferred_tools import InferredTool, ToolResult, Turn, infer_tools
from offbook.explore.run import CallOutcome, ChunkKind, ChunkKinds, ModelCall
from offbook.faults.site import Site
from offbook.messages import Accumulator, JsonObject, Response, StreamDelta, ToolCall, made_tool_calls
from offbook.recording.format.wire_record import WireRecord
from offbook.session.script import ModelScript
from offbook.vendors import CODECS
from offbook.wire.request import ParsedRequest
from offbook.wire.response import JSON_TYPE, HttpResponse, recorded_response, spoils_answer, stream_events
from offbook.wire.session import CallAttempt, WireOutcome

if TYPE_CHECKING:
    from offbook.mcp.session import McpToolCall


def requested_tools(parsed: ParsedRequest, answer: HttpResponse) -> tuple[ToolCall, ...]:
    """Return the tool calls of an answer; none if it cannot be decoded."""
    codec = parsed.route.codec
    if codec is None or answer.status != 200:
        return ()
    try:
        response = (
            _streamed_response(parsed, answer, codec) if answer.is_streamed else codec.decode_response(answer.content)
        )
    except OffbookError:
        return ()
    return response.tool_calls


def chunk_kinds(parsed: ParsedRequest, answer: HttpResponse) -> tuple[ChunkKind, ...]:
    """Return what each frame of a streamed answer carries, as far as it can be decoded."""
    codec = parsed.route.codec
    return () if codec is None else _chunk_kinds(answer, codec, is_array=parsed.is_array)


def recorded_chunk_kinds(wire: WireRecord) -> tuple[ChunkKind, ...]:
    """Return the same of an answer as it was recorded."""
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
"""How much earlier a client may come than it was asked to: its clock is another one."""


class _AnsweredCall(Struct, frozen=True):
    """An attempt that was answered at `at_s`."""

    attempt: CallAttempt
    answer: HttpResponse
    outcome: WireOutcome
    site: Site
    at_s: float
    effects_before: int

    @property
    def messages(self) -> Sequence[JsonObject]:
        return () if self.attempt.parsed.request is None else self.attempt.parsed.request.messages

    @property
    def is_late(self) -> bool:
        """Whether a fault holds the answer back, or a part of it."""
        return self.attempt.fault is not None and self.answer.end_ms > 0

    @property
    def due_s(self) -> float:
        """When the next attempt may come."""
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
        """Describe that the client has waited for so long, and which timeout it needs."""
        part = "the rest of the answer" if self.has_begun else "the answer"
        return (
            f"it waited {waited_s:g} s for {part} to {self.call}: no timeout is set, or a longer one ({self._option})"
        )

    def retrying_text(self, limit_s: float) -> str:
        """Describe that the run has taken too long, although no single wait of the client has."""
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
    """A call, like `call 2`, when it came, and whether the server ended without an answer."""

    name: str
    at_s: float
    has_server_ended: bool = False


class _ObservedToolCall(Struct, frozen=True):
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
        """Whether a fault holds the answer back."""
        return bool(self.call.fault) and self.call.answer.end_ms > 0


class WireObserver:
    """Observes the calls of one run of a program.

    `on_endless` is called when there are more than `max_calls` of models, or of tools; `endless` says so then, and
    further calls are ignored.
    `script` is that of the clean run. A run that `is_in_process` has virtual time, so that its pauses are known.
    `count_effects` returns how many effects the program has reported. Calls are noted by the time that `now_s` returns.
    """

    def __init__(
        self,
        *,
        max_calls: int,
        on_endless: Callable[[], object],
        script: ModelScript,
        is_in_process: bool = False,
        now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
    ) -> None:
        self.endless, self.on_endless, self._now_s = "", on_endless, now_s
        self.count_effects: Callable[[], int] = lambda: 0
        self._max_calls, self._script, self._is_in_process = max_calls, script, is_in_process
        self._answered: list[_AnsweredCall] = []
        self._tool_calls: list[_ObservedToolCall] = []
        self._delivered: set[int] = set()
        self._left: set[int] = set()
        self._killed: list[tuple[int, CallAttempt]] = []

    def answered(self, attempt: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        if attempt.site is None:
            return
        if len(self._answered) < self._max_calls:
            at_s, effects = self._now_s(), self.count_effects()
            self._answered.append(_AnsweredCall(attempt, answer, outcome, attempt.site, at_s, effects))
        else:
            self._end("model")

    def tool_answered(self, call: McpToolCall) -> None:
        """Called when a tool call was answered, on the server's thread."""
        if len(self._tool_calls) < self._max_calls:
            self._tool_calls.append(_ObservedToolCall(call, self._now_s()))
        else:
            self._end("tool")

    def _end(self, kind: str) -> None:
        if not self.endless:
            self.endless = f"it made more than {self._max_calls} {kind} calls"
            self.on_endless()

    def delivered(self, attempt: CallAttempt) -> None:
        self._delivered.add(attempt.number)

    def left(self, attempt: CallAttempt) -> None:
        self._left.add(attempt.number)

    def killed(self, attempt: CallAttempt) -> None:
        self._killed.append((len(self._answered), attempt))

    @property
    def last_call(self) -> LastCall | None:
        """The last call of a model or a tool; None if there was none."""
        models = [LastCall(f"call {each.site.overall}", each.at_s) for each in self._answered[-1:]]
        tools = [each.last_call for each in self._tool_calls[-1:]]
        return max([*models, *tools], key=lambda each: each.at_s, default=None)

    @property
    def pending(self) -> PendingAnswer | None:
        """The answer that the program waits for, if a fault holds it back."""
        ended = self._delivered | self._left
        waiting = [call for call in self._answered.copy() if call.is_late and call.attempt.number not in ended]
        if waiting:
            call = waiting[-1]
            begun = call.answer.status is not None
            vendor, is_retry = call.attempt.parsed.route.vendor, call.site.attempt > 1
            return PendingAnswer(f"call {call.site.overall}", vendor, begun, is_retry)
        return self._pending_tool

    @property
    def _pending_tool(self) -> PendingAnswer | None:
        """The answer of a tool that the program waits for: it has made no other call since."""
        last = self._tool_calls[-1] if self._tool_calls else None
        if last is None or not last.is_late or any(each.at_s > last.at_s for each in self._answered[-1:]):
            return None
        return PendingAnswer(last.name, "mcp", bool(last.call.answer.messages))

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls so far."""
        return model_calls(self.observed)

    @property
    def observed(self) -> list[ObservedCall]:
        """The attempts of model calls so far."""
        return [self._observed_call(call) for call in self._answered.copy()]

    @property
    def retries(self) -> int:
        """How many of them are later attempts."""
        return sum(call.site.attempt > 1 for call in self._answered)

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls of MCP tools so far."""
        return [each.call for each in self._tool_calls.copy()]

    def tools(self) -> list[InferredTool]:
        """Return the tools that the program ran, as far as its conversation shows."""
        turns = [self._turn(call) for call in self._answered]
        for place, attempt in reversed(self._killed):
            turns.insert(place, _turn_of(attempt))
        return infer_tools(turns)

    def _turn(self, call: _AnsweredCall) -> Turn:
        asked = requested_tools(call.attempt.parsed, call.answer) if self._has_arrived(call) else ()
        return _turn_of(call.attempt, asked)

    def _observed_call(self, call: _AnsweredCall) -> ObservedCall:
        attempt, request, outcome = call.attempt, call.attempt.parsed.request, self._outcome(call)
        requested = requested_tools(attempt.parsed, call.answer) if outcome == "answered" else ()
        return ObservedCall(
            site=call.site,
            messages=call.messages,
            started_s=call.at_s,
            ended_s=call.at_s,
            due_s=call.due_s,
            outcome=outcome,
            error=_failure_text(call) if outcome != "answered" else "",
            model=attempt.parsed.model,
            has_tools=request is not None and bool(request.tools),
            is_streamed=attempt.parsed.is_streamed,
            chunks=chunk_kinds(attempt.parsed, call.answer),
            asks_for=tuple((tool.tool, tool.args) for tool in requested),
            told=self._script.tells_failure(call.messages),
            effects_before=call.effects_before,
            is_unrecorded=request is not None and call.outcome in _UNRECORDED,
            has_left=attempt.number in self._left,
            has_state=request is not None and not _SERVER_STATE.isdisjoint(request.extra),
            knows_pauses=self._is_in_process,
            is_over_http=True,
        )

    def _outcome(self, call: _AnsweredCall) -> CallOutcome:
        if call.outcome == "missed":
            return "diverged"
        return "answered" if self._has_arrived(call) else "failed"

    def _has_arrived(self, call: _AnsweredCall) -> bool:
        """Return whether the client got a complete answer."""
        if spoils_answer(call.attempt.fault, call.answer) or call.answer.status not in _ANSWERED:
            return False
        return call.answer.end_ms <= 0 or call.attempt.number in self._delivered


def _turn_of(attempt: CallAttempt, asked: Sequence[ToolCall] = ()) -> Turn:
    request = attempt.parsed.request
    if request is None:
        return Turn(asked=asked)
    return Turn(results=_tool_results(request.messages), offered=offered_tools(request.tools), asked=asked)


_SERVER_STATE = frozenset(("previous_response_id", "conversation"))
"""Fields of a request whose conversation the API has."""

_ANSWERED = (200, 101)
"""The statuses of an answer: of a model call, or of a message to a socket."""

_UNRECORDED = ("missed", "default", "continued")


def _failure_text(call: _AnsweredCall) -> str:
    """Describe what the client got instead of an answer."""
    status, fault = call.answer.status, call.attempt.fault
    if fault is not None and (status is None or status in _ANSWERED):
        return fault.type
    return f"HTTP {status}"


def _tool_results(messages: Sequence[JsonObject]) -> list[ToolResult]:
    """Return the results of tools in a request."""
    tools = {str(call.get("id")): str(function.get("name")) for call, function in made_tool_calls(messages)}
    results = [(str(each.get("tool_call_id")), each) for each in messages if each.get("role") == "tool"]
    return [ToolResult(call_id, tools.get(call_id, ""), str(each.get("content"))) for call_id, each in results]


def offered_tools(tools: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Return the schemas of the tools that a request offers."""
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    named = [each for each in functions if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: _schema(each.get("parameters")) for each in named}


def _schema(parameters: object) -> JsonObject:
    return parameters if isinstance(parameters, dict) else {}
