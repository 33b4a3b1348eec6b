"""Transcripts and their snapshots."""

import pytest
import yaml

from offbook.agent import Message, MessageMeta, MessageRole, MessageType, ToolCallInfo, Transcript


def user_message(text, kind=MessageType.USER_INPUT, **rest):
    return Message("user", text, MessageMeta(kind), **rest)


@pytest.fixture
def transcript():
    return Transcript(lambda message: None, [user_message("one"), user_message("two"), user_message("three")])


def test_a_snapshot_stays_as_it_is(transcript):
    snapshot = transcript.snapshot()
    transcript.add(user_message("four"))
    assert [message["content"] for message in snapshot] == ["one", "two", "three"]
    assert len(transcript.snapshot()) == 4


def test_a_snapshot_stays_as_it_is_after_a_compaction(transcript):
    snapshot = transcript.snapshot()
    shorter = transcript.with_messages([user_message("summary")])
    shorter.add(user_message("four"))
    assert len(snapshot) == 3
    assert len(transcript) == 3
    assert len(shorter.snapshot()) == 2


def test_a_snapshot_is_a_sequence_like_any_other(transcript):
    snapshot = transcript.snapshot()
    transcript.add(user_message("four"))
    assert snapshot[-1]["content"] == snapshot[2]["content"] == "three"
    assert [message["content"] for message in snapshot[1:]] == ["two", "three"]
    assert snapshot == list(snapshot)
    assert snapshot != [*snapshot, {}]
    assert snapshot != "three"
    assert repr(snapshot) == repr(list(snapshot))
    for outside in (3, -4):
        with pytest.raises(IndexError):
            snapshot[outside]


def test_a_transcript_is_a_sequence_of_messages(transcript):
    assert transcript[0].content == "one"
    assert [message.content for message in transcript[1:]] == ["two", "three"]


def test_listeners_do_not_hear_the_seed():
    received = []
    transcript = Transcript(received.append, [user_message("before")])
    transcript.add(user_message("now"))
    assert [message.content for message in received] == ["now"]


def test_arguments_that_are_no_object_stay_a_text():
    call = ToolCallInfo("fetch", '{"broken', "a")
    message = Message("assistant", "", MessageMeta(MessageType.TOOL_CALL), (call,))
    assert message.to_dict()["tool_calls"][0]["function"]["arguments"] == '{"broken'


def test_clients_get_plain_texts_alone():
    message = Message(MessageRole.USER, "Hi", MessageMeta(MessageType.USER_INPUT))
    (sent,) = Transcript(print, [message]).snapshot()
    assert {type(value) for value in sent.values()} == {str}
    assert yaml.safe_dump(sent, default_flow_style=True) == "{content: Hi, role: user}\n"


def test_roles_and_types_are_shown_as_texts():
    message = Message(MessageRole.TOOL, "Hi", MessageMeta(MessageType.TOOL_RESULT))
    assert repr(message).startswith("Message(role='tool', content='Hi', metadata=MessageMeta(type='tool_result'")
