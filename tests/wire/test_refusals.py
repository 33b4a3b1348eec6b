"""Requests that their vendor would refuse, in a session: which are, and what becomes of them."""

import orjson
import pytest

from offbook.faults import FaultPlan
from offbook.messages import Response
from offbook.session.script import ModelScript
from offbook.vendors import CODECS
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest
from offbook.wire.session import NULL_OBSERVER, ExploredRun
from tests.codecs.rules.requests import asks, chat, messages, result, said, uses
from tests.wire.http_requests import answer_to, call_of, entry_of, recording_of, session_of, text_of

CHAT = "/v1/chat/completions"
DANGLING = chat(said("Hi"), asks("c1"), said("Go on"))


def call(body, path=CHAT):
    return HttpRequest("POST", path, "", {}, orjson.dumps(body))


def error_of(answer):
    return orjson.loads(answer.content)["error"]


def test_a_request_that_is_not_recorded_is_refused_in_the_words_of_its_vendor():
    session = session_of(recording_of(entry_of(call_of(), content="x")), strict=True)
    answer = answer_to(session, call(DANGLING))
    assert answer.status == 400
    assert error_of(answer)["param"] == "messages.[2].role"
    assert "did not have response messages: c1" in error_of(answer)["message"]


def test_a_refusal_is_a_miss_of_its_own_kind():
    session = session_of(recording_of(entry_of(call_of(), content="x")), strict=True)
    answer_to(session, call(DANGLING))
    assert [miss.kind for miss in session.misses] == ["rejected"]
    assert "messages.1: tool call 'c1' has no result" in str(session.misses[0])


def test_a_request_that_is_recorded_is_never_refused():
    session = session_of(recording_of(entry_of(call(DANGLING), content="accepted")), strict=True)
    assert text_of(answer_to(session, call(DANGLING))) == "accepted"
    assert "served already" in error_of(answer_to(session, call(DANGLING)))["message"]


@pytest.mark.parametrize("fault", [(), ("call=1 attempt=1: slow 1",)])
def test_a_request_that_differs_but_for_who_asks_is_not_refused_either(fault):
    recorded, now = ({**DANGLING, "prompt_cache_key": each} for each in ("monday", "tuesday"))
    session = session_of(recording_of(entry_of(call(recorded), content="accepted")), strict=True, faults=fault)
    assert text_of(answer_to(session, call(now))) == "accepted"


def test_an_entry_that_answers_any_request_answers_no_illegal_one():
    session = session_of({"_version": 2, "step": {"content": "x"}}, strict=False)
    assert answer_to(session, call(DANGLING)).status == 400


def test_an_entry_that_a_refused_request_did_not_get_is_left_for_the_next_one():
    step = {"x-offbook-step": "step"}
    session = session_of({"_version": 2, "step": [{"content": "one"}]}, strict=True)
    refused = HttpRequest("POST", CHAT, "", step, orjson.dumps(DANGLING))
    assert answer_to(session, refused).status == 400
    assert text_of(answer_to(session, call_of(headers=step))) == "one"


@pytest.mark.parametrize(("is_real", "status"), [(True, 400), (False, 200)])
def test_signatures_are_asked_for_after_real_answers_only(is_real, status):
    first = call(messages(), "/v1/messages")
    encoded = CODECS["anthropic"].encode_response(Response("x"))
    wire = {"protocol": "anthropic", "status": 200, "body": orjson.dumps(encoded).decode()}
    entry = entry_of(first, content="x", **({"wire": wire} if is_real else {}))
    session = session_of(recording_of(entry), strict=False)
    unsigned = call(
        messages(said("Hi"), said([{"type": "thinking", "thinking": "Hm."}], "assistant"), said("Go on")),
        "/v1/messages",
    )
    assert answer_to(session, unsigned).status == 200
    session = session_of(recording_of(entry), strict=False)
    assert answer_to(session, first).status == 200
    assert answer_to(session, unsigned).status == status


def test_lenient_requests_are_answered():
    session = session_of({}, strict=False, lenient_requests=True)
    assert answer_to(session, call(DANGLING)).status == 200


@pytest.mark.parametrize("fault", ["http_error 500", "stream_truncate 1", "empty_response"])
def test_a_fault_does_not_fire_at_a_request_that_is_refused(fault):
    session = session_of({}, strict=False, faults=[f"call=1: {fault}"])
    assert answer_to(session, call(DANGLING)).status == 400
    assert session.fired == []


def test_only_requests_to_models_have_rules():
    session = session_of({}, strict=False)
    assert answer_to(session, call({"model": "m", "input": "x"}, "/v1/embeddings")).status == 200
    assert answer_to(session, HttpRequest("GET", "/v1/models", "", {}, b"")).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", messages(said("Hi"), uses("t1"), said("Go on"))),
        ("/model/us.anthropic.claude-sonnet-4-5/invoke", messages(said("Hi"), uses("t1"), said("Go on"))),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5:rawPredict",
            messages(said("Hi"), uses("t1"), said("Go on")),
        ),
    ],
)
def test_the_rules_hold_for_a_model_on_every_cloud(path, body):
    if path != "/v1/messages":
        body = {name: value for name, value in body.items() if name != "model"} | {"anthropic_version": "v"}
    answer = answer_to(session_of({}, strict=False), call(body, path))
    assert answer.status == 400
    assert b"without `tool_result` blocks" in answer.content


def test_a_model_on_a_cloud_needs_no_model_in_its_request():
    body = {name: value for name, value in messages().items() if name != "model"}
    path = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5:rawPredict"
    assert answer_to(session_of({}, strict=False), call(body, path)).status == 200


def explored(recording, script=None):
    backend = WireBackend(WireOptions(responses=recording, strict=True))
    return backend.start("run", FaultPlan(), ExploredRun(script or ModelScript(), NULL_OBSERVER))


def test_an_illegal_request_of_a_clean_run_ends_it():
    session = explored(recording_of(entry_of(call_of(), content="x")))
    answer_to(session, call(DANGLING))
    assert "the API would refuse this request (400): messages.1: tool call 'c1' has no result" in session.diverged


def test_a_later_run_gets_the_refusal_and_goes_on():
    recording, script = recording_of(entry_of(call_of(), content="x")), ModelScript()
    answer_to(explored(recording, script), call_of())
    session = explored(recording, script)
    assert answer_to(session, call(DANGLING)).status == 400
    assert session.diverged == ""
    assert answer_to(session, call(chat(said("Hi"), asks("c1"), result("c1")))).status == 200
