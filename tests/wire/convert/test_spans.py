"""Spans that the instrumentations of others have written, by the exporters of the OpenTelemetry SDK."""

import json
from io import StringIO

import openai
import pytest
from google.protobuf.json_format import Parse
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import (
    FunctionToolDefinition,
    InputMessage,
    OutputMessage,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
)

import offbook
from offbook import ToolCall, Usage
from offbook.faults import Timeout
from offbook.messages import Response
from offbook.recording.format.document import Document, exchanges_of
from offbook.recording.format.exchange import Exchange, RecordedError, ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.vendors import codec_of
from offbook.wire.convert.span_writer import write_spans
from tests.servers.models import CodecServer
from tests.wire.convert.importing import imported, write_json

pytestmark = pytest.mark.xdist_group("openai_sdk")

PARAMETERS = {"type": "object", "properties": {"id": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "find_order", "description": "Finds.", "parameters": PARAMETERS}}
ASKED = [{"role": "system", "content": "Be nice."}, {"role": "user", "content": "Where is 42?"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "find_order", "arguments": '{"id":42}'}}
ANSWERED = [*ASKED, {"role": "assistant", "tool_calls": [CALL]}]
ANSWERED += [{"role": "tool", "tool_call_id": "call_1", "content": "shipped"}]


def answer(request):
    if request.messages[-1]["role"] == "tool":
        return Response("It is shipped.", "gpt-4o", usage=Usage.of(20, 7))
    call = ToolCall("find_order", {"id": 42}, "call_1")
    return Response("", "gpt-4o", usage=Usage.of(10, 5), finish_reason="tool_calls", tool_calls=(call,))


def run_agent(base_url, http_client=None):
    """An agent of two calls, and a stream."""
    client = openai.OpenAI(api_key="sk-none", base_url=base_url, max_retries=0, http_client=http_client)
    client.chat.completions.create(model="gpt-4o", messages=ASKED, tools=[TOOL], temperature=0.5, max_tokens=100)
    client.chat.completions.create(model="gpt-4o", messages=ANSWERED, tools=[TOOL])
    for _ in client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True):
        pass
    client.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The recording of that agent over HTTP."""
    path = tmp_path_factory.mktemp("live") / "run.json"
    with CodecServer(codec_of("openai_chat"), answer) as server, offbook.sync_http_client(record=path) as client:
        run_agent(f"{server.url}/v1", client)
    return open_store(path).load()


def said(document):
    return {key: (each.content, each.usage, bool(each.tool_calls), each.cost_usd) for key, each in document}


@pytest.fixture
def printed():
    """Where spans are printed, and a provider of tracers that prints them."""
    output = StringIO()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=output)))
    yield output, provider
    provider.shutdown()


def test_openinference_traces_have_the_fingerprints_of_live_traffic(tmp_path, printed, live):
    output, provider = printed
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with CodecServer(codec_of("openai_chat"), answer) as server:
            run_agent(f"{server.url}/v1")
    finally:
        instrumentor.uninstrument()
    (tmp_path / "spans.json").write_text(output.getvalue())
    document, unmapped = imported(tmp_path / "spans.json")
    assert unmapped == []
    assert said(document) == said(live)


def describe(invocation, *, messages, answer, usage, **fields):
    invocation.input_messages, invocation.output_messages = messages, [answer]
    invocation.input_tokens, invocation.output_tokens = usage
    invocation.response_model_name = "gpt-4o"
    invocation.tool_definitions = [FunctionToolDefinition("find_order", "Finds.", PARAMETERS)]
    for name, value in fields.items():
        setattr(invocation, name, value)


def emit_genai(handler):
    asked = [InputMessage("system", [TextPart("Be nice.")]), InputMessage("user", [TextPart("Where is 42?")])]
    call = ToolCallRequestPart(arguments={"id": 42}, name="find_order", id="call_1")
    result = InputMessage("tool", [ToolCallResponsePart(response="shipped", id="call_1")])
    with handler.inference("openai", request_model="gpt-4o") as first:
        wants = OutputMessage("assistant", [call], "tool_call")
        describe(first, messages=asked, answer=wants, usage=(10, 5), temperature=0.5, max_tokens=100)
    with handler.inference("openai", request_model="gpt-4o") as second:
        messages = [*asked, InputMessage("assistant", [call]), result]
        shipped = OutputMessage("assistant", [TextPart("It is shipped.")], "stop")
        describe(second, messages=messages, answer=shipped, usage=(20, 7))


@pytest.mark.parametrize("content", ["SPAN_ONLY", "EVENT_ONLY"])
def test_genai_spans_have_the_fingerprints_of_live_traffic(tmp_path, printed, live, monkeypatch, content):
    """Messages are attributes of spans, or of log records that belong to them, in a file of their own."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT", "true" if content == "EVENT_ONLY" else "false")
    output, provider = printed
    logs, log_provider = StringIO(), LoggerProvider()
    log_provider.add_log_record_processor(SimpleLogRecordProcessor(ConsoleLogRecordExporter(out=logs)))
    emit_genai(TelemetryHandler(tracer_provider=provider, logger_provider=log_provider))
    log_provider.shutdown()
    (tmp_path / "spans.json").write_text(output.getvalue())
    (tmp_path / "logs.json").write_text(logs.getvalue() or output.getvalue())
    files = ["spans.json"] if content == "SPAN_ONLY" else ["logs.json", "spans.json"]
    document, unmapped = imported(*(tmp_path / name for name in files))
    assert unmapped == []
    streamed = next(key for key in live.keys if key not in said(document))
    assert said(document) == {key: value for key, value in said(live).items() if key != streamed}


def otlp(value):
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [otlp(each) for each in value]}}
    return {"kvlistValue": {"values": [{"key": name, "value": otlp(each)} for name, each in value.items()]}}


def exported(name="chat m", *, start=0, events=(), status=None, **attributes):
    """A span as OTLP has it in JSON."""
    span = {
        "traceId": "t",
        "spanId": f"s{start}",
        "name": name,
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + start),
        "endTimeUnixNano": str(1_790_000_000_250_000_000 + start),
        "attributes": [{"key": key.replace("__", "."), "value": otlp(value)} for key, value in attributes.items()],
        "events": [
            {"name": each, "attributes": [{"key": key, "value": otlp(value)} for key, value in fields.items()]}
            for each, fields in events
        ],
        "status": status or {},
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


CHAT = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", "gen_ai__system": "openai"}


def test_messages_that_are_events_of_their_own_are_read(tmp_path):
    events = [
        ("gen_ai.system.message", {"content": "Be nice."}),
        ("gen_ai.user.message", {"content": "Hi"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "Hello"}}),
    ]
    document, unmapped = imported(write_json(tmp_path / "s.jsonl", exported(events=events, **CHAT)))
    [(_, exchange)] = document
    assert exchange.content == "Hello"
    assert exchange.finish_reason == "stop"
    assert exchange.latency_ms == 250.0
    assert unmapped == []
    assert [each["content"] for each in exchange.request_fields()["messages"]] == ["Be nice.", "Hi"]


def test_tools_that_ran_are_recorded_and_spans_around_calls_are_not(tmp_path):
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "refund"}
    ran = exported(**tool, gen_ai__tool__call__arguments='{"id": 1}', gen_ai__tool__call__result='{"ok": true}')
    failed = exported(
        start=1, status={"code": 2, "message": "no such order"}, **tool, gen_ai__tool__call__arguments='{"id": 2}'
    )
    inference = {"openinference__span__kind": "TOOL", "tool__name": "refund"}
    other = exported(start=2, **inference, input__value='{"id": 3}', output__value="done")
    agent = exported(start=3, gen_ai__operation__name="invoke_agent")
    document, unmapped = imported(write_json(tmp_path / "s.jsonl", ran, failed, other, agent))
    first, second, third = document.tools["refund"]
    assert first.arguments == {"id": 1}
    assert first.result == {"ok": True}
    assert second.error.message == "no such order"
    assert third.result == "done"
    assert unmapped == []


def test_what_is_no_whole_call_is_listed(tmp_path):
    spans = [
        exported(**CHAT),
        exported(start=1, status={"code": 2, "message": "429"}, **CHAT),
        exported(start=2, gen_ai__operation__name="embeddings"),
        exported(start=3, gen_ai__input__messages='[{"role": "user", "parts": [{"type": "blob"}]}]', **CHAT),
        exported(start=4, openinference__span__kind="RETRIEVER"),
        exported(start=5, openinference__span__kind="LLM"),
        exported(start=6, gen_ai__operation__name="execute_tool", gen_ai__tool__name="refund"),
        {"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]},
        exported(start=10**30),
        {"trace_id": "t", "span_id": "gone", "attributes": {}, "body": None, "event_name": "gen_ai.choice"},
    ]
    document, unmapped = imported(write_json(tmp_path / "s.jsonl", *spans))
    assert document.size == 0
    assert [reason.partition(":")[0] for _, reason in unmapped] == [
        *["neither a span nor a log record"] * 2,
        "the file does not have the span",
        "the span has no messages",
        "the call failed",
        "the operation embeddings has no place in a recording",
        "its messages are not as the conventions have them",
        "a span of the kind RETRIEVER has no place in a recording",
        "the span has no messages",
        "the span has no arguments of the tool",
    ]
    assert json.dumps(unmapped).count("span 'chat m' (s") == 7


REFUNDS = [
    ToolExchange(arguments={"id": 42}, result={"state": "shipped"}, latency_ms=5.0),
    ToolExchange(arguments={"id": 0}, error=RecordedError("RuntimeError", "no such order")),
]


@pytest.mark.parametrize("kind", ["otel", "openinference"])
def test_a_recording_comes_back_from_its_spans(tmp_path, live, kind):
    document = Document(entries=dict(live.entries), tools={"find_order": REFUNDS})
    data, unmapped = write_spans(document, kind=kind)
    assert unmapped == []
    assert write_spans(document, kind=kind) == (data, [])
    Parse(data, ExportTraceServiceRequest())  # as collectors read it
    (tmp_path / "spans.json").write_bytes(data)
    again, missing = imported(tmp_path / "spans.json")
    assert missing == []
    assert said(again) == said(live)
    found = exchanges_of(again.tools, "find_order")
    assert [(each.arguments, each.answer, each.error) for each in found] == [
        (each.arguments, each.answer, each.error) for each in REFUNDS
    ]


def test_what_spans_cannot_express_is_listed(live):
    entries = {
        "by hand": Exchange(content="Hello!"),
        "broken": Exchange(request=next(iter(live))[1].request, fault=Timeout(after_ms=1.0)),
    }
    tools = {"refund": [ToolExchange(result="done")], "_mcp.github tools/list": [ToolExchange(arguments={}, result={})]}
    _, unmapped = write_spans(Document(entries=entries, tools=tools), kind="otel")
    assert {each.place: each.reason for each in unmapped} == {
        "by hand": "it does not say which request it answers",
        "broken": "a call that broke off (timeout)",
        "_tools.refund": "it does not say which arguments it answers",
        "_mcp.github tools/list": "not a call of a tool",
    }
