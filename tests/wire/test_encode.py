"""From exchanges to the answers that clients get."""

import orjson
import pytest

from offbook.vendors import CODECS
from offbook.wire.request import HttpRequest
from offbook.wire.response import error_response
from tests.wire.http_requests import PROTOCOLS, answer_to, call_of, entry_of, read, recording_of, session_of, text_of

TOOL_CALLS = [
    {"id": "call_1", "name": "look_up", "arguments": {"word": "né"}},
    {"id": "call_2", "name": "stop", "arguments": {}},
]
WORDS = "Good  morning,\nwórld "


def served(protocol, *, stream, **fields):
    return answer_to(session_of({"a": fields}), call_of(protocol, stream=stream))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_entry_is_told_in_every_protocol(protocol, stream):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    response = read(served(protocol, stream=stream, content=WORDS, model="real", usage=usage), protocol)
    assert response.content == WORDS
    assert response.finish_reason == "stop"
    assert response.model == "real"
    assert response.usage.total_tokens == 5 or protocol == "openai_chat"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_are_told_in_every_protocol(protocol, stream):
    response = read(served(protocol, stream=stream, tool_calls=TOOL_CALLS), protocol)
    assert [(call.tool, call.args) for call in response.tool_calls] == [("look_up", {"word": "né"}), ("stop", {})]
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_entry_that_names_no_model_is_answered_by_the_model_that_was_asked(protocol):
    assert read(served(protocol, stream=False, content="x"), protocol).model == "m"


@pytest.mark.parametrize("protocol", PROTOCOLS)
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
    assert answer.content.index(b"a b") < answer.content.index(b"hm")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("status_code", [400, 401, 404, 413, 422, 429, 500, 529])
def test_errors_can_be_read_by_clients_of_every_protocol(protocol, status_code):
    answer = error_response(CODECS[protocol], status_code, "näh", headers={"X-Should-Retry": "false"})
    assert answer.status == status_code
    assert answer.headers.items() >= {"content-type": "application/json", "x-should-retry": "false"}.items()
    assert CODECS[protocol].decode_error(answer.content) == "näh"


FRAMES = [[4.0, 'data: {"choices": [], "unknown": "κ"}\n\n'], [6.0, {"base64": "/w=="}]]
SENT = 'data: {"choices": [], "unknown": "κ"}\n\n'.encode() + b"\xff"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_recorded_bytes_go_to_clients_of_the_same_protocol_as_they_are(protocol):
    call = call_of(protocol)
    wire = {"protocol": protocol, "status": 203, "headers": {"x-request-id": "r1"}, "body": '{ "unknown": 1 }'}
    answer = answer_to(session_of(recording_of(entry_of(call, content="canonical", wire=wire)), strict=True), call)
    assert (answer.status, answer.content) == (203, b'{ "unknown": 1 }')
    assert answer.headers == {"x-request-id": "r1"}


def test_recorded_frames_go_out_as_they_came():
    call = call_of(stream=True)
    wire = {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": FRAMES}
    recording = recording_of(entry_of(call, content="canonical", wire=wire, latency_ms=9.0))
    answer = answer_to(session_of(recording, strict=True, latency_model="replay"), call)
    assert answer.content == SENT
    assert [at_ms for at_ms, _ in answer.frames] == [4.0, 6.0]
    assert answer.is_streamed


def test_bytes_of_a_stream_are_not_for_who_asks_for_a_whole_answer():
    entry = entry_of(call_of(), content="canonical", wire={"protocol": "openai_chat", "frames": FRAMES})
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
        assert (answer.status, answer.content) == (503, b"busy")


def test_an_entry_of_plain_http_is_served_as_it_came():
    call = HttpRequest("GET", "/v1/files", "limit=2", {}, b"")
    wire = {"protocol": "http", "status": 404, "headers": {"content-type": "text/plain"}, "body": "gone"}
    answer = answer_to(session_of(recording_of(entry_of(call, wire=wire)), strict=True), call)
    assert (answer.status, answer.content, answer.headers) == (404, b"gone", {"content-type": "text/plain"})


def test_the_model_of_an_answer_that_names_none_is_that_of_each_call():
    session = session_of({"a": {"content": "x"}})
    assert [read(answer_to(session, call_of(model=model))).model for model in ("one", "two")] == ["one", "two"]


@pytest.mark.parametrize("fault", ["empty_response", "content_filter", "unknown_tool"])
def test_the_model_of_a_made_up_answer_is_that_of_each_call(fault):
    session = session_of({"a": {"model": "real", "fault": {"type": fault}}})
    assert [read(answer_to(session, call_of(model=model))).model for model in ("one", "two")] == ["one", "two"]
