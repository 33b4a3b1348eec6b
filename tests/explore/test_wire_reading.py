"""What answers over the wire say."""

import pytest

from offbook.explore.wire_reading import chunks_of, tools_asked_for
from offbook.wire.answer import whole
from offbook.wire.asked import read_call
from offbook.wire.http_call import HttpCall
from tests.wire.calls import PROTOCOLS, TOOL, answer_to, call_of, session_of

ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "look_up", "arguments": {"word": "tree"}}]}
SPEAKING = {"content": "The end", "chunks": [[0.0, "The "], [0.0, "end"]]}


def answered(call, entry, *faults):
    session = session_of({"_version": 2, "any": [entry]}, faults=faults)
    return read_call(call), answer_to(session, call)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_tools_that_an_answer_asks_for_are_read(protocol, stream):
    call = call_of(protocol, stream=stream, max_tokens=9, tools=(TOOL,))
    (tool_call,) = tools_asked_for(*answered(call, ASKING))
    assert (tool_call.tool, tool_call.args) == ("look_up", {"word": "tree"})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_frames_that_bring_text_are_told_from_those_around_them(protocol):
    asked, answer = answered(call_of(protocol, stream=True, max_tokens=9), SPEAKING)
    chunks = chunks_of(asked, answer)
    assert chunks.count("text") == 2
    assert set(chunks) <= {"text", "other"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_frames_that_bring_a_tool_call_are_told(protocol):
    asked, answer = answered(call_of(protocol, stream=True, max_tokens=9, tools=(TOOL,)), ASKING)
    assert "tool_call" in chunks_of(asked, answer)


def test_an_array_is_read_like_a_stream():
    call = call_of("gemini", stream=True, tools=(TOOL,))
    asked, answer = answered(HttpCall(call.method, call.path, "", call.headers, call.body), ASKING)
    assert asked.is_array
    assert [call.tool for call in tools_asked_for(asked, answer)] == ["look_up"]
    assert "tool_call" in chunks_of(asked, answer)


def test_a_stream_is_read_as_far_as_it_can_be():
    call = call_of(stream=True)
    asked, answer = answered(call, SPEAKING, "call=1 chunk=2: stream_truncate raise=malformed")
    assert chunks_of(asked, answer) == ("other", "text")
    assert tools_asked_for(asked, answer) == ()


def test_nothing_is_read_from_what_is_no_answer_of_a_model():
    asked = read_call(call_of())
    assert tools_asked_for(asked, whole(500, b"{}")) == ()
    assert tools_asked_for(asked, whole(200, b"<html>")) == ()
    assert chunks_of(asked, whole(200, b"{}")) == ()
    plain = read_call(HttpCall("GET", "/v1/models", "", {}, b""))
    assert (tools_asked_for(plain, whole(200, b"{}")), chunks_of(plain, whole(200, b"{}"))) == ((), ())
