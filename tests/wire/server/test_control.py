"""The server's own endpoints."""

import orjson
import pytest

from offbook import __version__, serving
from offbook.wire.request import HttpRequest
from tests.wire.http_requests import call_of, entry_of, recording_of
from tests.wire.raw_client import ask

SESSIONS = "/_offbook/sessions"


@pytest.fixture(scope="module")
def server():
    with serving(responses=recording_of(entry_of(call_of(), content="x")), strict=True) as server:
        yield server


@pytest.fixture
def control(server):
    def control_request(method, path, body=b""):
        response = ask(server.url, HttpRequest(method, path, "", {}, body))
        is_json = response.headers.get("content-type") == "application/json"
        return response.status, orjson.loads(response.body) if is_json else response.body

    return control_request


def test_the_server_says_that_it_is_well(control):
    assert control("GET", "/_offbook/health") == (200, {"status": "ok", "version": __version__})


def test_a_session_is_started_looked_at_and_forgotten(server, control):
    assert control("GET", f"{SESSIONS}/one")[0] == 404
    status, summary = control("PUT", f"{SESSIONS}/one", b'{"faults": ["call=2: http_error 500"]}')
    assert status == 201
    assert summary["name"] == "one"
    assert summary["unfired"] == ["call=2: http_error 500"]
    answers = [
        ask(server.session_url("one"), call_of(text=text, headers={"authorization": "Bearer hush"}))
        for text in ("Hi", "Ho", "Hum")
    ]
    assert [each.status for each in answers] == [200, 500, 422]
    status, report = control("GET", f"{SESSIONS}/one")
    assert status == 200
    assert report["unused"] == []
    assert report["fired"] == ["call=2 attempt=1: http_error 500"]
    assert [call["outcome"] for call in report["calls"]] == ["served", "fault", "missed"]
    assert [(miss["call"], miss["kind"]) for miss in report["misses"]] == [(3, "missing")]
    assert "hush" not in str(report)
    assert all("request" not in call for call in report["calls"])
    assert control("DELETE", f"{SESSIONS}/one") == (204, b"")
    assert control("DELETE", f"{SESSIONS}/one")[0] == 404


def test_a_program_reports_its_effects_to_its_session(server, control):
    control("PUT", f"{SESSIONS}/paying")
    effects = server.session_url("paying").removeprefix(server.url) + "/_offbook/effects"
    assert control("POST", effects, b'{"tool": "refund", "arguments": {"order": 42}}') == (204, b"")
    assert control("POST", effects, b'[{"tool": "mail"}, {"tool": "pay", "outcome": "failed"}]') == (204, b"")
    reported = [(each.tool, each.arguments, each.outcome) for each in server.session("paying").effects]
    assert reported == [("refund", {"order": 42}, "done"), ("mail", {}, "done"), ("pay", {}, "failed")]
    report = control("GET", f"{SESSIONS}/paying")[1]
    assert report["effects"][0] == {
        "tool": "refund",
        "arguments": {"order": 42},
        "outcome": "done",
        "source": "observed",
    }
    assert report["try_count"] == 0


def test_effects_without_a_session_belong_to_the_session_without_a_name(server, control):
    assert control("POST", "/_offbook/effects", b'{"tool": "mail"}') == (204, b"")
    assert [effect.tool for effect in server.session("").effects] == ["mail"]


@pytest.mark.parametrize("body", [b"", b"paid", b'{"arguments": {}}', b'{"tool": "pay", "args": {}}'])
def test_what_is_not_an_effect_is_refused_with_an_example(control, body):
    status, content = control("POST", "/_offbook/effects", body)
    assert status == 400
    assert "hint" in content["error"]
    assert control("GET", "/_offbook/effects")[0] == 405


def test_a_session_without_a_body_has_no_faults(control):
    assert control("PUT", f"{SESSIONS}/plain")[1]["unfired"] == []


def test_sessions_are_listed(control):
    control("PUT", f"{SESSIONS}/listed")
    status, listing = control("GET", SESSIONS)
    listed = next(each for each in listing["sessions"] if each["name"] == "listed")
    assert status == 200
    assert listed == {
        "name": "listed",
        "call_count": 0,
        "try_count": 0,
        "miss_count": 0,
        "unused_count": 1,
        "fired": [],
        "unfired": [],
    }


def test_the_session_without_a_name_can_be_started_anew(server, control):
    ask(server.url, call_of())
    assert ask(server.url, call_of()).status == 422
    assert control("PUT", f"{SESSIONS}/")[0] == 201
    assert ask(server.url, call_of()).status == 200


@pytest.mark.parametrize("name", ["", "default"])
def test_the_session_without_a_name_is_the_default_one(server, control, name):
    assert control("DELETE", f"{SESSIONS}/{name}") == (204, b"")
    assert control("DELETE", f"{SESSIONS}/{name}") == (204, b"")
    assert control("GET", f"{SESSIONS}/{name}")[1]["call_count"] == 0
    ask(server.url, call_of())
    status, body = control("GET", f"{SESSIONS}/{name}")
    assert status == 200
    assert body["name"] == ""
    assert body["call_count"] == 1
    assert control("PUT", f"{SESSIONS}/{name}")[1]["name"] == ""


def test_a_session_that_is_called_default_is_meant_before_the_one_without_a_name(server, control):
    ask(server.session_url("default"), call_of())
    assert control("GET", f"{SESSIONS}/default")[1]["name"] == "default"
    assert control("DELETE", f"{SESSIONS}/default")[0] == 204
    assert control("GET", f"{SESSIONS}/default")[1]["name"] == ""


def test_where_there_is_no_such_session_the_answer_lists_those_that_there_are(control):
    control("PUT", f"{SESSIONS}/default")
    control("PUT", f"{SESSIONS}/refund")
    for method in ("GET", "DELETE"):
        status, body = control(method, f"{SESSIONS}/refunt")
        assert status == 404
        assert "there is no session 'refunt'" in body["error"]
        assert "did you mean 'refund'? sessions: " in body["error"]
        assert "default, " in body["error"]


def test_an_unknown_field_of_a_wish_is_reported_with_the_one_that_is_meant(control):
    status, body = control("PUT", f"{SESSIONS}/x", b'{"fault": []}')
    assert status == 400
    assert body["error"] == "unknown field 'fault'\n  hint: did you mean 'faults'?"


def test_counts_tell_calls_from_their_tries(server, control):
    control("PUT", f"{SESSIONS}/tried", b'{"faults": ["call=1: http_error 500"]}')
    for _ in range(3):
        ask(server.session_url("tried"), call_of())
    body = control("GET", f"{SESSIONS}/tried")[1]
    assert body["call_count"] == 1
    assert body["try_count"] == 3
    assert [(call["call"], call["attempt"], call["outcome"]) for call in body["calls"]] == [
        (1, 1, "fault"),
        (1, 2, "fault"),
        (1, 3, "fault"),
    ]


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "a/b", "%D1%82", "%00", "..%2f..", "100%25"])
def test_a_name_may_have_odd_characters(control, name):
    status, summary = control("PUT", f"{SESSIONS}/{name}")
    assert status == 201
    assert control("GET", f"{SESSIONS}/{name}")[1]["name"] == summary["name"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"5",
        b"null",
        b'{"faults": 5}',
        b'{"faults": "call=1: timeout"}',
        b'{"faults": [1]}',
        b'{"faults": ["nonsense"]}',
        b'{"faults": ["call=0: timeout"]}',
        b'{"faults": ["tool=refund: tool_lost"]}',
        b'{"fault": []}',
        b'{"faults": ["\xff"]}',
        b'{"faults": ["\\ud800"]}',
        b'{"faults": ' + b"[" * 100_000,
        b'{"x": ' + b"[" * 100_000,
        b"[" * 100_000,
    ],
    ids=range(16),
)
def test_a_wish_that_makes_no_sense_is_refused_with_a_reason(server, control, body):
    status, answer = control("PUT", f"{SESSIONS}/refused", body)
    assert status == 400
    assert answer["error"]
    assert control("GET", f"{SESSIONS}/refused")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", SESSIONS, 405),
        ("PATCH", f"{SESSIONS}/x", 405),
        ("GET", "/_offbook", 404),
        ("GET", "/_offbookx", 404),
        ("GET", "/_offbook/nope", 404),
    ],
)
def test_there_is_nothing_else(control, method, path, status):
    got, body = control(method, path)
    assert got == status
    assert f"there is no {method} {path}" in body["error"]
    assert "GET /_offbook/health" in body["error"]
