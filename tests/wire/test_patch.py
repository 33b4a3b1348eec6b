"""What a fault does not change in an answer stays as it was recorded."""

import json
import re

import orjson
import pytest
from msgspec.structs import replace

from offbook.codecs.event_stream import read_frame
from offbook.faults import parse_fault
from offbook.messages import ReasoningDelta, Response, TextDelta, ToolCall, ToolCallDelta, Usage
from offbook.vendors import CODECS
from offbook.wire.faults import FaultTarget, apply_fault
from offbook.wire.patch import patch_response
from offbook.wire.request import HttpRequest, parse_request
from offbook.wire.response import HttpResponse, whole_response
from tests.wire.http_requests import EVERY_PROTOCOL, PROTOCOLS, parsed_of, read, text_in

CALLS = (ToolCall("find", {"order_id": 7}, "c0"), ToolCall("refund", {"order_id": 42, "note": "a b"}, "c1"))
ASKS = Response("On it now.", "m", usage=Usage.of(9, 5), finish_reason="tool_calls", tool_calls=CALLS, reasoning="Hm.")
SAYS = Response("All is well now.", "m", usage=Usage.of(9, 5), finish_reason="stop")
SPACED = [json.dumps(call.args) for call in CALLS]
TEXT_ARGUMENTS = ("openai_chat", "openai_responses")

every_protocol = pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
every_chat_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
both_ways = pytest.mark.parametrize("stream", [False, True])


def pieces(text, size):
    return [text[start : start + size] for start in range(0, len(text), size)]


def deltas_of(response):
    """The response in small pieces, with arguments as models write them: with spaces."""
    if response.reasoning:
        yield ReasoningDelta(response.reasoning)
    yield from (TextDelta(piece) for piece in pieces(response.content, 3))
    for index, call in enumerate(response.tool_calls):
        yield ToolCallDelta(index, "", call.id, call.tool)
        yield from (ToolCallDelta(index, piece) for piece in pieces(SPACED[index], 4))


def recorded(protocol, response, *, stream):
    """An answer as a vendor sends it: arguments with spaces, and fields that nobody else knows."""
    codec = CODECS[protocol]
    if stream:
        frames = [spaced(frame) for frame in codec.encode_stream(response, deltas_of(response), id="rec")]
        headers = {"content-type": codec.stream_type}
        return HttpResponse(200, headers, tuple((5.0, frame) for frame in frames), is_streamed=True, end_ms=5.0)
    body = codec.encode_response(response, id="rec") | {"service_tier": "gold"}
    return whole_response(200, spaced(orjson.dumps(body)))


def spaced(data):
    """Write whole arguments that are text as models do, and a time that is nobody else's."""
    if (message := read_frame(data)) is not None:
        return replace(message, data=spaced(message.data)).encode()
    for call, text in zip(CALLS, SPACED, strict=True):
        data = data.replace(orjson.dumps(call.arguments)[1:-1], orjson.dumps(text)[1:-1])
    return data.replace(b"1970-01-01T00:00:00Z", b"rec").replace(b'"metrics":{', b'"metrics":{"rec":1,')


def answer_with(line, protocol, response, *, stream, mark=""):
    """The recorded answer, and the same with a fault."""
    clean = recorded(protocol, response, stream=stream)
    target = FaultTarget(parsed_of(protocol, stream=stream), lambda: clean, lambda: response, mark)
    return clean, apply_fault(parse_fault(f"everywhere: {line}").fault, target)


def is_recorded(answer):
    """Whether it is the recorded answer, patched or not: an encoded one has other ids."""
    return b"rec" in text_in(answer.content)


@every_protocol
@both_ways
def test_only_the_finish_reason_and_the_usage_change_where_the_content_is_whole(protocol, stream):
    clean, answer = answer_with("partial_response", protocol, ASKS, stream=stream)
    seen = read(answer, protocol)
    assert seen.finish_reason == "length"
    assert seen.usage.completion_tokens == 0
    assert replace(seen, finish_reason="", usage=Usage()) == replace(
        read(clean, protocol), finish_reason="", usage=Usage()
    )
    assert is_recorded(answer)
    if protocol in TEXT_ARGUMENTS and not stream:
        assert orjson.dumps(SPACED[1]) in answer.content
        assert b"gold" in answer.content


@every_protocol
def test_the_frames_before_a_change_keep_their_very_bytes_and_all_keep_their_times(protocol):
    clean, answer = answer_with("partial_response half", protocol, SAYS, stream=True)
    first = next(place for place, frame in enumerate(answer.frames) if frame != clean.frames[place])
    assert b" is" in text_in(clean.frames[first - 1][1])
    assert [at_ms for at_ms, _ in answer.frames] == [5.0] * len(clean.frames)
    assert answer.end_ms == 5.0


@every_protocol
@both_ways
def test_text_breaks_off_in_its_middle_and_carries_the_mark(protocol, stream):
    _, answer = answer_with("partial_response half", protocol, SAYS, stream=stream)
    assert read(answer, protocol).content == "All is w"
    assert read(answer, protocol).finish_reason == "length"
    _, marked = answer_with("partial_response half", protocol, SAYS, stream=stream, mark="fault-0")
    assert read(marked, protocol).content == "All is w fault-0"
    assert b"well" not in text_in(marked.content)
    assert is_recorded(marked)


@every_chat_protocol
@both_ways
def test_of_text_and_tool_calls_only_the_last_arguments_break_off(protocol, stream):
    _, answer = answer_with("partial_response half", protocol, ASKS, stream=stream)
    seen = read(answer, protocol)
    assert seen.content == "On it now."
    assert seen.reasoning == "Hm."
    assert seen.finish_reason == "length"
    assert [(call.tool, call.args) for call in seen.tool_calls[:1]] == [("find", {"order_id": 7})]
    last = seen.tool_calls[1]
    cut = last.raw_arguments or last.args["raw_arguments"]
    assert last.tool == "refund"
    assert last.args.get("order_id") is None
    assert SPACED[1].startswith(cut) or CALLS[1].arguments.startswith(cut)
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut)


@pytest.mark.parametrize("protocol", [*TEXT_ARGUMENTS, "anthropic", "bedrock", "bedrock_anthropic"])
def test_arguments_in_a_stream_break_off_as_they_were_written(protocol):
    _, answer = answer_with("partial_response half", protocol, ASKS, stream=True)
    assert read(answer, protocol).tool_calls[1].raw_arguments == '{"order_id": 42, "note": "'
    assert is_recorded(answer)


@every_chat_protocol
@both_ways
@pytest.mark.parametrize(
    ("line", "args"),
    [
        ("wrong_values", {"order_id": 43, "note": "a b-fault-0"}),
        ("wrong_types", {"order_id": "not what it was: 42 fault-0", "note": {"value": "a b fault-0"}}),
    ],
)
def test_other_arguments_take_the_place_of_the_recorded_ones(protocol, stream, line, args):
    _, answer = answer_with(line, protocol, ASKS, stream=stream, mark="fault-0")
    seen = read(answer, protocol)
    assert seen.content == "On it now."
    assert seen.reasoning == "Hm."
    assert seen.tool_calls[1].args == args
    assert is_recorded(answer)


@every_chat_protocol
@both_ways
def test_what_cannot_be_patched_is_encoded_anew(protocol, stream):
    _, answer = answer_with("doubled_tool_calls", protocol, ASKS, stream=stream)
    assert [call.tool for call in read(answer, protocol).tool_calls] == ["find", "find", "refund", "refund"]
    assert not is_recorded(answer)


@every_protocol
@both_ways
def test_a_slow_answer_is_the_recorded_one_later(protocol, stream):
    clean, answer = answer_with("slow 300", protocol, ASKS, stream=stream)
    assert answer.content == clean.content
    assert {at_ms for at_ms, _ in answer.frames} == {305.0 if stream else 300.0}
    assert answer.end_ms == clean.end_ms + 300.0


def test_a_call_of_plain_http_can_be_late_too():
    call = parse_request(HttpRequest("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "x"}'))
    clean = whole_response(200, b"{}")
    slow = apply_fault(parse_fault("call=1: slow 300").fault, FaultTarget(call, lambda: clean, Response))
    assert slow.content == b"{}"
    assert slow.end_ms == 300.0


def test_an_array_and_a_change_of_what_a_patch_leaves_alone_are_not_patched():
    codec = CODECS["gemini"]
    clean = recorded("gemini", SAYS, stream=True)
    array = replace(clean, headers={"content-type": "application/json"})
    assert patch_response(array, SAYS, replace(SAYS, content="Other"), codec) is None
    assert patch_response(clean, SAYS, replace(SAYS, reasoning="Hm."), codec) is None
    assert patch_response(clean, SAYS, SAYS, codec) is clean


def test_bytes_that_say_something_else_than_the_response_are_not_patched():
    codec = CODECS["openai_chat"]
    other = recorded("openai_chat", replace(SAYS, content="Nothing of that"), stream=False)
    assert patch_response(other, SAYS, replace(SAYS, content="All"), codec) is None
    assert patch_response(replace(other, frames=((0.0, b"<html>"),)), SAYS, ASKS, codec) is None


@every_chat_protocol
@both_ways
@pytest.mark.parametrize(
    "line",
    [
        "http_error 500",
        'http_error 500 body="busy"',
        'http_error 500 body="{\\"error\\":{\\"message\\":\\"busy\\"}}"',
        "context_overflow",
        'malformed_response "<html>"',
        "wrong_shape",
        "refusal",
        "invalid_tool_args",
        "unknown_tool",
    ],
)
def test_injected_texts_carry_the_mark_and_keep_their_kind(protocol, stream, line):
    plain, marked = (answer_with(line, protocol, SAYS, stream=stream, mark=mark)[1] for mark in ("", "fault-qgtdbc"))
    assert b"fault-" not in text_in(plain.content)
    assert b"fault-qgtdbc" in text_in(marked.content)
    assert marked.status == plain.status
    assert marked.headers == plain.headers
    assert is_json(marked.content) == is_json(plain.content)
    if line == "context_overflow":
        assert re.search(rb"maximum context length", marked.content)


def is_json(content):
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return True


def test_an_error_inside_a_stream_carries_the_mark():
    _, answer = answer_with("stream_truncate 1 raise=error_event", "openai_chat", SAYS, stream=True, mark="fault-0")
    assert b"an injected error fault-0" in answer.content


@every_chat_protocol
@both_ways
@pytest.mark.parametrize("line", ["invalid_tool_args 2", "unknown_tool 2", "wrong_types 2"])
def test_of_parallel_tool_calls_the_one_with_the_number_is_struck_alone(protocol, stream, line):
    clean, answer = answer_with(line, protocol, ASKS, stream=stream, mark="fault-0")
    first, second = read(answer, protocol).tool_calls
    whole = read(clean, protocol).tool_calls
    assert (first.tool, first.args) == (whole[0].tool, whole[0].args)
    assert (second.tool, second.args) != (whole[1].tool, whole[1].args)
    assert b"fault-0" in text_in(answer.content)
