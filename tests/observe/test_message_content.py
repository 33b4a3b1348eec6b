"""Messages on spans: only if asked for, in the form of the conventions, and without secrets."""

import io
import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from offbook import MockProvider, ProviderError, ProviderGateway, RecordingProvider, Response, ToolCall, run
from offbook.events import Sinks
from offbook.messages import Request, WholeReply
from offbook.observe import JsonLinesSink, OtelSink
from offbook.observe.otel import CAPTURE_VARIABLE
from offbook.providers.provider import Provider

SECRET = "sk-proj-" + "a1B2" * 12
CALLED = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 42}'}}
ASKED = [
    {"role": "system", "content": "Be kind."},
    {
        "role": "user",
        "content": [{"type": "text", "text": f"My key is {SECRET}"}, {"type": "image_url", "image_url": {}}],
    },
    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "c1", "content": "lost"},
]
INPUT = [
    {
        "role": "user",
        "parts": [{"type": "text", "content": "My key is <redacted:openai-key:958cea51>"}, {"type": "image_url"}],
    },
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"order": 42}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "lost"}]},
]
OUTPUT = [
    {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "Sorry."},
            {"type": "reasoning", "content": "It is lost."},
            {"type": "tool_call", "id": "c2", "name": "refund", "arguments": {"order": 42}},
        ],
        "finish_reason": "tool_calls",
    }
]


class Live(Provider):
    name = "openai"

    async def send(self, request):
        calls = (ToolCall("refund", {"order": 42}, id="c2"),)
        return WholeReply(
            Response(
                "Sorry.",
                request.model,
                self.name,
                finish_reason="tool_calls",
                tool_calls=calls,
                reasoning="It is lost.",
            )
        )


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracers(exporter):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def gateway_to(provider, sink):
    gateway = ProviderGateway(sink=sink)
    gateway.register(provider)
    return gateway


def ask(provider):
    run(provider.send(Request(tuple(ASKED), "gpt-5", step_id="agent")), virtual_time=True)


def content(span):
    names = ("system_instructions", "input.messages", "output.messages")
    found = {name: span.attributes.get(f"gen_ai.{name}") for name in names}
    return {name: json.loads(value) for name, value in found.items() if value is not None}


WHOLE = {
    "system_instructions": [{"type": "text", "content": "Be kind."}],
    "input.messages": INPUT,
    "output.messages": OUTPUT,
}


@pytest.mark.parametrize("value", ["", "NO_CONTENT", "EVENT_ONLY", "false"])
def test_spans_have_no_messages_unless_asked(tracers, exporter, monkeypatch, value):
    monkeypatch.setenv(CAPTURE_VARIABLE, value)
    ask(gateway_to(Live(), sink=OtelSink(tracers)))
    assert [content(span) for span in exporter.get_finished_spans()] == [{}, {}]


@pytest.mark.parametrize("value", ["SPAN_ONLY", "span_and_event", "true"])
def test_the_span_of_a_call_has_its_messages_without_secrets_if_asked_and_that_of_an_attempt_has_none(
    tracers, exporter, monkeypatch, value
):
    monkeypatch.setenv(CAPTURE_VARIABLE, value)
    ask(gateway_to(Live(), sink=OtelSink(tracers)))
    attempt, call = exporter.get_finished_spans()
    assert content(attempt) == {}
    assert content(call) == WHOLE


def test_what_is_recorded_and_replayed_without_a_gateway_has_its_messages_on_its_own_span(tracers, exporter, tmp_path):
    sink, path = OtelSink(tracers, capture_content=True), tmp_path / "run.json"
    ask(RecordingProvider(Live(), path, sink=sink))
    ask(MockProvider(path, sink=sink))
    recorded, replayed = exporter.get_finished_spans()
    assert content(recorded) == WHOLE
    assert content(replayed) == WHOLE


def test_a_replay_behind_a_gateway_does_not_repeat_the_messages(tracers, exporter):
    replay = MockProvider(
        responses={"agent": {"content": "Hi."}}, sink=(sink := OtelSink(tracers, capture_content=True))
    )
    ask(gateway_to(replay, sink=sink))
    attempt, call = exporter.get_finished_spans()
    assert content(attempt) == {}
    assert content(call)["output.messages"][0]["parts"] == [{"type": "text", "content": "Hi."}]


def test_a_call_that_failed_has_no_output(tracers, exporter):
    failing = MockProvider(responses={"agent": {"fault": {"type": "http_error", "status_code": 400}}})
    with pytest.raises(ProviderError):
        ask(gateway_to(failing, sink=OtelSink(tracers, capture_content=True)))
    assert list(content(exporter.get_finished_spans()[-1])) == ["system_instructions", "input.messages"]


def test_no_other_sink_gets_messages(tracers):
    lines = io.StringIO()
    ask(gateway_to(Live(), sink=Sinks(JsonLinesSink(lines), OtelSink(tracers, capture_content=True))))
    assert "CallEnded" in lines.getvalue()
    assert "Sorry." not in lines.getvalue()
