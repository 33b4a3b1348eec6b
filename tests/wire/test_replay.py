"""Which entry answers a call."""

import httpx2
import orjson
import pytest

from offbook import serving
from offbook.messages import Request
from offbook.session.script import ModelScript
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions, parse_fault_plan
from offbook.wire.request import HttpRequest
from offbook.wire.session import ExploredRun, NullCallObserver
from tests.wire.http_requests import (
    EVERY_PROTOCOL,
    PROTOCOLS,
    TOOL,
    answer_to,
    call_of,
    entry_of,
    error_in,
    http_call,
    read,
    recording_of,
    session_of,
    text_of,
)

STEP = "x-offbook-step"
MODELS = HttpRequest("GET", "/v1/models", "", {}, b"")
PLAIN = {"protocol": "http", "headers": {"content-type": "application/json"}}


def by_step(step, text="Hi"):
    return call_of(text=text, headers={STEP: step})


def strict_session(*entries, **steps):
    return session_of(recording_of(*entries, **steps), strict=True)


def miss(session, call, protocol="openai_chat"):
    answer = answer_to(session, call)
    assert answer.status == 422
    assert answer.headers["x-should-retry"] == "false"
    return error_in(answer, protocol)


def test_a_step_is_found_by_its_header():
    session = strict_session(one={"content": "1"}, two={"content": "2"})
    assert [text_of(answer_to(session, by_step(step))) for step in ("two", "one")] == ["2", "1"]
    assert [call.key for call in session.calls] == ["two", "one"]


def test_the_calls_of_a_step_are_answered_in_order_by_what_they_ask():
    entries = [entry_of(call_of(text=text), content=text.upper()) for text in ("a", "b", "a")]
    session = strict_session(step=entries)
    assert [text_of(answer_to(session, by_step("step", text))) for text in ("b", "a", "a")] == ["B", "A", "A"]
    assert session.unused() == []


def test_equal_requests_are_answered_first_in_first_out():
    session = strict_session(*(entry_of(call_of(), content=content) for content in ("one", "two")))
    assert [text_of(answer_to(session, call_of())) for _ in range(2)] == ["one", "two"]


def test_an_equal_request_is_found_under_whatever_key():
    session = strict_session(step=[entry_of(call_of(), content="one")])
    assert text_of(answer_to(session, call_of())) == "one"


def test_a_request_that_was_asked_too_often_is_reported_as_such():
    session = strict_session(entry_of(call_of(), content="one"))
    answer_to(session, call_of())
    assert "served already" in miss(session, call_of())
    assert session.misses[0].kind == "exhausted"


def test_a_step_that_asks_something_else_has_drifted():
    session = strict_session(step=entry_of(call_of(text="Hello there"), content="x"))
    message = miss(session, by_step("step", "Hello you"))
    assert "'step' was recorded with another request" in message
    assert "-Hello there" in message
    assert "+Hello you" in message
    assert session.misses[0].kind == "drifted"
    assert session.misses[0].key == "step"


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
def test_a_miss_names_the_nearest_entry_and_what_differs(protocol):
    near = entry_of(call_of(protocol, "What is the capital of France?", max_tokens=16), content="Paris")
    far = entry_of(call_of(protocol, "Sing.", max_tokens=16), content="La")
    message = miss(
        strict_session(near=near, far=far), call_of(protocol, "What is the capital of Spain?", max_tokens=16), protocol
    )
    assert "The nearest entry is 'near'" in message
    assert "-What is the capital of France?" in message
    assert "+What is the capital of Spain?" in message


def test_a_step_that_is_not_there_is_named():
    session = strict_session(summarize=entry_of(call_of(), content="x"))
    message = miss(session, by_step("sumarize", "Ho"))
    assert "step 'sumarize' is not in the recording. Did you mean 'summarize'?" in message


def test_a_long_miss_is_cut_for_the_client_and_kept_in_full():
    texts = ["\n".join(f"{word} line {number}" for number in range(20)) for word in ("old", "new")]
    lines = [(text + "x" * 80).replace("\n", "x" * 80 + "\n") for text in texts]
    session = strict_session(
        long=entry_of(call_of(text=lines[0]), content="x"),
        **{"k" * 150 + str(n): {"content": "", "request_hash": "h"} for n in range(40)},
    )
    message = miss(session, call_of(text="\n".join(lines)))
    assert len(message) <= 4_000
    [recorded_miss] = session.misses
    assert str(recorded_miss).startswith(message[:-1])


def test_secrets_in_what_was_asked_are_not_reported():
    session = strict_session(entry_of(call_of(text="Hello"), content="x"))
    message = miss(
        session,
        call_of(
            text="Hello sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", headers={"authorization": "Bearer hush"}
        ),
    )
    assert "abcdefghijklmnop" not in message + session.misses[0].text
    assert "hush" not in message + session.misses[0].text


def test_lenient_replays_answer_the_rest_with_the_default():
    session = session_of(recording_of(entry_of(call_of(), content="one")), strict=False, default_response="dunno")
    assert text_of(answer_to(session, call_of(text="other"))) == "dunno"
    assert [text_of(answer_to(session, call_of())) for _ in range(2)] == ["one", "one"]
    assert [call.outcome for call in session.calls] == ["default", "served", "served"]
    assert not session.misses


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, 200), ({"strict": True}, 422), ({"strict": False}, 200), ({"strict": True, "default_response": "x"}, 422)],
)
def test_responses_are_lenient_unless_told_otherwise(options, status):
    assert answer_to(session_of({"_version": 2}, **options), call_of()).status == status


def test_an_empty_recording_says_so():
    assert "The recording is empty" in miss(session_of({"_version": 2}, strict=True), call_of())


def test_plain_http_is_answered_by_what_was_recorded_first_in_first_out():
    entries = [entry_of(MODELS, wire=PLAIN | {"body": body}) for body in ('{"data": [1]}', '{"data": [2]}')]
    session = strict_session(*entries)
    assert [answer_to(session, MODELS).content for _ in range(2)] == [b'{"data": [1]}', b'{"data": [2]}']
    assert "all its recorded answers were served already" in miss(session, MODELS)


def test_plain_http_that_was_not_recorded_is_refused_with_what_was():
    session = strict_session(entry_of(MODELS, wire=PLAIN))
    message = miss(session, HttpRequest("GET", "/v1/files", "key=hush", {}, b""))
    assert "GET /v1/files is not in the recording. It has: GET /v1/models" in message
    assert "hush" not in message
    assert "recorded with another body" in miss(session, HttpRequest("GET", "/v1/models", "", {}, b"{}"))


def test_plain_http_is_refused_by_a_recording_that_has_none():
    message = miss(strict_session(entry_of(call_of(), content="x")), MODELS)
    assert "It has model calls only" in message


def test_a_path_of_any_length_is_refused_at_once():
    session = strict_session(
        *(entry_of(HttpRequest("GET", f"/v1/files/{number}", "", {}, b""), wire=PLAIN) for number in range(500))
    )
    assert "is not in the recording" in miss(session, HttpRequest("GET", "/v1/" + "ab" * 30_000, "", {}, b""))


def test_a_call_that_its_vendor_would_refuse_is_reported_as_such():
    session = strict_session(entry_of(call_of(), content="x"))
    call = HttpRequest("POST", "/v1/chat/completions", "", {}, b'{"model": 5, "messages": [7]}')
    message = miss(session, call)
    assert "is not a request that openai accepts" in message
    assert "model" in message


@pytest.mark.parametrize("call", [MODELS, HttpRequest("POST", "/v1/chat/completions", "", {}, b"{")])
@pytest.mark.parametrize("strict", [False, True])
def test_an_entry_of_a_model_answers_no_plain_call_even_of_its_step(call, strict):
    session = session_of({"_version": 2, "step": {"content": "x"}}, strict=strict)
    stepped = HttpRequest(call.method, call.path, "", {STEP: "step"}, call.body)
    assert answer_to(session, stepped).content == answer_to(session, call).content


def test_an_entry_of_plain_http_without_bytes_answers_nothing():
    assert "is not in the recording" in miss(strict_session(entry_of(MODELS)), MODELS)


def test_plain_http_that_failed_when_it_was_recorded_fails_again():
    session = strict_session(entry_of(MODELS, fault={"type": "connection_reset"}))
    assert answer_to(session, MODELS).ending == "reset"


def test_what_was_never_served_is_listed():
    session = strict_session(
        entry_of(call_of(), content="one"), entry_of(call_of(), content="two"), step={"content": "x"}
    )
    answer_to(session, call_of())
    left = [(unused.key, unused.position) for unused in session.unused()]
    assert left == [(entry_of(call_of())["request_hash"], 1), ("step", 0)]


HI, HO = call_of(text="Hi"), call_of(text="Ho")


class Observer(NullCallObserver):
    """Keeps the calls that it observes."""

    def __init__(self):
        self.answers, self.deliveries = [], []

    def answered(self, attempt, answer, outcome):
        self.answers.append((attempt.site, answer.status, outcome))

    def delivered(self, attempt):
        self.deliveries.append(attempt.number)

    @property
    def places(self):
        return [site and (site.overall, site.attempt) for site, _, _ in self.answers]


class Runs:
    """The runs of an exploration."""

    def __init__(self, *entries, on_miss="stop", **steps):
        options = WireOptions(responses=recording_of(*entries, **steps), strict=True, default_response="what?")
        self._backend, self._script, self._on_miss = WireBackend(options), ModelScript(), on_miss
        self.observer = Observer()

    def session(self, *faults, continuation="stubborn"):
        self.observer = Observer()
        explored_run = ExploredRun(self._script, self.observer, self._on_miss, continuation, "gave-up-1")
        return self._backend.start("run", parse_fault_plan(faults), explored_run)


def said(session, *calls):
    return [text_of(answer_to(session, call)) for call in calls]


def test_the_first_run_is_a_strict_replay(caplog):
    runs = Runs(entry_of(HI, content="one"))
    session = runs.session()
    assert said(session, HI) == ["one"]
    assert "served already" in error_in(answer_to(session, HI))
    assert [miss.kind for miss in session.misses] == ["exhausted"]
    assert caplog.records == []


def test_later_runs_get_equal_requests_answered_in_order_and_then_the_last_again():
    runs = Runs(entry_of(HI, content="one"), entry_of(HI, content="two"))
    said(runs.session(), HI, HI)
    assert said(runs.session(), HI, HI, HI) == ["one", "two", "two"]
    assert said(runs.session(), HI) == ["one"]


def test_entries_that_say_nothing_of_their_requests_answer_what_they_answered_in_the_first_run():
    runs = Runs(any=[{"content": "one"}, {"content": "two"}])
    assert said(runs.session(), HI, HO) == ["one", "two"]
    session = runs.session()
    assert said(session, HI, HI, HO) == ["one", "one", "two"]
    assert answer_to(session, call_of(text="Hm")).status == 422
    assert len(session.misses) == 1


def test_what_only_the_recording_has_is_answered_again_and_again():
    runs = Runs(entry_of(HI, content="one"), entry_of(HO, content="other"))
    said(runs.session(), HI)
    assert said(runs.session(), HO, HO, HI) == ["other", "other", "one"]


@pytest.mark.parametrize("fault", ["http_error 500", "connection_reset", "malformed_response", "stream_truncate 0"])
def test_an_answer_that_failed_is_due_again(fault):
    runs = Runs(entry_of(HI, content="one"), entry_of(HI, content="two"))
    said(runs.session(), HI, HI)
    session = runs.session(f"call=2 attempt=1: {fault}")
    assert said(session, HI) == ["one"]
    answer_to(session, HI)
    assert said(session, HI) == ["two"]
    assert runs.observer.places == [(1, 1), (2, 1), (2, 2)]


def test_a_run_may_go_on_behind_a_miss_with_the_default_response():
    runs = Runs(entry_of(HI, content="one"), on_miss="default")
    said(runs.session(), HI)
    session = runs.session()
    assert said(session, HO) == ["what?"]
    assert len(session.misses) == 1
    assert [outcome for _, _, outcome in runs.observer.answers] == ["default"]


def test_every_call_of_a_model_is_counted_and_reported_also_where_nothing_is_planned():
    runs = Runs(entry_of(HI, content="one"))
    session = runs.session()
    said(session, HI)
    answer_to(session, call_of(text="Hm"))
    assert [(status, outcome) for _, status, outcome in runs.observer.answers] == [(200, "served"), (422, "missed")]
    assert runs.observer.places == [(1, 1), (2, 1)]


def test_a_program_that_swallows_a_miss_gets_no_more_answers():
    runs = Runs(entry_of(HI, content="one"))
    said(runs.session(), HI)
    session = runs.session()
    answer_to(session, call_of(text="Hm"))
    assert answer_to(session, HI).status == 422


def test_an_agent_that_tries_again_what_its_sdk_has_given_up_is_known_by_its_request():
    runs = Runs(entry_of(HI, content="one"))
    said(runs.session(), HI)
    session = runs.session("call=1: http_error 500")
    for retries in ("0", "1", "0", "1"):
        answer_to(session, call_of(text="Hi", headers={"x-stainless-retry-count": retries}))
    assert runs.observer.places == [(1, 1), (1, 2), (1, 3), (1, 4)]


def test_a_late_answer_counts_when_it_has_arrived():
    runs = Runs(entry_of(call_of(text="Hi", stream=True), content="one"))
    call = call_of(text="Hi", stream=True)
    said(runs.session(), call)
    session = runs.session("call=1 attempt=1: stream_stall 1 for_ms=60000")
    attempt = session.start(call)
    session.answer(attempt)
    session.delivered(attempt)
    said(session, call)
    assert runs.observer.deliveries == [1]
    assert runs.observer.places == [(1, 1), (2, 1)]


def test_a_late_answer_that_the_client_did_not_wait_for_is_tried_again():
    runs = Runs(entry_of(call_of(text="Hi", stream=True), content="one"))
    call = call_of(text="Hi", stream=True)
    said(runs.session(), call)
    session = runs.session("call=1 attempt=1: stream_stall 1 for_ms=60000")
    answer_to(session, call)
    assert said(session, call) == ["one"]
    assert runs.observer.places == [(1, 1), (1, 2)]


def post(url, body, **options):
    with httpx2.Client(trust_env=False, timeout=30.0) as client:
        return client.post(f"{url}/v1/chat/completions", json=body, **options)


def test_a_server_reports_when_a_late_answer_has_arrived_and_forgets_runs_that_have_ended():
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with serving(responses={"_version": 2, "any": [{"content": "one"}]}, strict=True) as server:
        observer = Observer()
        explored_run = ExploredRun(ModelScript(), observer)
        server.start_session("run", faults=["call=1: stream_stall 1 for_ms=50"], explored_run=explored_run)
        assert post(server.session_url("run"), body).status_code == 200
        assert post(server.url, body | {"stream": False}).status_code == 200  # the server has noted the first by now
        assert observer.deliveries == [1]
        server.end_session("run")
        server.end_session("run")
        assert [session.name for session in server.sessions] == [""]


def test_a_server_reports_nothing_of_an_answer_that_the_client_did_not_wait_for():
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with serving(responses={"_version": 2, "any": [{"content": "one"}]}, strict=True) as server:
        observer = Observer()
        explored_run = ExploredRun(ModelScript(), observer)
        server.start_session("run", faults=["call=1: stream_stall 1 for_ms=60000"], explored_run=explored_run)
        with pytest.raises(httpx2.ReadTimeout):
            post(server.session_url("run"), body, timeout=0.1)
        assert post(server.url, body | {"stream": False}).status_code == 200
        assert observer.deliveries == []


@pytest.mark.parametrize(
    ("protocol", "usage", "total"),
    [
        ("openai_chat", "usage", "total_tokens"),
        ("openai_responses", "usage", "total_tokens"),
        ("gemini", "usageMetadata", "totalTokenCount"),
    ],
)
def test_a_total_that_an_entry_leaves_out_is_sent_as_the_sum(protocol, usage, total):
    entry = {"content": "Hello", "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    answer = answer_to(strict_session(ask=entry), call_of(protocol, headers={STEP: "ask"}))
    assert orjson.loads(answer.content)[usage][total] == 14


ORDER = {"role": "user", "content": "Order 42 never came"}
REFUND = {"tool_calls": [{"id": "toolu_1", "name": "look_up", "arguments": {"order_id": 42}}]}


def refund_call(protocol, *results, stream=False, model="m"):
    """A call of an agent whose refund had these results so far, each with a call of its own."""
    messages = [ORDER]
    for number, text in enumerate(results, 1):
        call_id = "toolu_1" if number == 1 else f"toolu_1_{number}"
        function = {"name": "look_up", "arguments": '{"order_id": 42}'}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
    return http_call(protocol, Request(tuple(messages), model, tools=(TOOL,), stream=stream))


def refund_runs(protocol, stream=False, **written):
    """The runs of an agent that asks for a refund and reports it, after the clean one."""
    runs = Runs(any=[REFUND, {"content": "It is done."}], on_miss="explore", **written)
    session = runs.session()
    for results in ((), ("refunded",)):
        read(answer_to(session, refund_call(protocol, *results, stream=stream)), protocol)
    return runs


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_program_gets_each_continuation_in_its_protocol(protocol, stream):
    runs = refund_runs(protocol, stream)
    failed = refund_call(protocol, "error: it failed", stream=stream)

    def answers(continuation, *calls):
        session = runs.session(continuation=continuation)
        found = [read(answer_to(session, call), protocol) for call in calls]
        assert session.continued_by == continuation
        assert len(session.misses) == len(calls)
        return found

    again, done = answers("stubborn", failed, refund_call(protocol, "error: it failed", "refunded", stream=stream))
    assert [(call.tool, call.args) for call in again.tool_calls] == [("look_up", {"order_id": 42})]
    assert done.content == "It is done."
    assert "gave-up-1" in answers("resigned", failed)[0].content
    assert answers("oblivious", failed)[0].content == "It is done."
    assert [outcome for _, _, outcome in runs.observer.answers] == ["continued"]


def test_the_same_messages_to_another_model_get_the_recorded_answer():
    session = refund_runs("openai_chat").session()
    assert read(answer_to(session, refund_call("openai_chat", model="other"))).tool_calls
    assert text_of(answer_to(session, refund_call("openai_chat", "refunded", model="other"))) == "It is done."
    assert list(session.misses) == []


def test_an_answer_written_by_hand_comes_before_a_continuation():
    runs = refund_runs("openai_chat", agent=[{"when": "tool_error", "content": "I am sorry."}])
    session = runs.session()
    assert text_of(answer_to(session, refund_call("openai_chat", "error: it failed"))) == "I am sorry."
    assert session.continued_by == ""
    assert list(session.misses) == []


def test_a_fault_fires_at_an_answer_of_a_continuation_too():
    runs = refund_runs("openai_chat")
    session = runs.session("call=1: empty_response", continuation="oblivious")
    assert text_of(answer_to(session, refund_call("openai_chat", "error: it failed"))) == ""
