"""Events as OpenTelemetry spans."""

import asyncio
import gc
import time
import weakref
from contextlib import suppress

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from offbook.clock import run
from offbook.errors import AllProvidersFailedError, RecordingMismatchError
from offbook.events import (
    AttemptEnded,
    AttemptStarted,
    CallEnded,
    CallRecorded,
    CallStarted,
    FallbackTaken,
    FaultFired,
    ReplayServed,
    RetryScheduled,
    ToolCalled,
)
from offbook.faults.http import HttpError
from offbook.faults.plan import At, FaultPlan
from offbook.gateway.breaker import BreakerPolicy
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.observe import OtelSink
from offbook.session.injector import FaultInjector
from offbook.session.provider import MockProvider
from offbook.session.recording_provider import RecordingProvider
from offbook.tools import observe_tools
from offbook.workflow import WorkflowEngine, parse_workflow
from tests.observe.traffic import SLOW_S, Slow, abandon, drive, request


class Trace:
    """A tracer provider that keeps its spans in memory."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def points(self, metric):
        """The points of a metric."""
        (resource,) = self._reader.get_metrics_data().resource_metrics
        metrics = [each for scope in resource.scope_metrics for each in scope.metrics if each.name == metric]
        return [point for each in metrics for point in each.data.data_points]

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def of_step(self, step_id):
        """The spans of the calls of a step, in order of their end."""
        return [span for span in self.spans if span.attributes.get("offbook.step_id") == step_id]

    def under(self, parent):
        """The children of a span, in order of their end."""
        return [span for span in self.spans if span.parent and span.parent.span_id == parent.context.span_id]


@pytest.fixture
def trace():
    return Trace()


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """The trace of a run in which everything happens."""
    trace = Trace()
    run(drive(OtelSink(trace.provider), tmp_path_factory.mktemp("run")), virtual_time=True)
    return trace


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def test_a_call_is_a_chat_span_by_the_conventions(tour):
    (call,) = tour.of_step("steady")
    assert call.name == "chat gpt-5"
    assert call.kind == SpanKind.CLIENT
    assert call.parent is None
    assert call.status.status_code is StatusCode.UNSET
    assert dict(call.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "offbook.workflow": "tour",
        "offbook.step_id": "steady",
        "offbook.call": 1,
        "offbook.cost_usd": 0.25,
    }


def test_an_attempt_is_a_child_that_reports_what_the_replay_did(tour):
    (attempt,) = tour.under(*tour.of_step("steady"))
    assert attempt.name == "attempt openai"
    assert attempt.kind == SpanKind.CLIENT
    assert dict(attempt.attributes) == {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "offbook.attempt": 1,
        "mock.matched_by": "step_id",
        "mock.step_id": "steady",
    }


def test_a_retry_is_a_second_child_and_an_event_of_the_call(tour):
    (call,) = tour.of_step("flaky")
    failed, answered = tour.under(call)
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "ProviderError"
    assert failed.attributes["http.response.status_code"] == 503
    assert failed.attributes["mock.fault_type"] == "http_error"
    assert "mock.matched_by" not in failed.attributes
    assert answered.attributes["offbook.attempt"] == 2
    assert answered.attributes["mock.matched_by"] == "step_id"
    assert "error.type" not in answered.attributes
    (retry,) = call.events
    assert retry.name == "retry"
    assert retry.attributes["error.type"] == "ProviderError"
    assert retry.attributes["offbook.wait_s"] == pytest.approx(seconds(call), abs=1e-5)


def test_a_fault_of_a_recording_is_reported_by_the_attempt_at_which_it_fired(tour):
    fired, answered = tour.under(*tour.of_step("slow"))
    assert fired.attributes["mock.fault_type"] == "timeout"
    assert fired.attributes["error.type"] == "ProviderTimeoutError"
    assert "mock.fault_type" not in answered.attributes


def test_a_fallback_is_an_event_of_the_call_and_its_recording_is_reported_by_its_attempt(tour):
    (call,) = tour.of_step("lost")
    given_up, answering = tour.under(call)
    assert [event.name for event in call.events] == ["fallback"]
    assert dict(call.events[0].attributes) == {"gen_ai.provider.name": "openai", "offbook.to": "anthropic"}
    assert call.attributes["gen_ai.provider.name"] == "anthropic"
    assert given_up.name == "attempt openai"
    assert answering.name == "attempt anthropic"
    assert answering.attributes["recording.provider"] == "anthropic"
    assert answering.attributes["recording.model"] == "gpt-5"
    assert answering.attributes["recording.latency_s"] == SLOW_S
    assert "recording.latency_s" not in given_up.attributes


def test_a_call_that_failed_says_how(tour):
    call = tour.of_step("doomed")[-1]
    assert call.status.status_code is StatusCode.ERROR
    assert call.attributes["error.type"] == "AllProvidersFailedError"
    assert "gen_ai.usage.input_tokens" not in call.attributes
    assert [span.attributes["error.type"] for span in tour.under(call)] == ["ProviderError", "BreakerOpenError"]


def test_spans_last_as_long_as_the_clock_says(tour):
    (call,) = tour.of_step("lost")
    assert seconds(call) == seconds(tour.under(call)[-1]) == SLOW_S


def test_what_happens_without_a_gateway_makes_a_span_of_its_own(tour):
    (missed,) = [span for span in tour.spans if "mock.miss" in span.attributes]
    assert missed.name == "chat gpt-5"
    assert missed.parent is None
    assert missed.attributes["mock.miss"] == "missing"
    assert missed.attributes["gen_ai.operation.name"] == "chat"


@pytest.mark.parametrize(
    ("event", "attributes", "lasted_s"),
    [
        (ReplayServed("s", "m", "default", None, "h"), {"mock.matched_by": "default", "mock.step_id": "s"}, 0.0),
        (FaultFired(None, "m", "timeout"), {"mock.fault_type": "timeout"}, 0.0),
        (
            CallRecorded("s", "p", "m", 2.5, "timeout"),
            {
                "recording.provider": "p",
                "recording.model": "m",
                "recording.latency_s": 2.5,
                "recording.fault_type": "timeout",
            },
            2.5,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_span_of_its_own_has_what_the_event_reports(trace, event, attributes, lasted_s):
    OtelSink(trace.provider).emit(event)
    (span,) = trace.spans
    assert dict(span.attributes) == {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | attributes
    assert seconds(span) == lasted_s


def test_a_fault_that_fires_at_a_tool_makes_a_span_of_its_own_even_while_a_call_of_that_number_is_open(trace):
    sink = OtelSink(trace.provider)
    sink.emit(CallStarted(None, "m", call=2))
    sink.emit(AttemptStarted(None, "p", "m", call=2))
    sink.emit(FaultFired(None, "", "tool_lost", call=2, tool="refund"))
    (span,) = trace.spans
    assert span.name == "fault tool_lost"
    assert span.kind == SpanKind.INTERNAL
    assert span.parent is None
    assert dict(span.attributes) == {
        "gen_ai.tool.name": "refund",
        "mock.fault_type": "tool_lost",
        "offbook.call": 2,
    }


def test_a_call_stands_under_the_span_of_its_caller(trace):
    async def main():
        gateway = ProviderGateway(sink=OtelSink(trace.provider))
        gateway.register(Slow())
        with trace.provider.get_tracer("agent").start_as_current_span("agent"):
            await gateway.send(request("greet"))

    run(main(), virtual_time=True)
    (agent,) = [span for span in trace.spans if span.name == "agent"]
    (call,) = trace.under(agent)
    assert call.name == "chat gpt-5"
    assert [span.name for span in trace.under(call)] == ["attempt anthropic"]


def test_concurrent_calls_are_nested_each_under_its_own(trace, tmp_path):
    plan = FaultPlan(
        [At(step_id="shared", call=call, attempt=1).fail(HttpError(status_code=503)) for call in range(2, 26, 2)]
    )

    async def main():
        sink = OtelSink(trace.provider)
        gateway = ProviderGateway(sink=sink, breaker=BreakerPolicy(failures=50))
        recorder = RecordingProvider(Slow(), tmp_path / "slow.json", sink=sink)
        gateway.register(FaultInjector(recorder, plan, sink=sink))
        async with gateway:
            steps = [f"step-{number}" for number in range(25)] + ["shared"] * 25
            await asyncio.gather(*(gateway.send(request(step_id)) for step_id in steps))

    run(main(), virtual_time=True)
    calls = [span for span in trace.spans if span.parent is None]
    assert len(calls) == 50
    assert sorted(call.attributes["offbook.call"] for call in trace.of_step("shared")) == list(range(1, 26))
    for call in calls:
        attempts = trace.under(call)
        has_fault = call.attributes["offbook.step_id"] == "shared" and call.attributes["offbook.call"] % 2 == 0
        assert [span.attributes["offbook.attempt"] for span in attempts] == ([1, 2] if has_fault else [1])
        assert [event.name for event in call.events] == (["retry"] if has_fault else [])
        assert attempts[-1].attributes["recording.latency_s"] == SLOW_S
        for attempt in attempts:
            assert attempt.context.trace_id == call.context.trace_id
            assert call.start_time <= attempt.start_time <= attempt.end_time <= call.end_time
    assert len(trace.spans) == 50 + 50 + 12


def test_gateways_at_work_at_the_same_time_keep_their_calls_apart(trace):
    async def main():
        sink = OtelSink(trace.provider)

        async def ask(provider):
            gateway = ProviderGateway(sink=sink)
            gateway.register(provider)
            return await gateway.complete([{"role": "user", "content": "Hi"}], provider.name, step_id="greet")

        await asyncio.gather(ask(Slow()), ask(MockProvider(latency_ms=500.0)), ask(MockProvider(latency_ms=1000.0)))

    run(main(), virtual_time=True)
    calls = [span for span in trace.spans if span.name.startswith("chat")]
    assert [(call.name, call.parent, seconds(call)) for call in calls] == [
        ("chat mock", None, 0.5),
        ("chat anthropic", None, SLOW_S),
        ("chat mock", None, 1.0),
    ]
    for call in calls:
        (attempt,) = trace.under(call)
        assert attempt.name == f"attempt {call.attributes['gen_ai.provider.name']}"
        assert seconds(attempt) == seconds(call)


def test_a_stream_may_be_read_by_another_task_than_began_it(trace):
    async def main():
        gateway = ProviderGateway(sink=OtelSink(trace.provider))
        gateway.register(Slow())
        reply = await asyncio.create_task(gateway.send(request("greet", stream=True)))
        await reply.collect()

    run(main(), virtual_time=True)
    attempt, call = trace.spans
    assert attempt.parent.span_id == call.context.span_id
    assert call.attributes["gen_ai.usage.input_tokens"] == 7


def test_events_can_be_emitted_where_no_loop_runs(trace):
    sink = OtelSink(trace.provider)
    sink.emit(CallStarted("greet", "m", call=1))
    sink.emit(AttemptStarted("greet", "p", "m", call=1))
    sink.emit(AttemptEnded("greet", "p", "m", 0.0, call=1))
    sink.emit(CallEnded("greet", "p", "m", 0.0, call=1))
    attempt, call = trace.spans
    assert attempt.parent.span_id == call.context.span_id


def test_a_gateway_behind_a_gateway_is_nested_under_the_attempt_that_asked_it(trace):
    async def main():
        sink = OtelSink(trace.provider)
        inner, outer = ProviderGateway(sink=sink), ProviderGateway(sink=sink)
        inner.register(Slow())
        outer.register(inner)
        await outer.send(request("greet"))

    run(main(), virtual_time=True)
    (whole,) = [span for span in trace.spans if span.parent is None]
    names = [whole.name]
    while children := trace.under(whole):
        (whole,) = children
        names.append(whole.name)
    assert names == ["chat gpt-5", "attempt gateway", "chat gpt-5", "attempt anthropic"]


def test_a_stream_that_is_abandoned_ends_its_spans(trace):
    async def main():
        gateway = ProviderGateway(sink=OtelSink(trace.provider))
        gateway.register(Slow())
        await abandon(gateway, request("greet", stream=True))

    run(main(), virtual_time=True)
    attempt, call = trace.spans
    assert call.attributes["error.type"] == attempt.attributes["error.type"] == "GeneratorExit"
    assert attempt.parent.span_id == call.context.span_id


def test_what_arrives_after_its_call_has_ended_makes_a_span_of_its_own(trace):
    sink = OtelSink(trace.provider)
    sink.emit(CallEnded("greet", "p", "m", 1.0, call=1))
    sink.emit(CallRecorded("greet", "p", "m", 0.5, call=1))
    (late,) = trace.spans
    assert late.attributes["recording.latency_s"] == 0.5


@pytest.mark.parametrize(
    "event",
    [
        AttemptEnded("s", "p", "m", 1.0, call=1),
        RetryScheduled("s", "p", 1.0, "E", call=1),
        FallbackTaken("s", "p", "q"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_the_rest_of_a_call_whose_start_was_not_seen_is_left_out(trace, event):
    OtelSink(trace.provider).emit(event)
    assert trace.spans == ()


def test_a_span_is_not_kept_after_its_end(trace, tmp_path):
    class Register(SpanProcessor):
        def __init__(self):
            self.spans_started = []

        def on_start(self, span, parent_context=None):
            self.spans_started.append(weakref.ref(span))

    register = Register()
    trace.provider.add_span_processor(register)
    sink = OtelSink(trace.provider)
    run(drive(sink, tmp_path), virtual_time=True)
    gc.collect()
    assert len(register.spans_started) == len(trace.spans) > 20
    assert [span() for span in register.spans_started if span() is not None] == []


def test_googles_provider_goes_by_its_conventional_name(trace):
    class Google(MockProvider):
        name = "google"

    async def main():
        gateway = ProviderGateway(sink=OtelSink(trace.provider))
        gateway.register(Google())
        await gateway.send(request("greet"))

    run(main(), virtual_time=True)
    assert {span.attributes["gen_ai.provider.name"] for span in trace.spans} == {"gcp.gemini"}


DURATION, TOKENS = "gen_ai.client.operation.duration", "gen_ai.client.token.usage"


def test_the_duration_and_tokens_of_calls_are_the_metrics_of_the_conventions(trace):
    sink = OtelSink(trace.provider, meter_provider=trace.meters)
    sink.emit(CallEnded("greet", "google", "gemini-3", 1.5, prompt_tokens=100, completion_tokens=20))
    sink.emit(CallEnded("greet", "google", "gemini-3", 0.5, error="RateLimitError"))
    common = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-3"}
    durations = {tuple(sorted(point.attributes.items())): point.sum for point in trace.points(DURATION)}
    assert durations == {
        tuple(sorted(common.items())): 1.5,
        tuple(sorted((common | {"error.type": "RateLimitError"}).items())): 0.5,
    }
    assert {point.attributes["gen_ai.token.type"]: point.sum for point in trace.points(TOKENS)} == {
        "input": 100,
        "output": 20,
    }
    assert trace.points(TOKENS)[0].explicit_bounds[:4] == (1, 4, 16, 64)


def test_the_call_of_a_tool_is_a_span_and_a_duration(trace):
    sink = OtelSink(trace.provider, meter_provider=trace.meters, conversation_id="run-7")
    sink.emit(ToolCalled("refund", 2.0, "ValueError", 3))
    (span,) = trace.spans
    assert span.name == "execute_tool refund"
    assert span.kind == SpanKind.INTERNAL
    assert seconds(span) == 2.0
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "run-7",
        "error.type": "ValueError",
        "offbook.call": 3,
    }
    (point,) = trace.points(DURATION)
    assert point.sum == 2.0
    assert point.attributes["gen_ai.tool.name"] == "refund"


FLOW = """
name: desk
config: {provider: mock, model: m}
state: {names: [Ada, Bo]}
steps:
  - {id: find, type: tool, tool: find_order, args: {order: 42}, output: order}
  - {id: greet, type: llm_call, prompt: Hi, output: said}
  - id: each
    type: loop
    over: state.names
    as: name
    collect: text
    output: texts
    steps: [{id: write, type: llm_call, prompt: "To {name}", output: text}]
"""


def run_flow(trace, responses, *, strict):
    """Run a workflow with a sink, to its end or to a miss."""

    def find_order(order: int) -> str:
        return "lost"

    sink = OtelSink(trace.provider, run_id="r1")
    tools = observe_tools([find_order], sink)
    mock = MockProvider(responses=responses, strict=strict, sink=sink)
    engine = WorkflowEngine(parse_workflow(FLOW, tools=tools), mock, tools=tools, sink=sink)
    with suppress(RecordingMismatchError):
        run(engine.run(), virtual_time=True)
    sink.close()


def test_a_run_of_a_workflow_is_one_trace_with_its_steps_calls_and_tools(trace):
    run_flow(trace, {"greet": {"content": "Hello!"}}, strict=False)
    (flow,) = [span for span in trace.spans if span.parent is None]
    assert (flow.name, flow.attributes["offbook.status"]) == ("workflow desk", "succeeded")
    steps = {span.name: span for span in trace.under(flow)}
    assert set(steps) == {"step find", "step greet", "step each"}
    assert [span.name for span in trace.under(steps["step find"])] == ["execute_tool find_order"]
    assert [span.name for span in trace.under(steps["step greet"])] == ["chat m"]
    inner = trace.under(steps["step each"])
    assert [span.name for span in inner] == ["step each[0].write", "step each[1].write"]
    assert all([each.name for each in trace.under(span)] == ["chat m"] for span in inner)
    assert {span.attributes["offbook.run_id"] for span in trace.spans} == {"r1"}


def test_a_miss_ends_the_spans_of_its_step_and_of_its_workflow(trace):
    run_flow(trace, {"other": {"content": "Hello!"}}, strict=True)
    ended = {span.name: span.status.status_code for span in trace.spans}
    assert ended["step greet"] is ended["workflow desk"] is StatusCode.ERROR


def test_a_run_may_have_one_span_around_everything(trace):
    sink = OtelSink(trace.provider, run="exec agent.py")
    sink.emit(ToolCalled("refund", 0.1))
    sink.close()
    sink.close()
    tool, around = trace.spans
    assert around.name == "exec agent.py"
    assert tool.parent.span_id == around.context.span_id


def test_a_run_in_virtual_time_starts_now_and_lasts_as_long_as_it_would(trace):
    before_s = time.time()
    run(drive_one(OtelSink(trace.provider), {"fault": {"type": "timeout", "after_ms": 60_000}}), virtual_time=True)
    span = trace.spans[-1]
    assert before_s - 1 < span.start_time / 1e9 < time.time() + 1
    assert seconds(span) == pytest.approx(60)


async def drive_one(sink, entry):
    gateway = ProviderGateway(sink=sink, retry=RetryPolicy(max_retries=0))
    gateway.register(MockProvider(responses={"ask": entry}, sink=sink))
    with suppress(AllProvidersFailedError):
        await gateway.send(request("ask"))


def test_a_call_over_http_has_what_it_used_although_no_gateway_counts(trace):
    sink = OtelSink(trace.provider, meter_provider=trace.meters)
    sink.emit(CallRecorded(None, "openai", "m", 0.5, prompt_tokens=3, completion_tokens=2, cost_usd=0.5))
    sink.emit(ReplayServed(None, "m", "prompt_hash", "k", "h", provider="openai", prompt_tokens=3))
    recorded, replayed = trace.spans
    assert (recorded.attributes["gen_ai.usage.output_tokens"], recorded.attributes["offbook.cost_usd"]) == (2, 0.5)
    assert replayed.attributes["gen_ai.usage.input_tokens"] == 3
    assert sum(point.sum for point in trace.points("gen_ai.client.token.usage")) == 8
