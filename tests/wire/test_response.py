"""HTTP responses as values, and what they are encoded from."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.vendors import CODECS
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse, error_response, http_bytes, split_events, whole_response
from tests.wire.http_requests import (
    EVERY_PROTOCOL,
    PROTOCOLS,
    answer_to,
    call_of,
    entry_of,
    read,
    recording_of,
    session_of,
    text_in,
    text_of,
)

FRAMES = ((0.0, b"a"), (0.0, b"b"), (5.0, b"c"), (0.0, b"d"))
frames = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.binary(max_size=3)), max_size=8).map(tuple)


@given(frames)
def test_frames_that_are_due_together_become_one_and_no_byte_is_lost(given_frames):
    answer = HttpResponse(200, frames=given_frames)
    together = answer.merged()
    assert together.content == answer.content
    assert all(one != other for (one, _), (other, _) in zip(together.frames, together.frames[1:], strict=False))
    assert together.merged() == together


def test_frames_keep_their_order_when_they_are_joined():
    assert HttpResponse(200, frames=FRAMES).merged().frames == ((0.0, b"ab"), (5.0, b"c"), (0.0, b"d"))


def test_an_answer_can_be_put_off():
    late = HttpResponse(200, frames=FRAMES, is_streamed=True, end_ms=9.0).delayed(7.0)
    assert late.frames == tuple((7.0, data) for _, data in FRAMES)
    assert late.end_ms == 7.0
    assert late.merged().frames == ((7.0, b"abcd"),)


def test_a_whole_answer_is_json_of_a_known_length():
    answer = whole_response(200, b"{}")
    assert answer.sent_headers == {"content-type": "application/json", "content-length": "2"}
    assert answer.is_single_frame


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
def test_a_content_type_among_the_headers_comes_first(name):
    assert whole_response(200, b"", headers={name: "text/html"}).headers == {"content-type": "text/html"}


@pytest.mark.parametrize("ending", ["cut", "reset", "silence"])
def test_an_answer_that_breaks_off_reports_no_length(ending):
    answer = HttpResponse(200, frames=((0.0, b"half"),), ending=ending)
    assert "content-length" not in answer.sent_headers
    assert not answer.is_single_frame


@pytest.mark.parametrize("name", ["content-length", "transfer-encoding"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_headers_do_not_lie_about_the_length(name, is_streamed):
    answer = HttpResponse(200, {name: "1", "x": "y"}, ((0.0, b"abc"),), is_streamed=is_streamed)
    assert answer.sent_headers == ({"x": "y"} if is_streamed else {"x": "y", "content-length": "3"})


STREAM = HttpResponse(200, {"content-type": "text/event-stream"}, ((0.0, b"data: 1\n\n"),), is_streamed=True)


def test_a_whole_answer_reports_its_length():
    assert whole_response(404, b"{}").immediate_bytes == (
        b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_a_stream_is_one_chunk():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    assert STREAM.immediate_bytes == head + b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    assert replace(STREAM, frames=()).immediate_bytes == head + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        whole_response(200, b"{}").delayed(1.0),
        replace(STREAM, frames=((0.0, b"a"), (1.0, b"b"))),
        replace(STREAM, ending="cut"),
        replace(STREAM, ending="reset"),
        HttpResponse(None, ending="silence"),
        HttpResponse(None),
    ],
    ids=["late", "in pieces", "cut", "reset", "silent", "nothing"],
)
def test_an_answer_that_takes_time_or_breaks_off_does_not_leave_in_one_piece(answer):
    assert answer.immediate_bytes is None


@pytest.mark.parametrize("status", [101, 204, 304, 299, 799])
def test_a_status_with_rules_of_its_own_takes_a_closer_look(status):
    assert http_bytes(status, {}, b"", is_streamed=False) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", "b\r\nc: d"), ("a", "\0"), ("a", "ä"), ("a b", "c"), ("a\r\nb", "c"), ("", "c"), ("connection", "close")],
)
def test_a_header_that_could_do_harm_takes_a_closer_look(name, value):
    assert http_bytes(200, {"content-length": "0", name: value}, b"", is_streamed=False) is None


SSE = {"content-type": "text/event-stream; charset=utf-8"}
LINES = {"content-type": "application/x-ndjson"}
EVENTS = [b"event: a\ndata: 1\n\n", b"data: 2\r\n\r\n", b": comment\n\n", b"data: 3\n\n", b"data: [DONE]\n\n"]


def streamed(headers, *frames):
    return HttpResponse(200, headers, frames, is_streamed=True)


def test_events_that_came_together_are_due_together():
    answer = streamed(SSE, (5.0, b"".join(EVENTS)))
    assert split_events(answer) == tuple((5.0, event) for event in EVENTS)


@given(st.lists(st.integers(0, sum(map(len, EVENTS)))).map(sorted))
def test_an_event_is_due_with_the_last_of_its_bytes(cuts):
    body = b"".join(EVENTS)
    places = [0, *cuts, len(body)]
    frames = [(float(end), body[start:end]) for start, end in pairwise(places)]
    apart = split_events(streamed(SSE, *frames))
    ends = [sum(map(len, EVENTS[: count + 1])) for count in range(len(EVENTS))]
    assert [data for _, data in apart] == EVENTS
    assert [at_ms for at_ms, _ in apart] == [min(end for end in places if end >= needed) for needed in ends]


def test_lines_are_distinguished_and_a_last_one_may_lack_its_end():
    answer = streamed(LINES, (1.0, b"{}\n{"), (2.0, b"}\n{}"))
    assert split_events(answer) == ((1.0, b"{}\n"), (2.0, b"{}\n"), (2.0, b"{}"))


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}])
def test_other_answers_keep_their_frames(headers):
    answer = streamed(headers, (1.0, b"[{},\r\n"), (2.0, b"{}]"))
    assert split_events(answer) == answer.frames


TOOL_CALLS = [
    {"id": "call_1", "name": "look_up", "arguments": {"word": "né"}},
    {"id": "call_2", "name": "stop", "arguments": {}},
]
WORDS = "Good  morning,\nwórld "


def served(protocol, *, stream, **fields):
    return answer_to(session_of({"a": fields}), call_of(protocol, stream=stream))


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("stream", [False, True])
def test_an_entry_is_reported_in_every_protocol(protocol, stream):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    response = read(served(protocol, stream=stream, content=WORDS, model="real", usage=usage), protocol)
    assert response.content == WORDS
    assert response.finish_reason == "stop"
    assert response.model == ("" if protocol == "bedrock" else "real")  # Converse does not name its model
    assert response.usage.total_tokens == 5 or protocol == "openai_chat"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_are_reported_in_every_protocol(protocol, stream):
    response = read(served(protocol, stream=stream, tool_calls=TOOL_CALLS), protocol)
    assert [(call.tool, call.args) for call in response.tool_calls] == [("look_up", {"word": "né"}), ("stop", {})]
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("protocol", [protocol for protocol in PROTOCOLS if protocol != "bedrock"])
def test_an_entry_that_names_no_model_is_answered_by_the_model_that_was_asked(protocol):
    assert read(served(protocol, stream=False, content="x"), protocol).model == "m"


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_stream_has_the_content_type_of_its_protocol(protocol):
    answer = served(protocol, stream=True, content="x")
    assert answer.headers["content-type"] == CODECS[protocol].stream_type
    assert answer.is_streamed


@pytest.mark.parametrize(("wish", "count"), [({"include_usage": True}, 1), (None, 0)])
def test_usage_is_streamed_to_clients_that_ask_for_it(wish, count):
    body = orjson.loads(call_of(stream=True).body) | {"stream_options": wish}
    answer = answer_to(
        session_of({"a": {"content": '"choices":[]'}}),
        HttpRequest("POST", "/v1/chat/completions", "", {}, orjson.dumps(body)),
    )
    assert answer.content.count(b'"usage":{') == count
    assert text_of(answer) == '"choices":[]'


def test_gemini_streams_a_json_array_to_who_asks_for_no_events():
    call = HttpRequest("POST", "/v1beta/models/m:streamGenerateContent", "", {}, call_of("gemini").body)
    answer = answer_to(session_of({"a": {"content": "one two"}}), call)
    pieces = orjson.loads(answer.content)
    assert [piece["candidates"][0]["content"]["parts"][0]["text"] for piece in pieces[:2]] == ["one", " two"]
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_chunks_are_streamed_as_they_were_recorded(protocol):
    chunks = [[1.0, "a b"], [2.0, {"reasoning": "hm"}], [3.0, "c"]]
    answer = served(protocol, stream=True, content="a bc", reasoning="hm", chunks=chunks)
    assert read(answer, protocol).content == "a bc"
    assert text_in(answer.content).index(b"a b") < text_in(answer.content).index(b"hm")


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("status_code", [400, 401, 404, 413, 422, 429, 500, 529])
def test_errors_can_be_read_by_clients_of_every_protocol(protocol, status_code):
    answer = error_response(CODECS[protocol], status_code, "näh", headers={"X-Should-Retry": "false"})
    assert answer.status == status_code
    assert answer.headers.items() >= {"content-type": "application/json", "x-should-retry": "false"}.items()
    assert CODECS[protocol].decode_error(answer.content) == "näh"


TEXT_FRAMES = [[4.0, 'data: {"choices": [], "unknown": "κ"}\n\n'], [6.0, {"base64": "/w=="}]]
SENT = 'data: {"choices": [], "unknown": "κ"}\n\n'.encode() + b"\xff"


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_recorded_bytes_go_to_clients_of_the_same_protocol_as_they_are(protocol):
    call = call_of(protocol)
    wire = {"protocol": protocol, "status": 203, "headers": {"x-request-id": "r1"}, "body": '{ "unknown": 1 }'}
    answer = answer_to(session_of(recording_of(entry_of(call, content="canonical", wire=wire)), strict=True), call)
    assert answer.status == 203
    assert answer.content == b'{ "unknown": 1 }'
    assert answer.headers == {"x-request-id": "r1"}


def test_recorded_frames_go_out_as_they_came():
    call = call_of(stream=True)
    wire = {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": TEXT_FRAMES}
    recording = recording_of(entry_of(call, content="canonical", wire=wire, latency_ms=9.0))
    answer = answer_to(session_of(recording, strict=True, latency_model="replay"), call)
    assert answer.content == SENT
    assert [at_ms for at_ms, _ in answer.frames] == [4.0, 6.0]
    assert answer.is_streamed


def test_bytes_of_a_stream_are_not_for_who_asks_for_a_whole_answer():
    entry = entry_of(call_of(), content="canonical", wire={"protocol": "openai_chat", "frames": TEXT_FRAMES})
    assert text_of(answer_to(session_of(recording_of(entry)), call_of())) == "canonical"


def test_bytes_of_events_are_not_for_who_asks_for_an_array():
    path, body = "/v1beta/models/m:streamGenerateContent", call_of("gemini").body
    events, array = (HttpRequest("POST", path, query, {}, body) for query in ("alt=sse", ""))
    wire = {"protocol": "gemini", "headers": {"content-type": "text/event-stream"}, "frames": [[0.0, "data: {}\n\n"]]}
    session = session_of(recording_of(e := entry_of(events, content="canonical", wire=wire), e), strict=True)
    assert answer_to(session, events).content == b"data: {}\n\n"
    assert (
        orjson.loads(answer_to(session, array).content)[0]["candidates"][0]["content"]["parts"][0]["text"]
        == "canonical"
    )


def test_a_recorded_error_goes_to_streams_and_to_others():
    wire = {"protocol": "openai_chat", "status": 503, "body": "busy"}
    fault = {"type": "http_error", "status_code": 503, "body": "busy"}
    entry = entry_of(call_of(), wire=wire, fault=fault)
    session = session_of(recording_of(entry, entry), strict=True)
    for stream in (False, True):
        answer = answer_to(session, call_of(stream=stream))
        assert answer.status == 503
        assert answer.content == b"busy"


def test_an_entry_of_plain_http_is_served_as_it_came():
    call = HttpRequest("GET", "/v1/files", "limit=2", {}, b"")
    wire = {"protocol": "http", "status": 404, "headers": {"content-type": "text/plain"}, "body": "gone"}
    answer = answer_to(session_of(recording_of(entry_of(call, wire=wire)), strict=True), call)
    assert answer.status == 404
    assert answer.content == b"gone"
    assert answer.headers == {"content-type": "text/plain"}


def test_the_model_of_an_answer_that_names_none_is_that_of_each_call():
    session = session_of({"a": {"content": "x"}})
    assert [read(answer_to(session, call_of(model=model))).model for model in ("one", "two")] == ["one", "two"]


@pytest.mark.parametrize("fault", ["empty_response", "content_filter", "unknown_tool"])
def test_the_model_of_a_made_up_answer_is_that_of_each_call(fault):
    session = session_of({"a": {"model": "real", "fault": {"type": fault}}})
    assert [read(answer_to(session, call_of(model=model))).model for model in ("one", "two")] == ["one", "two"]
