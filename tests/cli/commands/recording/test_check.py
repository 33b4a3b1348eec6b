"""Whether the bytes of an answer say the same as its fields, and whether requests are legal."""

import json

import orjson
import pytest
from hypothesis import given, settings
from msgspec import Raw

from offbook.cli.commands.recording.check import disagreement, illegal_request
from offbook.faults import ConnectionReset
from offbook.messages import Response, ToolCall, deltas_of
from offbook.recording.format.exchange import Exchange, RecordedToolCall, recorded_calls
from offbook.recording.format.wire_record import WireRecord, wire_text
from offbook.vendors import CODECS
from tests.codecs.strategies import responses
from tests.wire.http_requests import PROTOCOLS

every_codec = pytest.mark.parametrize("codec", [CODECS[name] for name in PROTOCOLS], ids=PROTOCOLS)
CALL = ToolCall("get", {"city": "Oslo"}, "call_0")


def whole(codec, response):
    return WireRecord(protocol=codec.name, body=orjson.dumps(codec.encode_response(response)).decode())


def streamed(codec, response):
    frames = codec.encode_stream(response, deltas_of(response))
    return WireRecord(protocol=codec.name, frames=[(0.0, wire_text(frame)) for frame in frames])


def exchange(response, wire):
    calls = recorded_calls(response.tool_calls)
    return Exchange(content=response.content, tool_calls=calls, finish_reason=response.finish_reason, wire=wire)


@every_codec
@settings(max_examples=15)
@given(response=responses())
def test_what_a_codec_wrote_agrees(codec, response):
    for wire in (whole(codec, response), streamed(codec, response)):
        assert disagreement(exchange(response, wire)) == ""


@every_codec
@pytest.mark.parametrize("write", [whole, streamed])
def test_an_edited_answer_disagrees(codec, write):
    said = write(codec, Response("Hello", model="m"))
    wire = write(codec, Response(model="m", tool_calls=(CALL,), finish_reason="tool_calls"))
    problem = "the bytes differ from the fields: "
    hint = '; remove "wire" from the entry to serve the fields'
    assert disagreement(Exchange(content="Hullo", wire=said)) == problem + "content" + hint
    oslo, rome = ([RecordedToolCall(name="get", arguments={"city": city})] for city in ("Oslo", "Rome"))
    assert disagreement(Exchange(tool_calls=oslo, wire=wire)) == ""
    assert disagreement(Exchange(tool_calls=rome, wire=wire)) == problem + "tool_calls" + hint
    assert disagreement(Exchange(content="Hi", wire=wire)) == problem + "content, tool_calls" + hint


def test_a_stream_may_be_written_as_a_body_and_as_a_list():
    codec = CODECS["gemini"]
    frames = list(codec.encode_stream(Response("Hello"), deltas_of(Response("Hello"))))
    body = WireRecord(protocol="gemini", headers={"content-type": "text/event-stream"}, body=b"".join(frames).decode())
    items = ",\n".join(frame.decode().removeprefix("data: ").strip() for frame in frames)
    listed = WireRecord(protocol="gemini", frames=[(0.0, f"[{items}"), (1.0, "]")])
    for wire in (body, listed):
        assert disagreement(Exchange(content="Hello", wire=wire)) == ""
        assert disagreement(Exchange(content="Hullo", wire=wire))


def test_arguments_that_are_no_json_agree_too():
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "get", "arguments": "{oops"}}
    body = {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    wire = WireRecord(protocol="openai_chat", body=json.dumps(body))
    assert disagreement(Exchange(tool_calls=[RecordedToolCall(name="get", arguments="{oops")], wire=wire)) == ""


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        (WireRecord(protocol="openai_chat", body="\x1b[2J"), "the bytes are not a response of openai_chat: "),
        (
            WireRecord(protocol="openai_chat", frames=[]),
            "the bytes are not a response of openai_chat: the stream",
        ),
        (
            WireRecord(protocol="openai_chat", status=500, body="{}"),
            "the status is 500, but the fields",
        ),
        (WireRecord(protocol="openai_cht"), "the protocol 'openai_cht' is unknown; did you mean 'openai_chat'?"),
        (WireRecord(protocol="\x1b[2J"), r"the protocol '\x1b[2J' is unknown; protocols: "),
    ],
)
def test_bytes_that_are_no_answer_are_reported(wire, problem):
    message = disagreement(Exchange(content="Hello", wire=wire))
    assert message.startswith(problem)
    assert message.isprintable()


@pytest.mark.parametrize(
    "untestable",
    [
        Exchange(content="Hello"),
        Exchange(wire=WireRecord(protocol="http", body="x")),
        Exchange(fault=ConnectionReset(), wire=WireRecord(protocol="openai_chat", body="x")),
    ],
)
def test_what_has_nothing_to_compare_agrees(untestable):
    assert disagreement(untestable) == ""


CALL_7 = {"id": "call_7", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
DANGLING = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL_7]},
        {"role": "user", "content": "Go on"},
    ],
}


def written(request, **fields):
    return Exchange(content="x", request=Raw(orjson.dumps(request)), **fields)


@pytest.mark.parametrize(
    ("provider", "who"), [("", "no vendor accepts"), ("openai", "openai refuses"), ("anthropic", "anthropic refuses")]
)
def test_a_request_by_hand_that_no_vendor_accepts_is_named(provider, who):
    place, problem = illegal_request(written(DANGLING, provider=provider))
    assert place == "messages.1"
    assert problem == f"{who} this request: tool call 'call_7' has no result"


def test_a_request_that_one_vendor_accepts_is_legal():
    only_here = {"model": "m", "messages": [{"role": "user", "content": ""}]}
    assert illegal_request(written(only_here)) == ("", "")
    assert illegal_request(written(only_here, provider="anthropic"))[0] == "messages.0"


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro"])
def test_a_request_to_a_known_model_is_judged_by_those_who_have_it(model):
    assert "has no result" in illegal_request(written(DANGLING | {"model": model}))[1]


@pytest.mark.parametrize("provider", ["openai", ""])
def test_a_request_to_a_model_without_rules_is_not_judged(provider):
    assert illegal_request(written(DANGLING | {"model": "llama3.2"}, provider=provider)) == ("", "")


def test_what_a_real_api_has_answered_is_legal():
    assert illegal_request(written(DANGLING, wire=whole(CODECS["openai_chat"], Response("x")))) == ("", "")


def test_check_names_an_illegal_request_and_fails(run, write):
    write("run.json", orjson.dumps({"_version": 2, "go": {"content": "x", "request": DANGLING}}).decode())
    code, out, _ = run("recording", "check", "run.json")
    assert code == 1
    assert "run.json: go: request.messages.1: no vendor accepts this request: tool call 'call_7' has no result" in out
