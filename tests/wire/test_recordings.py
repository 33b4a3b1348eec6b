"""When answers are due."""

import orjson
import pytest

from offbook.errors import InputError
from offbook.messages import Request
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import open_store
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from tests.wire.http_requests import (
    PROTOCOLS,
    TOOL,
    answer_to,
    call_of,
    entry_of,
    http_call,
    read,
    recording_of,
    session_of,
    text_of,
)

CHUNKS = [[10.0, "one "], [25.0, "two "], [40.0, "three"]]
STREAMED = {"content": "one two three", "chunks": CHUNKS, "latency_ms": 50.0}
FRAMES = [[7.0, "data: 1\n\n"], [9.0, "data: 2\n\n"]]
WIRE = {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": FRAMES}


def times(answer):
    return [at_ms for at_ms, _ in answer.frames]


def test_nothing_is_waited_for_unless_it_is_asked_for():
    for stream in (False, True):
        answer = answer_to(session_of({"a": STREAMED}), call_of(stream=stream))
        assert times(answer) == [0.0]
        assert answer.end_ms == 0.0


@pytest.mark.parametrize("stream", [False, True])
def test_a_constant_latency_puts_the_whole_answer_off(stream):
    answer = answer_to(session_of({"a": STREAMED}, latency_ms=30.0), call_of(stream=stream))
    assert times(answer) == [30.0]
    assert answer.end_ms == 30.0
    assert text_of(answer) == "one two three"


def test_made_up_answers_and_defaults_are_put_off_too():
    session = session_of({}, latency_ms=30.0)
    assert times(answer_to(session, call_of())) == [30.0]


def test_a_replayed_stream_has_its_recorded_times():
    answer = answer_to(session_of({"a": STREAMED}, latency_model="replay"), call_of(stream=True))
    assert times(answer) == [0.0, 10.0, 25.0, 40.0, 50.0]
    assert answer.end_ms == 50.0
    at_25 = dict(answer.frames)[25.0]
    assert b"two " in at_25
    assert b"three" not in at_25
    assert b"[DONE]" in answer.frames[-1][1]


def test_a_replayed_whole_answer_comes_when_it_came():
    answer = answer_to(session_of({"a": STREAMED}, latency_model="replay"), call_of())
    assert times(answer) == [50.0]


def test_replayed_bytes_come_when_they_came():
    call = call_of(stream=True)
    recording = recording_of(entry_of(call, wire=WIRE, latency_ms=12.0))
    assert answer_to(session_of(recording, latency_model="replay"), call).frames == (
        (7.0, b"data: 1\n\n"),
        (9.0, b"data: 2\n\n"),
    )
    assert times(answer_to(session_of(recording), call)) == [0.0]
    assert times(answer_to(session_of(recording, latency_ms=5.0), call)) == [5.0]


def test_a_normal_latency_is_drawn_for_each_call_the_same_for_the_same_seed():
    def drawn(seed):
        session = session_of({"a": STREAMED | {"model": "real"}}, latency_model="normal", latency_ms=100.0, seed=seed)
        return [times(answer_to(session, call_of())) for _ in range(5)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len({at_ms for [at_ms] in drawn(1)}) == 5
    assert all(50.0 < at_ms < 150.0 for [at_ms] in drawn(1))


def test_a_fault_keeps_the_times_of_what_it_lets_through():
    session = session_of({"a": STREAMED}, latency_model="replay", faults=["everywhere: stream_truncate 3 raise=cut"])
    answer = answer_to(session, call_of(stream=True))
    assert times(answer) == [0.0, 10.0, 25.0]
    assert answer.end_ms == 25.0
    assert answer.ending == "cut"


def test_a_stall_comes_on_top_of_the_recorded_times():
    session = session_of({"a": STREAMED}, latency_model="replay", faults=["everywhere: stream_stall 2 for_ms=1000"])
    answer = answer_to(session, call_of(stream=True))
    assert times(answer) == [0.0, 10.0, 1025.0, 1040.0, 1050.0]
    assert answer.end_ms == 1050.0


@pytest.mark.parametrize("ending", ["ConnectionError", "cut", "TimeoutError"])
def test_bytes_of_a_stream_that_broke_off_break_off_again(ending):
    call = call_of(stream=True)
    fault = {"type": "stream_truncate", "after_chunks": 2, "raise": ending}
    recording = recording_of(entry_of(call, wire=WIRE, fault=fault))
    answer = answer_to(session_of(recording, latency_model="replay"), call)
    assert answer.content == b"data: 1\n\ndata: 2\n\n"
    assert answer.ending == {"ConnectionError": "reset", "cut": "cut", "TimeoutError": "silence"}[ending]
    assert answer.end_ms == (float("inf") if ending == "TimeoutError" else 9.0)


@pytest.mark.parametrize("options", [{"latency_model": "slow"}, {"latency_ms": -1.0}, {"latency_ms": float("nan")}])
def test_latencies_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError):
        session_of({}, **options)


def test_an_old_recording_is_not_strict_enough():
    with pytest.raises(InputError, match="version"):
        session_of({"a": {"content": "x"}, "_version": 1}, strict=True)

    assert text_of(answer_to(session_of({"a": {"content": "x"}}, strict=False), call_of())) == "x"


def test_an_empty_file_is_called_empty_and_not_old(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="the recording is empty"):
        WireBackend(WireOptions(recording=path))


def test_rules_that_cannot_be_read_are_refused_at_their_place():
    with pytest.raises(InputError, match=r"_meta\.normalise\.mask"):
        session_of({"_version": 2, "_meta": {"normalise": {"mask": ["("]}}})


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
    return WireBackend(WireOptions(recording=recording, **options)).sessions


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
    open_store(location).save(document_from_dict(ONE, source="one"))
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
    calls = [call_of(text=orjson.dumps({"at": hour, "say": "Hi"}).decode()) for hour in (9, 17)]
    entry = entry_of(calls[0], content="x") | {"request_hash": ""}
    path.write_bytes(orjson.dumps({"_version": 2, **rules, "step": entry}))
    session = sessions_of(path).named("")
    first, second = (session.start(call).parsed for call in calls)
    assert first.request_hash == second.request_hash


def test_one_source_is_enough(folder):
    assert "not both" in error_of(folder, responses={}).reason
    assert "not both" in error_of(folder / "one.json", responses={"a": {"content": "x"}}).reason


CALLED = {"id": "call_9", "type": "function", "function": {"name": "look_up", "arguments": '{"word":"x"}'}}
CONVERSATION = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALLED]},
    {"role": "tool", "tool_call_id": "call_9", "content": "found"},
)


def conversation(protocol, *, stream, **fields):
    request = Request(
        messages=CONVERSATION, stream=stream, **{"model": "m", "tools": (TOOL,), "max_tokens": 99, **fields}
    )
    return http_call(protocol, request)


def recorded(protocol, **fields):
    """An entry that was recorded of that protocol: other parameters and another model than are asked for."""
    call = conversation(protocol, stream=False, model="recorded", max_tokens=7, temperature=0.5)
    return entry_of(call, model="recorded", wire={"protocol": protocol, "body": "{}"}, **fields)


@pytest.mark.parametrize("place", range(len(PROTOCOLS)), ids=PROTOCOLS)
def test_a_conversation_is_answered_in_every_protocol_from_a_recording_of_any_other(place):
    tool_call = {"name": "look_up", "arguments": {"word": "y"}, "id": "call_1"}
    recording = recording_of(recorded(PROTOCOLS[place], content="Sure.", tool_calls=[tool_call]))
    for other, protocol in enumerate(PROTOCOLS):
        session = session_of(recording, strict=True)
        answer = answer_to(session, conversation(protocol, stream=(place + other) % 2 == 0))
        if place == other:
            assert answer.status == 422
        else:
            response = read(answer, protocol)
            assert response.content == "Sure."
            assert [(call.tool, call.args) for call in response.tool_calls] == [("look_up", {"word": "y"})]
            assert session.unused() == []


def test_null_fields_and_the_spelling_of_arguments_do_not_make_another_conversation():
    spelt = {"caller": None, **CALLED, "function": {"name": "look_up", "arguments": '{ "word": "x" }'}}
    messages = [*CONVERSATION[:2], {"role": "assistant", "tool_calls": [spelt]}, CONVERSATION[3]]
    session = session_of(recording_of(recorded("anthropic", content="one")), strict=True)
    request = Request(messages=messages, tools=(TOOL,), model="m")
    assert text_of(answer_to(session, http_call("openai_chat", request))) == "one"


def test_entries_of_another_protocol_answer_in_order_and_once():
    session = session_of(
        recording_of(recorded("anthropic", content="one"), recorded("anthropic", content="two")), strict=True
    )
    call = conversation("openai_chat", stream=False)
    assert [text_of(answer_to(session, call)) for _ in range(2)] == ["one", "two"]
    assert answer_to(session, call).status == 422
    assert session.misses[0].kind == "exhausted"


def test_an_entry_of_another_protocol_that_answers_every_call_does_so():
    session = session_of({"_version": 2, "step": recorded("gemini", content="one")}, strict=True)
    call = conversation("ollama", stream=False)
    assert [text_of(answer_to(session, call), "ollama") for _ in range(3)] == ["one"] * 3


@pytest.mark.parametrize("other", [{"tools": ()}, {"messages": CONVERSATION[:2]}])
def test_another_conversation_is_not_answered(other):
    session = session_of(recording_of(recorded("anthropic", content="one")), strict=True)
    request = Request(**{"messages": CONVERSATION, "tools": (TOOL,), "model": "m"} | other)
    assert answer_to(session, http_call("openai_chat", request)).status == 422


@pytest.mark.parametrize(("provider", "status"), [("anthropic", 200), ("openai", 422), ("", 200)])
def test_an_entry_of_a_process_was_recorded_in_the_protocol_of_its_provider(provider, status):
    entry = entry_of(call_of(temperature=0.5), content="x", provider=provider)
    session = session_of(recording_of(entry), strict=True)
    assert answer_to(session, call_of(temperature=0.9)).status == status


def test_normalise_rules_apply_to_conversations():
    entry = entry_of(
        call_of("anthropic", "It is 9", max_tokens=5), content="x", wire={"protocol": "anthropic", "body": "{}"}
    )
    recording = recording_of(entry) | {"_meta": {"normalise": {"mask": [r"\d+"]}}}
    session = session_of(recording, strict=True)
    assert text_of(answer_to(session, call_of(text="It is 17"))) == "x"
    assert answer_to(session_of(recording_of(entry), strict=True), call_of(text="It is 17")).status == 422


@pytest.mark.parametrize("strict", [False, True])
def test_entries_that_do_not_say_what_they_answer_answer_in_order(strict):
    session = session_of(
        {"_version": 2, "b": {"content": "one"}, "a": [{"content": "two"}, {"content": "three"}]}, strict=strict
    )
    said = [text_of(answer_to(session, call_of(text=text))) for text in ("x", "y", "z")]
    assert said == ["one", "two", "three"]


def test_after_the_last_of_them_one_that_answers_every_call_goes_on():
    session = session_of({"_version": 2, "a": {"content": "one"}, "b": [{"content": "two"}]}, strict=True)
    assert [text_of(answer_to(session, call_of())) for _ in range(4)] == ["one", "two", "one", "one"]


def test_a_list_that_is_used_up_is_a_miss():
    session = session_of({"_version": 2, "a": [{"content": "one"}, {"content": "two"}]}, strict=True)
    assert [text_of(answer_to(session, call_of())) for _ in range(2)] == ["one", "two"]
    assert answer_to(session, call_of()).status == 422
    (missed,) = session.misses
    assert missed.kind == "exhausted"
    assert missed.key == "a"
    message = "a request to 'm': the recording has 2 answers for any request, and every one was served already."
    assert missed.text.endswith(f"{message}\n  hint: a new session starts from the beginning")


def test_an_entry_that_says_what_it_answers_comes_before_those_that_do_not():
    session = session_of(
        {"_version": 2, "any": {"content": "any"}, "mine": entry_of(call_of(), content="mine")}, strict=True
    )
    assert text_of(answer_to(session, call_of())) == "mine"
    assert text_of(answer_to(session, call_of(text="other"))) == "any"
