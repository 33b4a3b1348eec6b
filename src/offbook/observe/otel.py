"""Converts events, and the messages of calls, to OpenTelemetry spans by the conventions for generative AI."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from offbook.clock import SYSTEM_CLOCK, Clock, running_loop, wall_time
from offbook.errors import InputError
from offbook.events import (
    DURATION_BOUNDS_S,
    AttemptEnded,
    AttemptStarted,
    CallContent,
    CallEnded,
    CallRecorded,
    CallStarted,
    ClosingSink,
    Event,
    FallbackTaken,
    FaultFired,
    ReplayMissed,
    ReplayServed,
    RetryScheduled,
    StepEnded,
    StepStarted,
    ToolCalled,
    WorkflowEnded,
    WorkflowStarted,
)
from offbook.messages import JsonObject, Response
from offbook.recording.redact.rules import mask_reported, mask_shown
from offbook.vendors import otel_name

try:
    from opentelemetry.context import attach, detach
    from opentelemetry.metrics import Histogram, MeterProvider, get_meter
    from opentelemetry.trace import (
        Span,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
except ImportError as error:
    from offbook.installed import install_hint

    reason, hint = "opentelemetry-api is not installed", install_hint("observability")
    raise InputError(reason, source="OtelSink", hint=hint) from error

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS = ("span_only", "span_and_event", "true")
"""Settings that put messages on spans. `true` is the older one."""


def captures_on_spans() -> bool:
    """Return whether the environment enables messages on spans. The default is no."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _ON_SPANS


def content_attributes(content: CallContent) -> dict[str, str]:
    """Return the messages of a call as attributes, each as JSON, with secrets masked.

    Leading system messages are the instructions. A failed call has no output.
    """
    messages = list(content.request.messages)
    system = messages.pop(0) if messages and messages[0]["role"] in ("system", "developer") else None
    attributes: dict[str, Any] = {
        "gen_ai.system_instructions": None if system is None else list(_content_parts(system.get("content"))),
        "gen_ai.input.messages": [_input_message(message) for message in messages],
        "gen_ai.output.messages": None if content.response is None else [_output_message(content.response)],
    }
    return {
        name: mask_reported(orjson.dumps(value)).decode() for name, value in attributes.items() if value is not None
    }


def _input_message(message: JsonObject) -> JsonObject:
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}
        return {"role": "tool", "parts": [answer]}
    parts = [*_content_parts(message.get("content")), *_reasoning_parts(message.get("reasoning_content"))]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(_call_part(call.get("id"), function.get("name"), function.get("arguments")))
    return {"role": message["role"], "parts": parts}


def _output_message(response: Response) -> JsonObject:
    parts = [*_content_parts(response.content), *_reasoning_parts(response.reasoning)]
    parts += [_call_part(call.id, call.tool, call.args) for call in response.tool_calls]
    return {"role": "assistant", "parts": parts, "finish_reason": response.finish_reason}


def _content_parts(content: Any) -> Iterator[JsonObject]:
    """Yield the parts of a message. A part that is not text, such as an image, has only its type."""
    if isinstance(content, str):
        yield from [{"type": "text", "content": content}] if content else []
        return
    for part in content or ():
        is_text = part.get("type") == "text"
        yield {"type": "text", "content": part.get("text")} if is_text else {"type": str(part.get("type"))}


def _reasoning_parts(reasoning: Any) -> Iterator[JsonObject]:
    if reasoning:
        yield {"type": "reasoning", "content": reasoning}


def _call_part(id: str | None, name: Any, arguments: Any) -> JsonObject:
    return {"type": "tool_call", "id": id or None, "name": name, "arguments": _parsed(arguments)}


def _parsed(arguments: Any) -> Any:
    """Return JSON arguments as an object, and others unchanged."""
    try:
        return orjson.loads(arguments) if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        return arguments


CallKey: TypeAlias = tuple[str, str | None, int]
WHOLE_CALL = 0


class OpenSpan(NamedTuple):
    """A span of a whole call, or of the attempt of that number, and the task that started it."""

    span: Span
    attempt: int
    task: asyncio.Task[Any] | None


class OpenSpans:
    """Open spans by call (workflow, step, number), the innermost last.

    Calls of several gateways may have the same number: one inside the other, if a gateway calls a gateway, or in
    parallel tasks. The current task's spans therefore come first; those of other tasks are for streams that one task
    starts and another reads. Spans that have ended are removed.
    """

    def __init__(self) -> None:
        self._by_call: dict[CallKey, list[OpenSpan]] = {}

    def add(self, call: CallKey, span: Span, *, attempt: int) -> None:
        self._by_call.setdefault(call, []).append(OpenSpan(span, attempt, _current_task()))

    def innermost(self, call: CallKey) -> Span | None:
        """Return the last span that the current task started for the call."""
        task = _current_task()
        return next((opened.span for opened in reversed(self._by_call.get(call, ())) if opened.task is task), None)

    def find(self, call: CallKey, *, attempt: int) -> Span | None:
        """Return the last span of that attempt: of the current task, else of any."""
        matching = [opened for opened in self._by_call.get(call, ()) if opened.attempt == attempt]
        if not matching:
            return None
        task = _current_task()
        return next((opened.span for opened in reversed(matching) if opened.task is task), matching[-1].span)

    def pop(self, call: CallKey, *, attempt: int) -> Span | None:
        """Return and remove the span."""
        span = self.find(call, attempt=attempt)
        if span is not None:
            remaining = [opened for opened in self._by_call.pop(call) if opened.span is not span]
            if remaining:
                self._by_call[call] = remaining
        return span


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


_CallEvent: TypeAlias = CallStarted | AttemptStarted | AttemptEnded | RetryScheduled | FallbackTaken | CallEnded
_AttemptEvent: TypeAlias = ReplayServed | ReplayMissed | CallRecorded | FaultFired
_Attributes: TypeAlias = dict[str, str | int | float | tuple[str, ...] | None]


class OpenBlock(NamedTuple):
    """The span of a workflow or of a step, which is current in its task until it ends. `steps` are the workflow's."""

    key: tuple[str, str]
    span: Span
    token: Any
    outer: OpenBlock | None
    steps: list[Span]


_block: ContextVar[OpenBlock | None] = ContextVar("offbook_otel_block", default=None)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OtelSink:
    """Creates a span for each call through a gateway, with a child for each attempt.

    The span of a call is the conventions' inference span, which covers all retries: `chat {model}` with `gen_ai.*`
    attributes, `error.type` if it failed, and an event for each retry and fallback. Events of a replay, a recorder or
    a fault injector become `mock.*` and `recording.*` attributes of the attempt's span; without a gateway, they get a
    span of their own. A call of a tool is a span `execute_tool {tool}`, a fault that fires at one is `fault {type}`.
    A workflow is a span `workflow {name}`, and its steps, in which its calls are, `step {id}`. A run in virtual time
    starts when it starts, and its spans last as long as it would take.

    Args:
        tracer_provider: receives the spans; None for the global provider.
        meter_provider: receives the conventions' metrics, the durations of operations and the tokens that they used;
            None for the global provider.
        conversation_id: is set on every span.
        run_id: is set on every span.
        run: the name of one span around all that have no other parent, which `close` ends; None for none.
        capture_content: whether spans of model calls have their messages, without secrets; None for what
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, which is not to have them by default.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        meter_provider: MeterProvider | None = None,
        conversation_id: str | None = None,
        run_id: str | None = None,
        run: str | None = None,
        capture_content: bool | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.captures_content = captures_on_spans() if capture_content is None else capture_content
        self._content: dict[tuple[CallKey, int], dict[str, str]] = {}
        self._tracer = get_tracer("offbook", tracer_provider=tracer_provider)
        self._metrics = _OperationMetrics(meter_provider)
        self._common: _Attributes = {"gen_ai.conversation.id": conversation_id, "offbook.run_id": run_id}
        self._clock = clock
        self._virtual: tuple[object, timedelta] = (None, timedelta())
        self._open = OpenSpans()
        self._run: Span | None = None
        if run is not None:
            self._run = self._begin(run, {}, parent=None, kind=SpanKind.INTERNAL)
        self._handlers: dict[type, Callable[[Any], None]] = {
            CallStarted: self._call_started,
            AttemptStarted: self._attempt_started,
            AttemptEnded: self._attempt_ended,
            RetryScheduled: self._retry_scheduled,
            FallbackTaken: self._fallback_taken,
            CallEnded: self._call_ended,
            ReplayServed: self._replay_served,
            ReplayMissed: self._replay_missed,
            CallRecorded: self._call_recorded,
            FaultFired: self._fault_fired,
            ToolCalled: self._tool_called,
            WorkflowStarted: self._workflow_started,
            StepStarted: self._step_started,
            StepEnded: self._step_ended,
            WorkflowEnded: self._workflow_ended,
        }

    def close(self) -> None:
        """End the span of the run. Safe to call twice."""
        if self._run is not None and self._run.is_recording():
            self._run.end(self._now_ns())

    def capture(self, content: CallContent) -> None:
        """Keep the messages of a call for its span, which the call's next event ends or completes."""
        self._content[_key(content), content.attempt] = content_attributes(content)

    def emit(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _call_started(self, event: CallStarted) -> None:
        attributes: _Attributes = {
            "offbook.workflow": event.workflow or None,
            "offbook.step_id": event.step_id,
            "offbook.call": event.call,
        }
        outer = self._open.innermost(_key(event))
        span = self._begin(_chat(event.model), _chat_attributes(event.model) | attributes, parent=outer)
        self._open.add(_key(event), span, attempt=WHOLE_CALL)

    def _attempt_started(self, event: AttemptStarted) -> None:
        attributes: _Attributes = {
            "gen_ai.provider.name": otel_name(event.provider),
            "gen_ai.request.model": event.model,
            "offbook.attempt": event.attempt,
        }
        call = self._open.find(_key(event), attempt=WHOLE_CALL)
        span = self._begin(f"attempt {event.provider}", attributes, parent=call)
        self._open.add(_key(event), span, attempt=event.attempt)

    def _attempt_ended(self, event: AttemptEnded) -> None:
        span = self._open.pop(_key(event), attempt=event.attempt)
        if span is not None:
            _set(span, {"http.response.status_code": event.status_code})
            self._end(span, error=event.error)

    def _retry_scheduled(self, event: RetryScheduled) -> None:
        self._note(
            event,
            "retry",
            {
                "gen_ai.provider.name": otel_name(event.provider),
                "offbook.attempt": event.attempt,
                "offbook.wait_s": event.wait_s,
                "error.type": event.error,
            },
        )

    def _fallback_taken(self, event: FallbackTaken) -> None:
        self._note(
            event,
            "fallback",
            {"gen_ai.provider.name": otel_name(event.provider), "offbook.to": otel_name(event.to)},
        )

    def _call_ended(self, event: CallEnded) -> None:
        self._metrics.add_call(event)
        span = self._open.pop(_key(event), attempt=WHOLE_CALL)
        content = self._content.pop((_key(event), WHOLE_CALL), {})
        if span is None:
            return
        span.set_attributes(content)
        _set(span, {"gen_ai.provider.name": otel_name(event.provider) or None})
        if event.error is None:
            _set(
                span,
                {
                    "gen_ai.response.model": event.model,
                    "gen_ai.response.finish_reasons": None if event.finish_reason is None else (event.finish_reason,),
                    "gen_ai.usage.input_tokens": event.prompt_tokens,
                    "gen_ai.usage.output_tokens": event.completion_tokens,
                    "offbook.cost_usd": event.cost_usd,
                },
            )
        self._end(span, error=event.error)

    def _replay_served(self, event: ReplayServed) -> None:
        attributes: _Attributes = {"mock.matched_by": event.matched_by, "mock.fault_type": event.fault_type}
        self._set_on_attempt(event, attributes | {"mock.step_id": event.step_id} | self._spent(event))

    def _spent(self, event: ReplayServed | CallRecorded) -> _Attributes:
        """Return what a call over HTTP has used, and count it. Of a call through a gateway, CallEnded has it."""
        if not (event.prompt_tokens or event.completion_tokens or event.cost_usd):
            return {}
        self._metrics.add_tokens(event)
        return {
            "gen_ai.provider.name": otel_name(event.provider) or None,
            "gen_ai.usage.input_tokens": event.prompt_tokens,
            "gen_ai.usage.output_tokens": event.completion_tokens,
            "offbook.cost_usd": event.cost_usd,
        }

    def _replay_missed(self, event: ReplayMissed) -> None:
        self._set_on_attempt(event, {"mock.miss": event.kind, "mock.step_id": event.step_id})

    def _call_recorded(self, event: CallRecorded) -> None:
        attributes: _Attributes = {
            "recording.provider": event.provider,
            "recording.model": event.model,
            "recording.latency_s": event.latency_s,
            "recording.fault_type": event.fault_type,
        }
        self._set_on_attempt(event, attributes | self._spent(event), lasted_s=event.latency_s)

    def _fault_fired(self, event: FaultFired) -> None:
        attributes: _Attributes = {"mock.fault_type": event.fault_type}
        if event.tool is None:
            self._set_on_attempt(event, attributes | {"mock.step_id": event.step_id})
        else:
            self._short_span(
                f"fault {event.fault_type}", attributes | {"gen_ai.tool.name": event.tool, "offbook.call": event.call}
            )

    def _tool_called(self, event: ToolCalled) -> None:
        self._metrics.add_tool(event)
        attributes: _Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.type": "function",
            "offbook.call": event.call,
        }
        self._short_span(f"execute_tool {event.tool}", attributes, lasted_s=event.latency_s, error=event.error)

    def _workflow_started(self, event: WorkflowStarted) -> None:
        self._begin_block(f"workflow {event.workflow}", (event.workflow, ""), {"offbook.workflow": event.workflow})

    def _step_started(self, event: StepStarted) -> None:
        attributes: _Attributes = {
            "offbook.workflow": event.workflow,
            "offbook.step": event.step,
            "offbook.step_type": event.type,
        }
        self._begin_block(f"step {event.step}", (event.workflow, event.step), attributes)

    def _step_ended(self, event: StepEnded) -> None:
        attributes: _Attributes = {"offbook.status": event.status, "offbook.cost_usd": event.cost_usd}
        self._end_block((event.workflow, event.step), attributes, error=event.error)

    def _workflow_ended(self, event: WorkflowEnded) -> None:
        error = None if event.status == "succeeded" else event.status
        self._end_block((event.workflow, ""), {"offbook.status": event.status}, error=error)

    def _begin_block(self, name: str, key: tuple[str, str], attributes: _Attributes) -> None:
        """Start a span and make it current in this task, and in those that this task starts."""
        span, outer = self._begin(name, attributes, parent=None, kind=SpanKind.INTERNAL), _block.get()
        steps = outer.steps if outer is not None and key[1] else []
        steps.append(span)
        _block.set(OpenBlock(key, span, attach(set_span_in_context(span)), outer, steps))

    def _end_block(self, key: tuple[str, str], attributes: _Attributes, *, error: str | None) -> None:
        """End this span if it was begun: a step from a checkpoint, or one that is skipped, was not.

        A miss ends a run without an event for its steps, which end with their workflow.
        """
        block = _block.get()
        while block is not None and block.key != key and not key[1]:
            detach(block.token)
            block = block.outer
        if block is None or block.key != key:
            return
        detach(block.token)
        _block.set(block.outer)
        for step in block.steps if not key[1] else ():
            if step is not block.span and step.is_recording():
                self._end(step, error=error)
        _set(block.span, attributes)
        self._end(block.span, error=error)

    def _short_span(
        self, name: str, attributes: _Attributes, *, lasted_s: float = 0.0, error: str | None = None
    ) -> None:
        """Create a span that ends now."""
        now_ns = self._now_ns()
        start_ns = now_ns - round(lasted_s * 1e9)
        span = self._begin(name, attributes, parent=None, start_ns=start_ns, kind=SpanKind.INTERNAL)
        self._end(span, error=error, at_ns=now_ns)

    def _set_on_attempt(self, event: _AttemptEvent, attributes: _Attributes, *, lasted_s: float = 0.0) -> None:
        """Set the attributes on the span of the event's attempt, or on a new span if that is not open."""
        content = self._content.pop((_key(event), event.attempt), {})
        span = self._open.find(_key(event), attempt=event.attempt)
        if span is not None:  # the span of its call gets the messages
            _set(span, attributes)
            return
        chat, now_ns = _chat_attributes(event.model) | attributes, self._now_ns()
        start_ns = now_ns - round(lasted_s * 1e9)
        alone = self._begin(_chat(event.model), chat, parent=None, start_ns=start_ns)
        alone.set_attributes(content)
        alone.end(now_ns)

    def _note(self, event: _CallEvent, name: str, attributes: _Attributes) -> None:
        """Add an event to the span of the call."""
        span = self._open.find(_key(event), attempt=WHOLE_CALL)
        if span is not None:
            span.add_event(name, _without_none(attributes), timestamp=self._now_ns())

    def _begin(
        self,
        name: str,
        attributes: _Attributes,
        *,
        parent: Span | None,
        start_ns: int | None = None,
        kind: SpanKind = SpanKind.CLIENT,
    ) -> Span:
        """A span under `parent`, or else under the caller's current one, or that of the run."""
        if parent is None and not get_current_span().get_span_context().is_valid:
            parent = self._run
        return self._tracer.start_span(
            mask_shown(name),
            context=None if parent is None else set_span_in_context(parent),
            kind=kind,
            attributes=_without_none(self._common | attributes),
            start_time=self._now_ns() if start_ns is None else start_ns,
        )

    def _end(self, span: Span, *, error: str | None, at_ns: int | None = None) -> None:
        if error is not None:
            span.set_attribute("error.type", mask_shown(error))
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._now_ns() if at_ns is None else at_ns)

    def _now_ns(self) -> int:
        now, loop = self._clock.utc_now(), running_loop()
        if self._clock is SYSTEM_CLOCK and getattr(loop, "is_virtual", False):
            if self._virtual[0] is not loop:
                self._virtual = loop, wall_time() - now
            now += self._virtual[1]
        return (now - _EPOCH) // timedelta(microseconds=1) * 1000


_TOKEN_BOUNDS = tuple(4.0**power for power in range(14))


def resource() -> Resource:
    """Return the sender as the environment describes it, by default the service `offbook`."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415 - OtelSink needs only the API

    named = Resource.create()
    is_named = not str(named.attributes[SERVICE_NAME]).startswith("unknown_service")
    return named if is_named else named.merge(Resource({SERVICE_NAME: "offbook"}))


class ExportedOtelSink(ClosingSink):
    """Passes events to an OtelSink with its own exporters, which `close` shuts down."""

    _sink: OtelSink

    @property
    def captures_content(self) -> bool:
        """Whether spans have the messages of their calls."""
        return self._sink.captures_content

    def capture(self, content: CallContent) -> None:
        self._sink.capture(content)

    def emit(self, event: Event) -> None:
        self._sink.emit(event)


class _OperationMetrics:
    """The histograms that the conventions describe for clients, with the bounds that they name."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = get_meter("offbook", meter_provider=provider)
        self._duration: Histogram = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._tokens: Histogram = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )

    def add_call(self, event: CallEnded) -> None:
        common: _Attributes = _chat_attributes(event.model) | {
            "gen_ai.provider.name": otel_name(event.provider) or None
        }
        self._duration.record(event.latency_s, _without_none(common | {"error.type": event.error}))
        if event.error is None:
            self.add_tokens(event)

    def add_tokens(self, event: CallEnded | ReplayServed | CallRecorded) -> None:
        common: _Attributes = _chat_attributes(event.model) | {
            "gen_ai.provider.name": otel_name(event.provider) or None
        }
        for kind, tokens in (("input", event.prompt_tokens), ("output", event.completion_tokens)):
            self._tokens.record(tokens, _without_none(common | {"gen_ai.token.type": kind}))

    def add_tool(self, event: ToolCalled) -> None:
        attributes: _Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "error.type": event.error,
        }
        self._duration.record(event.latency_s, _without_none(attributes))


def _key(event: _CallEvent | _AttemptEvent | CallContent) -> CallKey:
    return event.workflow, event.step_id, event.call


def _chat(model: str) -> str:
    return f"chat {model}"


def _chat_attributes(model: str) -> _Attributes:
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": model}


def _without_none(attributes: _Attributes) -> dict[str, str | int | float | tuple[str, ...]]:
    """Return the attributes that are set, without secrets."""
    return {name: _masked(value) for name, value in attributes.items() if value is not None}


def _masked(value: str | int | float | tuple[str, ...]) -> str | int | float | tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(map(mask_shown, value))
    return mask_shown(value) if isinstance(value, str) else value


def _set(span: Span, attributes: _Attributes) -> None:
    span.set_attributes(_without_none(attributes))
