"""What answers: something must, and plans for it have faults of models alone."""

from urllib.parse import unquote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import offbook
from offbook.errors import InputError
from offbook.faults import At, FaultPlan, HttpError, ToolLost, parse_fault
from offbook.wire.backend import (
    MAX_SESSIONS,
    SESSION_HEADER,
    CallInspection,
    SessionRegistry,
    WireBackend,
    WireOptions,
    parse_fault_plan,
    session_prefix,
    split_session_path,
)
from offbook.wire.recordings import UnusedExchange
from offbook.wire.request import HttpRequest, RequestParser
from offbook.wire.response import HttpResponse
from offbook.wire.session import CALL_BYTES, CallOutcome, RequestMemory, WireSession
from tests.wire.http_requests import answer_to, call_of, entry_of, recording_of, text_of

LINE = "call=1: http_error 500"


@pytest.mark.parametrize(
    "lines",
    [[LINE], [At(call=1).fail(HttpError(500))], FaultPlan([parse_fault(LINE)])],
    ids=["texts", "lines", "a plan"],
)
def test_a_plan_is_made_of_lines_or_taken_as_it_is(lines):
    assert str(parse_fault_plan(lines)) == LINE


@pytest.mark.parametrize(
    "lines",
    [
        [LINE, "tool=refund call=1: tool_lost"],
        [At(tool="refund", call=1).fail(ToolLost())],
        FaultPlan([At(tool="refund", call=1).fail(ToolLost())]),
    ],
    ids=["texts", "lines", "a plan"],
)
def test_a_fault_of_a_tool_is_refused_because_tools_run_elsewhere(lines):
    with pytest.raises(InputError) as caught:
        WireBackend(WireOptions(responses={}, faults=lines))
    error = caught.value
    assert error.source == "'tool=refund call=1: tool_lost'"
    assert error.place == "tool"
    assert error.reason == "faults of tools cannot fire over HTTP: tools run in the program under test"
    assert "inject_tools(tools, plan)" in error.hint


@pytest.mark.parametrize("stand_in", [offbook.serving, offbook.StandIn, offbook.http_client])
def test_who_is_given_nothing_to_answer_with_is_refused(stand_in):
    with pytest.raises(InputError, match="there is nothing to answer with") as caught:
        stand_in(strict=False, faults=[LINE])
    assert "give a recording, responses, a default_response, or record" in caught.value.hint


def test_a_default_alone_is_something_to_answer_with():
    assert offbook.StandIn(default_response="Hello!").calls == []


def test_a_text_is_no_list_of_faults():
    with pytest.raises(InputError, match="expected a list of faults, got a str"):
        parse_fault_plan(LINE)


ODD_NAMES = ["a b", "a/b", "100%", "%2F", "тест", "tests/x.py::test_it[a-?#&]", "..", "\0", "a\nb", "x" * 600, "é" * 90]


def stage(responses=None, **options):
    return WireBackend(WireOptions(responses=responses or {}, **options))


def within(path_prefix, call):
    return replace(call, path=path_prefix + call.path)


@given(st.text(min_size=1, max_size=30).filter(lambda name: name.isprintable()) | st.sampled_from(ODD_NAMES))
def test_a_name_of_whatever_characters_fits_into_a_path(name):
    arrived = unquote(session_prefix(name)) + "/v1/models"
    assert split_session_path(arrived) == (name, "/v1/models")


@pytest.mark.parametrize("path", ["/v1/models", "/s", "/s/", "/s//v1", "/sessions/a/b", "/s/" + "x" * 3_000 + "/v1"])
def test_other_paths_name_no_session(path):
    assert split_session_path(path) == ("", path)


def test_a_session_needs_no_slash_behind_its_name():
    assert split_session_path("/s/mine") == split_session_path("/s/mine/") == ("mine", "/")


def test_a_session_is_known_by_path_or_by_header_and_the_path_comes_first():
    sessions = stage().sessions
    session, call = sessions.for_request(within("/s/mine", call_of(headers={SESSION_HEADER: "other"})))
    assert session.name == "mine"
    assert call.path == call_of().path
    session, call = sessions.for_request(call_of(headers={SESSION_HEADER: "other"}))
    assert session.name == "other"
    assert call.path == call_of().path
    session, call = sessions.for_request(call_of())
    assert session.name == ""


def test_sessions_do_not_see_one_another():
    sessions = stage(
        recording_of(entry_of(call_of(), content="one"), entry_of(call_of(), content="two")), strict=True
    ).sessions
    a, b = sessions.start("a", parse_fault_plan(["call=1 attempt=1: http_error 500"])), sessions.named("b")
    assert answer_to(a, call_of()).status == 500
    assert [text_of(answer_to(session, call_of())) for session in (b, a, b, a)] == ["one", "one", "two", "two"]
    assert [(len(each.calls), len(each.faults.fired), len(each.unused())) for each in (a, b)] == [(3, 1, 0), (2, 0, 0)]


def test_a_session_that_nobody_started_has_the_faults_of_the_server():
    sessions = stage(faults=["call=1: http_error 500"]).sessions
    assert [answer_to(sessions.named(name), call_of()).status for name in ("", "new")] == [500, 500]
    assert answer_to(sessions.start("own", parse_fault_plan([])), call_of()).status == 200


def test_a_session_that_is_started_takes_the_place_of_its_namesake():
    sessions = stage(recording_of(entry_of(call_of(), content="one")), strict=True).sessions
    old = sessions.named("a")
    answer_to(old, call_of())
    new = sessions.start("a", parse_fault_plan([]))
    assert sessions.named("a") is new is not old
    assert text_of(answer_to(new, call_of())) == "one"
    assert len(new.calls) == 1


def test_a_session_can_be_looked_for_and_forgotten():
    sessions = stage().sessions
    assert sessions.find("a") is None
    session = sessions.named("a")
    assert sessions.find("a") is session
    assert [each.name for each in sessions] == ["a"]
    assert sessions.forget("a")
    assert not sessions.forget("a")
    assert sessions.find("a") is None


def test_what_became_of_a_session_outlasts_it():
    entries = [entry_of(call_of(), content="one"), entry_of(call_of(text="b"), content="two")]
    made = stage(recording_of(*entries), strict=True, faults=["call=1 attempt=1: http_error 500", "call=9: timeout"])
    for name, text in (("a", "Hi"), ("b", "b")):
        for _ in range(2):
            answer_to(made.sessions.named(name), call_of(text=text))
    totals = made.sessions.past.plus(made.sessions)
    made.sessions.forget("a")
    made.sessions.start("b", parse_fault_plan([]))
    for each in (totals, made.sessions.past.plus(made.sessions)):
        assert each.calls == 2
        assert each.tries == 4
        assert each.outcomes == {"fault": 2, "served": 2}
        assert [str(fired) for fired in each.faults.fired] == ["call=1 attempt=1: http_error 500"] * 2
        assert [str(line) for line in each.faults.fired_lines] == ["call=1 attempt=1: http_error 500"]
        assert made.replayed.left_after(each.uses) == []


def test_only_the_latest_requests_are_remembered_whatever_their_sessions():
    memory = RequestMemory(limit_bytes=3 * (CALL_BYTES + 400))
    sessions = {
        name: WireSession(name, parser=RequestParser(), source=None, encoder=None, is_live=True, memory=memory)
        for name in "ab"
    }
    for number, name in enumerate("aabbb"):
        attempt = sessions[name].start(call_of(text=str(number) * 300))
        sessions[name].note(attempt, HttpResponse(200), CallOutcome("passed"))
    kept = {name: [call.request is not None for call in session.calls] for name, session in sessions.items()}
    assert kept == {"a": [False, False], "b": [True, True, True]}
    sessions["b"].close()
    large = sessions["a"].start(call_of(text="x" * 10_000))
    sessions["a"].note(large, HttpResponse(200), CallOutcome("passed"))
    assert [call.request is not None for call in sessions["a"].calls] == [False, False, True]
    assert [call.number for call in sessions["a"].calls] == [1, 2, 3]


def test_the_oldest_sessions_are_forgotten_when_there_are_too_many_unless_they_are_in_use():
    sessions = SessionRegistry(
        lambda name, plan: WireSession(name, parser=RequestParser(), source=None, encoder=None, plan=plan)
    )
    for number in range(MAX_SESSIONS + 2):
        sessions.named("used")
        sessions.named(str(number))
    assert sum(1 for _ in sessions) == MAX_SESSIONS
    assert [sessions.find(str(number)) for number in range(3)] == [None] * 3
    assert [each.name for each in sessions][:2] == ["used", "3"]
    assert None not in (sessions.find("used"), sessions.find("3"))


def test_a_path_within_a_session_may_hold_line_breaks():
    session, call = stage().sessions.for_request(HttpRequest("GET", "/s/a/v1/x\ny", "", {}, b""))
    assert session.name == "a"
    assert call.path == "/v1/x\ny"


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("call=1: timeout", "a list of faults"),
        (["nonsense"], "where, a colon and a fault"),
        (["call=0: timeout"], "call"),
    ],
)
def test_faults_that_cannot_be_read_are_refused_at_once(faults, message):
    with pytest.raises(InputError, match=message):
        stage(faults=faults)


def left(stage):
    return CallInspection(stage).unused_exchanges()


def named(stage):
    return [(each.recording.rpartition("/")[2], each.key, each.session) for each in left(stage)]


@pytest.fixture
def folder(tmp_path):
    for name, keys in {"one": "ab", "two": "c"}.items():
        answers = {key: [{"content": f"{name} {key}"}] for key in keys}
        (tmp_path / f"{name}.json").write_bytes(orjson.dumps({"_version": 2, **answers}))
    return tmp_path


def test_without_a_call_everything_is_left():
    stage = WireBackend(WireOptions(responses=recording_of(a=[{"content": "x"}, {"content": "y"}])))
    assert left(stage) == [
        UnusedExchange("a", 0, "answers x", "responses", ""),
        UnusedExchange("a", 1, "answers y", "responses", ""),
    ]


def test_sessions_leave_what_none_of_them_used_and_the_only_one_is_named():
    stage = WireBackend(WireOptions(responses=recording_of(a=[{"content": "x"}, {"content": "y"}, {"content": "z"}])))
    answer_to(stage.sessions.named("one"), call_of())
    assert [(each.position, each.session) for each in left(stage)] == [(1, "one"), (2, "one")]
    for _ in range(2):
        answer_to(stage.sessions.named("two"), call_of())
    assert [(each.position, each.session) for each in left(stage)] == [(2, "")]


def test_a_session_that_was_not_asked_leaves_nothing_of_its_own(folder):
    stage = WireBackend(WireOptions(recording=folder))
    answer_to(stage.sessions.named("two"), call_of())
    stage.sessions.named("one")
    assert named(stage) == []


def test_what_a_session_of_a_folder_used_is_not_left_of_the_whole_nor_the_other_way_round(folder):
    stage = WireBackend(WireOptions(recording=folder))
    answer_to(stage.sessions.named("one"), call_of())
    assert named(stage) == [("one.json", "b", "one")]
    for _ in range(2):
        answer_to(stage.sessions.named(""), call_of())
    assert named(stage) == [("two.json", "c", "")]


def test_what_is_left_twice_is_reported_once(folder):
    stage = WireBackend(WireOptions(recording=folder))
    answer_to(stage.sessions.named("one"), call_of())
    answer_to(stage.sessions.named(""), call_of())
    assert named(stage) == [("one.json", "b", "one"), ("two.json", "c", "")]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (entry_of(call_of(text="What is the\n weather?"), model="gpt", content="x"), "gpt: What is the weather?"),
        (entry_of(HttpRequest("GET", "/v1/files", "", {}, b""), content="x"), "GET /v1/files"),
        (entry_of(call_of(text="a" * 100), content="x"), "a" * 59 + "…"),
        ({"content": "Hello\x1b[0m"}, "answers Hello [0m"),
        ({"tool_calls": [{"name": "look_up", "arguments": {}}]}, "answers look_up(…)"),
        ({"fault": {"type": "timeout"}}, "answers timeout"),
        ({}, "answers nothing"),
    ],
    ids=range(7),
)
def test_an_exchange_is_reported_by_what_it_is_about(entry, message):
    stage = WireBackend(WireOptions(responses=recording_of(a=[entry])))
    assert [each.about for each in left(stage)] == [message]
