"""One run: its calls, its faults, and what becomes of them."""

import json

import pytest

from offbook.events import FaultFired, MemorySink, ReplayMissed
from offbook.faults import FaultPlan, HttpError, chaos, mark_of, parse_fault
from offbook.session.script import ModelScript
from offbook.session.session import NO_FAULTS
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest
from offbook.wire.session import NULL_OBSERVER, ExploredRun
from tests.wire.http_requests import answer_to, call_of, entry_of, error_in, recording_of, session_of, text_of

MODELS = HttpRequest("GET", "/v1/models", "", {}, b"")
EMBEDDING = HttpRequest("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "x"}')
HTTP_FAULTS = ["http_error 500", "http_error 429", "http_error 408", "timeout", "connection_reset"]
BROKEN_ANSWERS = [
    f"stream_truncate 2 raise={how}"
    for how in ("ConnectionError", "TimeoutError", "cut", "clean", "error_event", "malformed")
]
OTHERS = ["wrong_shape", "malformed_response"]


def tried(retry, text="Hi", **fields):
    """A call by a client that tells which try it is."""
    return call_of(text=text, headers={"x-stainless-retry-count": str(retry)}, **fields)


def statuses(session, *calls):
    return [answer_to(session, call).status for call in calls]


def two_answers(**options):
    return session_of(
        recording_of(*(entry_of(call_of(), content=content) for content in ("one", "two"))), strict=True, **options
    )


@pytest.mark.parametrize("line", HTTP_FAULTS + BROKEN_ANSWERS + OTHERS)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_fault_spoilt_is_answered_when_it_is_asked_again(line, stream):
    session = two_answers(faults=[f"call=1 attempt=1: {line}"])
    answer_to(session, call_of(stream=stream))
    assert [text_of(answer_to(session, call_of())) for _ in range(2)] == ["one", "two"]
    assert [call.attempt for call in session.calls] == [1, 2, 1]
    assert session.unused() == []


@pytest.mark.parametrize(
    "line", ["stream_stall 1 for_ms=1", "slow_drip 1", "slow 1", "partial_response", "wrong_content_type"]
)
def test_what_a_fault_leaves_whole_is_served(line):
    session = two_answers(faults=[f"call=1: {line}"])
    assert text_of(answer_to(session, call_of(stream=True))) == "one"
    assert text_of(answer_to(session, call_of())) == "two"


def test_a_fault_fires_at_the_call_that_the_plan_says_whatever_the_tries():
    session = session_of(faults=["call=2 attempt=1: http_error 500", "call=2 attempt=2: http_error 429"])
    calls = [tried(0, "a"), tried(0, "b"), tried(1, "b"), tried(2, "b"), tried(0, "c")]
    assert statuses(session, *calls) == [200, 500, 429, 200, 200]
    assert [str(planned) for planned in session.fired] == [
        "call=2 attempt=1: http_error 500",
        "call=2 attempt=2: http_error 429",
    ]


def test_tries_of_clients_that_do_not_tell_them_are_known_by_their_request():
    session = session_of(faults=["call=2 attempt=1: http_error 500", "call=2 attempt=2: http_error 429"])
    calls = [call_of(text=text) for text in ("a", "b", "b", "b", "b", "c")]
    assert statuses(session, *calls) == [200, 500, 429, 200, 200, 200]
    assert [call.attempt for call in session.calls] == [1, 1, 2, 3, 1, 1]


def test_a_fault_at_every_attempt_never_lets_a_call_through():
    session = session_of(faults=["call=1: http_error 500"])
    assert statuses(session, tried(0), tried(1), tried(2), tried(0, "other")) == [500, 500, 500, 200]


def test_a_fault_may_fire_at_a_step():
    session = session_of(faults=["step=plan call=2: http_error 500"])
    plan = {"x-offbook-step": "plan"}
    assert statuses(session, call_of(headers=plan), call_of(text="b"), call_of(text="c", headers=plan)) == [
        200,
        200,
        500,
    ]


def test_calls_beside_those_of_models_are_not_counted_by_plans():
    session = session_of(faults=["call=2: http_error 500"])
    assert statuses(session, MODELS, call_of(), MODELS, EMBEDDING, call_of(text="b")) == [200, 200, 200, 500, 200]
    assert [call.number for call in session.calls] == [1, 2, 3, 4, 5]


def test_what_has_not_fired_is_listed():
    session = session_of(faults=["call=1: http_error 500", "call=9: timeout"])
    answer_to(session, call_of())
    assert [str(planned) for planned in session.unfired()] == ["call=9: timeout"]


def test_a_plan_may_be_chaos():
    session = session_of(faults=chaos(seed=1, rate=1.0, faults=[HttpError(503)]))
    assert statuses(session, call_of(), MODELS) == [503, 200]
    assert len(session.fired) == 1


def test_a_plan_may_be_given_in_every_form():
    planned = parse_fault("call=1: http_error 500")
    for faults in (["call=1: http_error 500"], [planned], FaultPlan([planned])):
        assert statuses(session_of(faults=faults), call_of()) == [500]


def test_a_call_with_a_fault_that_the_recording_lacks_is_a_miss_whose_cause_is_not_the_fault():
    session = session_of({"_version": 2}, strict=True, faults=["everywhere: stream_truncate 1"])
    answer = answer_to(session, call_of(stream=True))
    assert answer.status == 422
    assert "stream_truncate 1" not in session.misses[0].text
    assert not session.misses[0].is_after_fault


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("http_error 500", "retry-after-ms"),
        ("http_error 429 headers.Retry-After=7", "retry-after"),
        ("http_error 429 headers.Retry-After-Ms=9", "retry-after-ms"),
    ],
)
def test_injected_errors_tell_how_long_to_wait_where_they_do_not_say_it(line, header):
    session = session_of(faults=[f"everywhere: {line}"], retry_after_ms=1)
    headers = answer_to(session, call_of()).headers
    waits = {name: headers[name] for name in headers if name.startswith("retry-after")}
    assert waits == {header: {"http_error 500": "1"}.get(line, line[-1])}


def test_answers_that_are_no_errors_tell_no_wait():
    session = session_of(faults=["call=2: empty_response"], retry_after_ms=1)
    assert "retry-after-ms" not in answer_to(session, call_of()).headers | answer_to(session, call_of(text="b")).headers
    assert "retry-after-ms" not in answer_to(session_of(faults=["everywhere: http_error 500"]), call_of()).headers


def test_every_call_is_on_the_list_with_what_became_of_it():
    session = session_of(
        {"_version": 2, "mine": entry_of(call_of(), content="x")}, strict=False, faults=["call=3: timeout"]
    )
    for call in (call_of(), call_of(text="b"), MODELS, call_of(text="c")):
        answer_to(session, call)
    seen = [
        (call.vendor, call.method, call.place, call.outcome, call.status, call.key, call.fault)
        for call in session.calls
    ]
    assert seen == [
        ("openai", "POST", "/chat/completions", "served", 200, "mine", None),
        ("openai", "POST", "/chat/completions", "default", 200, None, None),
        ("openai", "GET", "/v1/models", "synthetic", 200, None, None),
        ("openai", "POST", "/chat/completions", "fault", None, None, "timeout"),
    ]
    assert session.calls[0].request.messages == ({"role": "user", "content": "Hi"},)
    assert [call.model for call in session.calls] == ["m", "m", "", "m"]
    assert [(call.number, call.call) for call in session.calls] == [(1, 1), (2, 2), (3, 0), (4, 3)]


@pytest.mark.parametrize("faults", [[], ["call=9: timeout"]])
def test_calls_are_numbered_as_faults_count_them_whether_there_are_faults_or_not(faults):
    failing = {"fault": {"type": "http_error", "status_code": 500}}
    entries = recording_of(entry_of(call_of(), **failing), entry_of(call_of(), content="x"))
    session = session_of(entries, strict=True, faults=faults)
    for call in (call_of(), MODELS, call_of(), call_of(text="b")):
        answer_to(session, call)
    assert [(call.call, call.attempt, call.outcome) for call in session.calls] == [
        (1, 1, "served"),
        (0, 1, "missed"),
        (1, 2, "served"),
        (2, 1, "missed"),
    ]
    assert [(miss.call, miss.number, miss.method) for miss in session.misses] == [(0, 2, "GET"), (2, 4, "POST")]


def test_a_miss_says_whether_a_fault_fired_before_and_then_not_to_record_again():
    steps = {"one": [entry_of(call_of(), content="x")], "two": [entry_of(call_of(), content="x")]}
    session = session_of({"_version": 2, **steps}, strict=True, faults=["call=2: unknown_tool"])
    calls = [call_of(text="a", headers={"x-offbook-step": "one"}), call_of(headers={"x-offbook-step": "two"})]
    for call in (*calls, calls[0]):
        answer_to(session, call)
    before, after = session.misses
    assert [before.is_after_fault, after.is_after_fault] == [False, True]
    assert "record it again" in before.text
    assert "record it again" not in after.text
    assert "a fault fired before this" in after.text


def test_a_sink_gets_faults_and_misses():
    sink = MemorySink()
    session = session_of({"_version": 2}, strict=True, faults=["call=1: timeout"], sink=sink)
    answer_to(session, call_of())
    answer_to(session, call_of(text="b"))
    fired = next(event for event in sink.events if isinstance(event, FaultFired))
    missed = next(event for event in sink.events if isinstance(event, ReplayMissed))
    assert fired.model == "m"
    assert fired.fault_type == "timeout"
    assert fired.attempt == 1
    assert missed.model == "m"
    assert missed.kind == "missing"


def test_a_sink_that_fails_fails_no_call():
    class Broken:
        def emit(self, event):
            raise RuntimeError("no")

    assert statuses(session_of(faults=["everywhere: http_error 503"], sink=Broken()), call_of()) == [503]


def test_a_miss_is_reported_once_in_the_log(caplog):
    answer_to(session_of({"_version": 2}, strict=True), call_of())
    assert [record.name for record in caplog.records] == ["offbook.wire"]


def explored(*faults):
    """A session of an exploration whose first run has been made."""
    backend = WireBackend(WireOptions(responses=recording_of(entry_of(call_of(), content="one")), strict=True))
    script = ModelScript()
    answer_to(backend.start("clean", NO_FAULTS, ExploredRun(script, NULL_OBSERVER)), call_of())
    return backend.start("run", FaultPlan(map(parse_fault, faults)), ExploredRun(script, NULL_OBSERVER))


def test_in_an_exploration_injected_texts_carry_the_mark_of_their_line_and_nowhere_else():
    line = "call=1: http_error 500"
    session, plain = explored(line), two_answers(faults=[line])
    mark = mark_of(parse_fault(line))
    assert error_in(answer_to(session, call_of())) == f"an injected error {mark}"
    assert error_in(answer_to(plain, call_of())) == "an injected error"
    assert session.faults.marks == [mark]
    assert plain.faults.marks == []


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_in_an_exploration_the_same_request_after_any_injected_error_is_a_further_attempt(status):
    lasting = explored(f"call=1: http_error {status}")
    assert statuses(lasting, call_of(), call_of(), call_of()) == [status] * 3
    assert [call.attempt for call in lasting.calls] == [1, 2, 3]
    assert lasting.faults.marks == [mark_of(parse_fault(f"call=1: http_error {status}"))]


def test_answers_from_a_call_on_can_be_wrong_for_ever():
    session = session_of({"a": {"content": "one"}}, faults=["since=2: empty_response"])
    assert [text_of(answer_to(session, call_of(text=text))) for text in "abcd"] == ["one", "", "", ""]


def test_an_agent_that_echoes_a_partial_answer_echoes_what_was_recorded():
    spaced = '{"order_id": 42}'
    tool_call = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": spaced}}
    message = {"role": "assistant", "content": None, "tool_calls": [tool_call], "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "chatcmpl-7", "object": "chat.completion", "model": "m", "choices": [choice], "usage": None}
    wire = {"protocol": "openai_chat", "headers": {"content-type": "application/json"}, "body": json.dumps(body)}
    calls = [{"id": "c1", "name": "refund", "arguments": {"order_id": 42}}]
    recording = recording_of(entry_of(call_of(), tool_calls=calls, wire=wire))
    session = session_of(recording, strict=True, faults=["call=1: partial_response"])
    seen = json.loads(answer_to(session, call_of()).content)
    assert seen["choices"][0].pop("finish_reason") == "length"
    assert seen["choices"][0]["message"] == message
    assert seen["id"] == "chatcmpl-7"
