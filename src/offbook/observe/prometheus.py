"""Converts events to Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar
from wsgiref.simple_server import WSGIServer

from offbook.errors import InputError
from offbook.events import (
    DURATION_BOUNDS_S,
    AttemptEnded,
    AttemptStarted,
    BreakerChanged,
    CacheUsed,
    CallEnded,
    CallRecorded,
    ClosingSink,
    ContextCompacted,
    Event,
    FallbackTaken,
    FaultFired,
    ReplayMissed,
    ReplayServed,
    RetryScheduled,
    StepEnded,
    ToolCalled,
    WorkflowEnded,
)
from offbook.recording.redact.rules import mask_shown

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, start_http_server
    from prometheus_client.metrics import MetricWrapperBase
except ImportError as error:
    from offbook.installed import install_hint

    reason, hint = "prometheus-client is not installed", install_hint("observability")
    raise InputError(reason, source="PrometheusSink", hint=hint) from error

M = TypeVar("M", bound=MetricWrapperBase)

LOOPBACK = "127.0.0.1"
BREAKER_STATES = {"closed": 0, "half_open": 1, "open": 2}


class _Series(dict[tuple[str, ...], M]):
    """The series of a metric by label values, each created when it is first used."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, values: tuple[str, ...]) -> M:
        series = self[values] = self._metric.labels(*map(_writable, values))
        return series


class PrometheusSink(ClosingSink):
    """Counts and measures events as `offbook_*` metrics, which can be rendered or served.

    Args:
        registry: where the metrics are registered; None for a new registry.

    Raises:
        InputError: the registry already has such metrics.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._server: tuple[WSGIServer, Thread] | None = None
        try:
            self._register()
        except ValueError as error:
            reason, hint = "the registry already has offbook's metrics", "share one PrometheusSink"
            raise InputError(reason, source="registry", hint=hint) from error
        self._handlers: dict[type, Callable[[Any], None]] = {
            ReplayServed: self._replay_served,
            ReplayMissed: self._replay_missed,
            FaultFired: self._fault_fired,
            CallRecorded: self._call_recorded,
            CacheUsed: self._cache_used,
            AttemptStarted: self._attempt_started,
            AttemptEnded: self._attempt_ended,
            RetryScheduled: self._retry_scheduled,
            FallbackTaken: self._fallback_taken,
            BreakerChanged: self._breaker_changed,
            CallEnded: self._call_ended,
            ContextCompacted: self._context_compacted,
            StepEnded: self._step_ended,
            ToolCalled: self._tool_called,
            WorkflowEnded: self._workflow_ended,
        }

    def emit(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def serve(self, port: int = 0) -> int:
        """Answer scrapes on the loopback interface from a thread, until `close`.

        Args:
            port: 0 chooses a free one.

        Returns:
            The port.

        Raises:
            InputError: the port is not available, or the sink is already serving.
        """
        if self._server is not None:
            raise InputError(
                "the sink is already serving", source="serve", hint=f"at port {self._server[0].server_port}"
            )
        try:
            self._server = start_http_server(port, addr=LOOPBACK, registry=self.registry)
        except OSError as error:
            raise InputError(f"port {port} is not available: {error.strerror}", source="serve") from error
        return self._server[0].server_port

    def close(self) -> None:
        """Stop serving. Safe to call twice; the metrics can still be rendered."""
        if self._server is None:
            return
        (server, thread), self._server = self._server, None
        server.shutdown()
        thread.join()
        server.server_close()

    def _register(self) -> None:
        counter, histogram = self._counter, self._histogram
        self._replays = counter("offbook_mock_replays_total", "Replayed calls", "workflow", "matched_by")
        self._misses = counter("offbook_mock_misses_total", "Calls that a strict replay rejected", "workflow", "kind")
        self._faults = counter("offbook_mock_faults_total", "Faults that fired", "workflow", "fault_type")
        self._captures = counter("offbook_recording_captures_total", "Recorded calls", "provider", "model")
        self._captured_s = histogram("offbook_recording_latency_seconds", "Recorded latency", "provider", "model")
        self._lookups = counter("offbook_cache_lookups_total", "Calls looked up in a shared recording", "outcome")
        self._lookup_wait_s = counter("offbook_cache_wait_seconds_total", "Waits for calls of others", "outcome")
        self._gone = counter("offbook_cache_gone_total", "Exchanges found expired or evicted", "outcome")
        self._attempts = counter(
            "offbook_provider_attempts_total", "Attempts, by ok or error class", "provider", "model", "outcome"
        )
        self._retries = counter("offbook_provider_retries_total", "Retries", "provider")
        self._waited_s = counter("offbook_provider_retry_wait_seconds_total", "Waits before retries", "provider")
        self._fallbacks = counter("offbook_provider_fallbacks_total", "Fallbacks to another provider", "provider", "to")
        self._breakers = _Series(
            Gauge("offbook_breaker_state", "0 closed, 1 half open, 2 open", ["provider"], registry=self.registry)
        )
        self._tokens = counter("offbook_tokens_total", "Tokens used", "provider", "model", "kind")
        self._cost_usd = counter("offbook_cost_usd_total", "US dollars spent", "provider", "model")
        self._call_s = histogram("offbook_call_seconds", "Duration of calls, retries included", "model")
        self._calls = counter("offbook_calls_total", "Calls, by ok or error class", "workflow", "outcome")
        self._compactions = counter(
            "offbook_context_compactions_total", "Compactions of a context", "strategy", "phase"
        )
        self._tools = counter("offbook_tool_calls_total", "Calls of tools, by ok or error class", "tool", "outcome")
        self._tool_s = histogram("offbook_tool_seconds", "Duration of calls of tools", "tool")
        self._runs = counter("offbook_workflow_runs_total", "Runs of workflows", "workflow", "status")
        self._steps = counter("offbook_workflow_steps_total", "Steps of workflows", "workflow", "type", "status")
        self._step_s = histogram("offbook_workflow_step_seconds", "Duration of steps that ran", "workflow", "type")

    def _counter(self, name: str, meaning: str, *labels: str) -> _Series[Counter]:
        return _Series(Counter(name, f"{meaning}.", labels, registry=self.registry))

    def _histogram(self, name: str, meaning: str, *labels: str) -> _Series[Histogram]:
        return _Series(Histogram(name, f"{meaning}.", labels, registry=self.registry, buckets=DURATION_BOUNDS_S))

    def _replay_served(self, event: ReplayServed) -> None:
        self._replays[event.workflow, event.matched_by].inc()
        if event.fault_type is not None:
            self._faults[event.workflow, event.fault_type].inc()
        self._add_spent(event)

    def _replay_missed(self, event: ReplayMissed) -> None:
        self._misses[event.workflow, event.kind].inc()

    def _fault_fired(self, event: FaultFired) -> None:
        self._faults[event.workflow, event.fault_type].inc()

    def _call_recorded(self, event: CallRecorded) -> None:
        self._captures[event.provider, event.model].inc()
        self._captured_s[event.provider, event.model].observe(event.latency_s)
        self._add_spent(event)

    def _add_spent(self, event: ReplayServed | CallRecorded | CallEnded) -> None:
        """Add tokens and cost. Of a call through a gateway, only CallEnded has them."""
        if event.prompt_tokens or event.completion_tokens or event.cost_usd or isinstance(event, CallEnded):
            self._tokens[event.provider, event.model, "prompt"].inc(event.prompt_tokens)
            self._tokens[event.provider, event.model, "completion"].inc(event.completion_tokens)
            self._cost_usd[event.provider, event.model].inc(event.cost_usd)

    def _cache_used(self, event: CacheUsed) -> None:
        self._lookups[event.outcome,].inc()
        if event.waited_s:
            self._lookup_wait_s[event.outcome,].inc(event.waited_s)
        if event.gone:
            self._gone[event.outcome,].inc(event.gone)

    def _attempt_started(self, event: AttemptStarted) -> None:
        """Show the provider's breaker, which is closed until it changes."""
        self._breakers[(event.provider,)]

    def _attempt_ended(self, event: AttemptEnded) -> None:
        self._attempts[event.provider, event.model, event.error or "ok"].inc()

    def _retry_scheduled(self, event: RetryScheduled) -> None:
        self._retries[(event.provider,)].inc()
        self._waited_s[(event.provider,)].inc(event.wait_s)

    def _fallback_taken(self, event: FallbackTaken) -> None:
        self._fallbacks[event.provider, event.to].inc()

    def _breaker_changed(self, event: BreakerChanged) -> None:
        self._breakers[(event.provider,)].set(BREAKER_STATES[event.state])

    def _step_ended(self, event: StepEnded) -> None:
        self._steps[event.workflow, event.type, event.status].inc()
        if event.status != "skipped":
            self._step_s[event.workflow, event.type].observe(event.latency_s)

    def _tool_called(self, event: ToolCalled) -> None:
        self._tools[event.tool, event.error or "ok"].inc()
        self._tool_s[event.tool,].observe(event.latency_s)

    def _workflow_ended(self, event: WorkflowEnded) -> None:
        self._runs[event.workflow, event.status].inc()

    def _call_ended(self, event: CallEnded) -> None:
        self._calls[event.workflow, event.error or "ok"].inc()
        self._call_s[(event.model,)].observe(event.latency_s)
        if event.error is None:
            self._add_spent(event)

    def _context_compacted(self, event: ContextCompacted) -> None:
        self._compactions[event.strategy, str(event.phase)].inc()


def _writable(label: str) -> str:
    """Return the label without secrets, as valid UTF-8: an invalid one would fail every later scrape."""
    return mask_shown(label.encode(errors="replace").decode())
