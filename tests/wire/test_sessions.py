"""Sessions by name."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.wire.http_call import HttpCall
from offbook.wire.sessions import MAX_SESSIONS, SESSION_HEADER, prefix_of, split_path
from offbook.wire.stage import Stage, StageOptions, plan_of
from tests.wire.calls import answer_to, call_of, entry_of, recording_of, text_of

ODD_NAMES = ["a b", "a/b", "100%", "%2F", "тест", "tests/x.py::test_it[a-?#&]", "..", "\0", "a\nb", "x" * 600, "é" * 90]


def stage(responses=None, **options):
    return Stage(StageOptions(responses=responses or {}, **options))


def within(path_prefix, call):
    return replace(call, path=path_prefix + call.path)


@given(st.text(min_size=1, max_size=30).filter(lambda name: name.isprintable()) | st.sampled_from(ODD_NAMES))
def test_a_name_of_whatever_characters_fits_into_a_path(name):
    arrived = unquote(prefix_of(name)) + "/v1/models"
    assert split_path(arrived) == (name, "/v1/models")


@pytest.mark.parametrize(
    "path", ["/v1/models", "/s", "/s/", "/s/a", "/s//v1", "/sessions/a/b", "/s/" + "x" * 3_000 + "/v1"]
)
def test_other_paths_name_no_session(path):
    assert split_path(path) == ("", path)


def test_a_session_is_known_by_path_or_by_header_and_the_path_comes_first():
    sessions = stage().sessions
    session, call = sessions.of(within("/s/mine", call_of(headers={SESSION_HEADER: "other"})))
    assert (session.name, call.path) == ("mine", call_of().path)
    session, call = sessions.of(call_of(headers={SESSION_HEADER: "other"}))
    assert (session.name, call.path) == ("other", call_of().path)
    session, call = sessions.of(call_of())
    assert session.name == ""


def test_sessions_do_not_see_one_another():
    sessions = stage(
        recording_of(entry_of(call_of(), content="one"), entry_of(call_of(), content="two")), strict=True
    ).sessions
    a, b = sessions.start("a", plan_of(["call=1 attempt=1: http_error 500"])), sessions.named("b")
    assert answer_to(a, call_of()).status == 500
    assert [text_of(answer_to(session, call_of())) for session in (b, a, b, a)] == ["one", "one", "two", "two"]
    assert [(len(each.calls), len(each.fired), len(each.unused())) for each in (a, b)] == [(3, 1, 0), (2, 0, 0)]


def test_a_session_that_nobody_started_has_the_faults_of_the_server():
    sessions = stage(faults=["call=1: http_error 500"]).sessions
    assert [answer_to(sessions.named(name), call_of()).status for name in ("", "new")] == [500, 500]
    assert answer_to(sessions.start("own", plan_of([])), call_of()).status == 200


def test_a_session_that_is_started_takes_the_place_of_its_namesake():
    sessions = stage(recording_of(entry_of(call_of(), content="one")), strict=True).sessions
    old = sessions.named("a")
    answer_to(old, call_of())
    new = sessions.start("a", plan_of([]))
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
    made.sessions.start("b", plan_of([]))
    for told in (totals, made.sessions.past.plus(made.sessions)):
        assert (told.calls, told.tries, told.outcomes) == (2, 4, {"struck": 2, "served": 2})
        assert [str(fired) for fired in told.fired] == ["call=1 attempt=1: http_error 500"] * 2
        assert [str(line) for line in told.struck] == ["call=1 attempt=1: http_error 500"]
        assert made.leftovers(told) == []


def test_the_oldest_sessions_are_forgotten_when_there_are_too_many():
    sessions = stage().sessions
    for number in range(MAX_SESSIONS + 2):
        sessions.named(str(number))
    assert sum(1 for _ in sessions) == MAX_SESSIONS
    assert (sessions.find("0"), sessions.find("1")) == (None, None)
    assert sessions.find("2") is not None


def test_a_path_within_a_session_may_hold_line_breaks():
    session, call = stage().sessions.of(HttpCall("GET", "/s/a/v1/x\ny", "", {}, b""))
    assert (session.name, call.path) == ("a", "/v1/x\ny")


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ("call=1: timeout", "a list of faults"),
        (["nonsense"], "where, a colon and a fault"),
        (["call=0: timeout"], "call"),
    ],
)
def test_faults_that_cannot_be_read_are_refused_at_once(faults, told):
    with pytest.raises(InputError, match=told):
        stage(faults=faults)
