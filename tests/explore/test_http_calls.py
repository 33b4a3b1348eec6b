"""The observer of model calls over HTTP."""

import json

import pytest

from offbook.explore.observer import CallLimits, RaisingHost, RunObserver, chunk_kinds, decoded_response
from offbook.messages import Request
from offbook.session.script import ModelScript
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions, parse_fault_plan
from offbook.wire.request import HttpRequest, parse_request
from offbook.wire.response import whole_response
from offbook.wire.session import ExploredRun
from tests.wire.http_requests import (
    EVERY_PROTOCOL,
    PROTOCOLS,
    TOOL,
    answer_to,
    call_of,
    http_call,
    recording_of,
    session_of,
)

ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "look_up", "arguments": {"word": "tree"}}]}
STREAM = call_of(text="Hi", stream=True, tools=(TOOL,))
STALL = "call=1 attempt=1: stream_stall 1 for_ms=60000"


class CountingHost(RaisingHost):
    """Notes why runs were to end."""

    def __init__(self):
        self.reasons = []

    def end_endless(self, reason):
        self.reasons.append(reason)


def watched(*faults, max_calls=100, host=None):
    """A session, and its observer."""
    backend = WireBackend(WireOptions(responses=recording_of(any=[ASKING, ASKING]), strict=True))
    script = ModelScript()
    observer = RunObserver(script, host or CountingHost(), limits=CallLimits(models=max_calls))
    return backend.start("run", parse_fault_plan(faults), ExploredRun(script, observer)), observer


def test_only_calls_of_models_are_noted():
    session, observer = watched()
    answer_to(session, HttpRequest("GET", "/v1/models", "", {}, b""))
    answer_to(session, STREAM)
    assert [call.number for call in observer.calls] == [1]


def test_embeddings_are_calls_of_models_too():
    session, observer = watched()
    answer_to(session, HttpRequest("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "Hi"}'))
    (call,) = observer.calls
    assert call.model == "e"
    assert call.outcome == "diverged"
    assert not call.has_tools


def test_an_answer_that_is_late_has_failed_until_it_has_arrived():
    session, observer = watched(STALL)
    attempt = session.start(STREAM)
    session.answer(attempt)
    assert [(call.outcome, call.error) for call in observer.calls] == [("failed", "stream_stall")]
    assert observer.inferred_tools() == []
    assert observer.pending.call == "call 1"
    assert observer.pending.vendor == "openai"
    assert observer.pending.has_begun
    session.delivered(attempt)
    assert observer.pending is None
    assert [call.outcome for call in observer.calls] == ["answered"]
    assert [(tool.tool, tool.outcome) for tool in observer.inferred_tools()] == [("look_up", "unknown")]


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_what_a_stream_still_held_back_has_not_arrived(chunks):
    session, observer = watched(f"call=1 attempt=1: stream_stall {chunks} for_ms=60000")
    attempt = session.start(STREAM)
    session.answer(attempt)
    session.left(attempt)
    assert len(observer.calls[0].chunks) == chunks
    assert [tool.is_unseen for tool in observer.inferred_tools()] == [True] * (chunks == 3)


def test_a_client_that_leaves_does_not_wait_any_more():
    session, observer = watched("call=1 attempt=1: timeout 60000")
    attempt = session.start(STREAM)
    session.answer(attempt)
    assert not observer.pending.has_begun
    session.left(attempt)
    assert observer.pending is None
    assert observer.last_call.name == "call 1"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_whose_result_a_later_request_has_was_run(protocol, stream):
    session, observer = watched()
    asking = call_of(protocol, stream=stream, max_tokens=16, tools=(TOOL,))
    (call,) = decoded_response(parse_request(asking), answer_to(session, asking)).tool_calls
    function = {"name": call.tool, "arguments": call.arguments}
    said = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call.id, "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": call.id, "content": "green"}
    hi = {"role": "user", "content": "Hi"}
    request = Request(model="m", messages=(hi, said, result), stream=stream, max_tokens=16, tools=(TOOL,))
    answer_to(session, http_call(protocol, request))
    done, again = observer.inferred_tools()
    assert done.tool == "look_up"
    assert done.arguments == {"word": "tree"}
    assert done.outcome == "done"
    assert done.result == "green"
    assert again.outcome == "unknown"
    assert [call.follows for call in observer.calls] == ["", "continues"]


ENDS = "The final response which ends this conversation"


@pytest.mark.parametrize(
    ("description", "tools"),
    [
        ("Looks a word up.", ["look_up"]),
        (ENDS, []),
        (f"Word: {ENDS}", []),
        ("Handoff to the words agent to handle the request. ", []),
    ],
)
def test_a_tool_by_which_a_framework_ends_a_run_changes_nothing(description, tools):
    session, observer = watched()
    function = TOOL["function"] | {"description": description}
    answer_to(session, call_of(text="Hi", tools=({"type": "function", "function": function},)))
    assert [each.tool for each in observer.inferred_tools()] == tools


def test_a_request_continues_the_conversation_that_the_api_has():
    session, observer = watched()
    answer_to(session, call_of("openai_responses", text="Hi"))
    for extra in ({"previous_response_id": "r"}, {}):
        answer_to(session, call_of("openai_responses", text="And now?", extra=extra))
    assert [call.follows for call in observer.calls] == ["", "continues", "repeats"]


def test_each_call_too_many_ends_a_run_and_is_not_noted():
    host = CountingHost()
    session, observer = watched(max_calls=2, host=host)
    for text in "abcd":
        answer_to(session, call_of(text=text))
    assert host.reasons == [observer.endless] * 2
    assert observer.endless == "it made more than 2 model calls"
    assert len(observer.calls) == 2


ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "look_up", "arguments": {"word": "tree"}}]}
SPEAKING = {"content": "The end", "chunks": [[0.0, "The "], [0.0, "end"]]}


def answered(call, entry, *faults):
    session = session_of({"_version": 2, "any": [entry]}, faults=faults)
    return parse_request(call), answer_to(session, call)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_tools_that_an_answer_asks_for_are_read(protocol, stream):
    call = call_of(protocol, stream=stream, max_tokens=16, tools=(TOOL,))
    (tool_call,) = decoded_response(*answered(call, ASKING)).tool_calls
    assert tool_call.tool == "look_up"
    assert tool_call.args == {"word": "tree"}


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_the_frames_that_bring_text_are_distinguished_from_those_around_them(protocol):
    parsed_request, answer = answered(call_of(protocol, stream=True, max_tokens=16), SPEAKING)
    chunks = chunk_kinds(parsed_request, answer)
    assert chunks.count("text") == 2
    assert set(chunks) <= {"text", "other"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_frames_that_bring_a_tool_call_are_reported(protocol):
    parsed_request, answer = answered(call_of(protocol, stream=True, max_tokens=16, tools=(TOOL,)), ASKING)
    assert "tool_call" in chunk_kinds(parsed_request, answer)


def test_an_array_is_read_like_a_stream():
    call = call_of("gemini", stream=True, tools=(TOOL,))
    parsed_request, answer = answered(HttpRequest(call.method, call.path, "", call.headers, call.body), ASKING)
    assert parsed_request.is_array
    assert [call.tool for call in decoded_response(parsed_request, answer).tool_calls] == ["look_up"]
    assert "tool_call" in chunk_kinds(parsed_request, answer)


def test_a_stream_is_read_as_far_as_it_can_be():
    call = call_of(stream=True)
    parsed_request, answer = answered(call, SPEAKING, "call=1 chunk=2: stream_truncate raise=malformed")
    assert chunk_kinds(parsed_request, answer) == ("other", "text")
    assert decoded_response(parsed_request, answer).tool_calls == ()


def test_nothing_is_read_from_what_is_no_answer_of_a_model():
    parsed_request = parse_request(call_of())
    assert decoded_response(parsed_request, whole_response(500, b"{}")).tool_calls == ()
    assert decoded_response(parsed_request, whole_response(200, b"<html>")).tool_calls == ()
    assert chunk_kinds(parsed_request, whole_response(200, b"{}")) == ()
    plain = parse_request(HttpRequest("GET", "/v1/models", "", {}, b""))
    assert decoded_response(plain, whole_response(200, b"{}")).tool_calls == ()
    assert chunk_kinds(plain, whole_response(200, b"{}")) == ()


def chat_call(*messages, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, *messages], **fields}
    return HttpRequest("POST", "/v1/chat/completions", "", {}, json.dumps(body).encode())


def asking(*tool_calls):
    return {"role": "assistant", "content": None, "tool_calls": list(tool_calls)}


@pytest.mark.parametrize(
    "odd_call",
    [
        chat_call(asking({"id": "a", "type": "function", "function": None})),
        chat_call(asking("x")),
        chat_call(asking({"id": {"a": 1}, "function": {"name": "look_up", "arguments": "{}"}})),
        chat_call({"role": "tool", "tool_call_id": {"a": 1}, "content": ["q", 1, None, {"text": 3}]}),
        chat_call({"role": "assistant", "tool_calls": 5}),
        chat_call(tools=["x", {"function": None}, {"function": {"name": ["a"], "parameters": 3}}]),
    ],
)
def test_a_request_that_is_malformed_does_not_end_the_observation(odd_call):
    session, observer = watched()
    answer_to(session, odd_call)
    assert len(observer.calls) == 1
    assert [tool.tool for tool in observer.inferred_tools()] in (["look_up"], [])


def test_a_request_that_cannot_be_read_has_forgotten_nothing():
    session, observer = watched("call=1 attempt=1: http_error 500")
    answer_to(session, STREAM)
    answer_to(session, HttpRequest("POST", "/v1/chat/completions", "", {}, b'{"model": "m", "messages": ["x"]}'))
    assert [(call.outcome, call.forgot) for call in observer.calls] == [("failed", 0), ("diverged", 0)]


HI = {"role": "user", "content": "Hi"}
CALL = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
OPEN_CALL = [HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "user", "content": "Go on"}]


def chat(*messages):
    return HttpRequest(
        "POST", "/v1/chat/completions", "", {}, json.dumps({"model": "m", "messages": messages}).encode()
    )


def refused_calls(*calls):
    """What is noted of the refused calls of a run after the clean one."""
    backend = WireBackend(WireOptions(responses=recording_of(any=[ASKING, ASKING]), strict=True))
    script = ModelScript()
    answer_to(backend.start("clean", parse_fault_plan([]), ExploredRun(script, RunObserver(script))), chat(HI))
    observer = RunObserver(script)
    session = backend.start("run", parse_fault_plan([]), ExploredRun(script, observer))
    for call in calls:
        answer_to(session, call)
    return [call for call in observer.calls if call.refusal]


def test_a_refused_call_has_failed_and_says_why():
    (call,) = refused_calls(chat(HI), chat(*OPEN_CALL))
    assert (call.outcome, call.error) == ("failed", "HTTP 400")
    assert call.refusal == "messages.1: tool call 'a' has no result"
    assert not call.got_out


def test_a_run_gets_out_by_a_later_request_of_the_same_conversation():
    (call,) = refused_calls(chat(HI), chat(*OPEN_CALL), chat(HI))
    assert call.got_out


def test_another_conversation_is_no_way_out():
    (call,) = refused_calls(chat(HI), chat(*OPEN_CALL), chat({"role": "user", "content": "Something else"}))
    assert not call.got_out


def test_two_refused_calls_are_both_noted():
    assert [call.got_out for call in refused_calls(chat(*OPEN_CALL), chat(*OPEN_CALL))] == [False, False]
