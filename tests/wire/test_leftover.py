"""What a recording has that nobody asked for."""

import orjson
import pytest

from offbook.wire.http_call import HttpCall
from offbook.wire.leftover import Leftover
from offbook.wire.stage import Stage, StageOptions
from tests.wire.calls import answer_to, call_of, entry_of, recording_of


def left(stage):
    return stage.leftovers(stage.sessions.past.plus(stage.sessions))


def named(stage):
    return [(each.recording.rpartition("/")[2], each.key, each.session) for each in left(stage)]


@pytest.fixture
def folder(tmp_path):
    for name, keys in {"one": "ab", "two": "c"}.items():
        answers = {key: [{"content": f"{name} {key}"}] for key in keys}
        (tmp_path / f"{name}.json").write_bytes(orjson.dumps({"_version": 2, **answers}))
    return tmp_path


def test_without_a_call_everything_is_left():
    stage = Stage(StageOptions(responses=recording_of(a=[{"content": "x"}, {"content": "y"}])))
    assert left(stage) == [
        Leftover("a", 0, "answers x", "responses", ""),
        Leftover("a", 1, "answers y", "responses", ""),
    ]


def test_sessions_leave_what_none_of_them_used_and_the_only_one_is_named():
    stage = Stage(StageOptions(responses=recording_of(a=[{"content": "x"}, {"content": "y"}, {"content": "z"}])))
    answer_to(stage.sessions.named("one"), call_of())
    assert [(each.position, each.session) for each in left(stage)] == [(1, "one"), (2, "one")]
    for _ in range(2):
        answer_to(stage.sessions.named("two"), call_of())
    assert [(each.position, each.session) for each in left(stage)] == [(2, "")]


def test_a_session_that_was_not_asked_leaves_nothing_of_its_own(folder):
    stage = Stage(StageOptions(recording=folder))
    answer_to(stage.sessions.named("two"), call_of())
    stage.sessions.named("one")
    assert named(stage) == []


def test_what_a_session_of_a_folder_used_is_not_left_of_the_whole_nor_the_other_way_round(folder):
    stage = Stage(StageOptions(recording=folder))
    answer_to(stage.sessions.named("one"), call_of())
    assert named(stage) == [("one.json", "b", "one")]
    for _ in range(2):
        answer_to(stage.sessions.named(""), call_of())
    assert named(stage) == [("two.json", "c", "")]


def test_what_is_left_twice_is_told_once(folder):
    stage = Stage(StageOptions(recording=folder))
    answer_to(stage.sessions.named("one"), call_of())
    answer_to(stage.sessions.named(""), call_of())
    assert named(stage) == [("one.json", "b", "one"), ("two.json", "c", "")]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (entry_of(call_of(text="What is the\n weather?"), model="gpt", content="x"), "gpt: What is the weather?"),
        (entry_of(HttpCall("GET", "/v1/files", "", {}, b""), content="x"), "GET /v1/files"),
        (entry_of(call_of(text="a" * 100), content="x"), "a" * 59 + "…"),
        ({"content": "Hello\x1b[0m"}, "answers Hello [0m"),
        ({"tool_calls": [{"name": "look_up", "arguments": {}}]}, "answers look_up(…)"),
        ({"fault": {"type": "timeout"}}, "answers timeout"),
        ({}, "answers nothing"),
    ],
    ids=range(7),
)
def test_an_exchange_is_told_by_what_it_is_about(entry, told):
    stage = Stage(StageOptions(responses=recording_of(a=[entry])))
    assert [each.about for each in left(stage)] == [told]
