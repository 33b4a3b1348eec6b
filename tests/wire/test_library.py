"""Recordings, and folders of them."""

import orjson
import pytest

from offbook.errors import InputError
from offbook.recording.file_format import convert
from offbook.recording.stores.locate import open_store
from offbook.wire.stage import Stage, StageOptions
from tests.wire.calls import answer_to, call_of, entry_of, recording_of, text_of

ONE = recording_of(entry_of(call_of(), content="one"), same=entry_of(call_of(text="same"), content="same"))
TWO = recording_of(entry_of(call_of(), content="two"), same=entry_of(call_of(text="same"), content="same"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.json").write_bytes(orjson.dumps(ONE))
    (tmp_path / "deep/two.x.json").write_bytes(orjson.dumps(TWO))
    (tmp_path / "notes.txt").write_text("no recording")
    (tmp_path / "folder.json").mkdir()
    return tmp_path


def sessions_of(recording, **options):
    return Stage(StageOptions(recording=recording, **options)).sessions


def error_of(recording, **options):
    with pytest.raises(InputError) as caught:
        sessions_of(recording, **options)
    return caught.value


def test_a_folder_answers_from_all_its_recordings(folder):
    session = sessions_of(folder).named("")
    assert sorted(text_of(answer_to(session, call_of())) for _ in range(2)) == ["one", "two"]
    assert answer_to(session, call_of()).status == 422


@pytest.mark.parametrize(("name", "content"), [("one", "one"), ("deep/two.x", "two")])
def test_a_session_that_is_named_like_a_recording_is_answered_from_that_alone(folder, name, content):
    sessions = sessions_of(folder)
    for _ in range(2):
        session = sessions.named(name)
        assert text_of(answer_to(session, call_of())) == content
        assert [unused.key for unused in session.unused()] == ["same"]
        sessions.forget(name)


def test_its_misses_name_the_file(folder):
    session = sessions_of(folder).named("deep/two.x")
    answer_to(session, call_of(text="other"))
    assert session.misses[0].text.startswith(f"{folder}/deep/two.x.json: ")


def test_an_entry_that_is_in_two_recordings_is_there_once(folder):
    session = sessions_of(folder).named("")
    assert [unused.key for unused in session.unused()].count("same") == 1


def test_a_database_answers_like_a_file(tmp_path):
    location = f"sqlite:///{tmp_path}/runs.db"
    open_store(location).save(convert(ONE, source="one"))
    session = sessions_of(location).named("")
    assert text_of(answer_to(session, call_of())) == "one"


@pytest.mark.parametrize(("options", "status"), [({}, 422), ({"strict": False}, 200), ({"default_response": "x"}, 200)])
def test_a_recording_is_strict_unless_told_otherwise(folder, options, status):
    session = sessions_of(folder / "one.json", **options).named("")
    assert answer_to(session, call_of(text="other")).status == status


def test_a_folder_without_recordings_is_refused(tmp_path):
    error = error_of(tmp_path)
    assert error.source == str(tmp_path)
    assert "no recordings" in error.reason


def test_one_bad_recording_of_a_folder_is_named(folder):
    (folder / "deep/bad.json").write_text('{"_version": 2, "a": {"content": 5}}')
    error = error_of(folder)
    assert error.source.endswith("deep/bad.json")
    assert error.place == "key 'a'.content"


def test_a_bad_recording_is_refused_at_its_place(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{"_version": 2,\n "a": {"content": "x"')
    error = error_of(path)
    assert error.source == str(path)
    assert "line 2" in error.place


def test_headers_that_would_split_an_answer_are_refused_at_their_place(tmp_path):
    wire = {"protocol": "openai_chat", "headers": {"x-note": "a\r\nset-cookie: b"}}
    (tmp_path / "bad.json").write_bytes(orjson.dumps({"_version": 2, "a": {"wire": wire}}))
    assert error_of(tmp_path / "bad.json").place == "key 'a'.wire"


@pytest.mark.parametrize("recording", ["", "no/such.json", "redis://host/0", "runs.db", "a\0b", "sqlite:///no/such.db"])
def test_what_is_no_recording_is_refused(recording):
    assert error_of(recording).reason


def test_recordings_with_different_rules_are_not_mixed(folder):
    (folder / "rules.json").write_bytes(orjson.dumps({"_version": 2, "_meta": {"normalise": {"whitespace": True}}}))
    assert "different normalise rules" in error_of(folder).reason


def test_the_rules_of_a_recording_are_honoured(tmp_path):
    rules = {"_meta": {"normalise": {"ignore": ["messages[*].content.at"]}}}
    path = tmp_path / "rules.json"
    asked = [call_of(text=orjson.dumps({"at": hour, "say": "Hi"}).decode()) for hour in (9, 17)]
    entry = entry_of(asked[0], content="x") | {"request_hash": ""}
    path.write_bytes(orjson.dumps({"_version": 2, **rules, "step": entry}))
    session = sessions_of(path).named("")
    first, second = (session.take(call).asked for call in asked)
    assert first.request_hash == second.request_hash


def test_one_source_is_enough(folder):
    assert "not both" in error_of(folder, responses={}).reason
    assert "not both" in error_of(folder / "one.json", responses={"a": {"content": "x"}}).reason
