"""Answers for calls that were recorded otherwise, or that no entry speaks of."""

import pytest

from offbook.messages import Request
from tests.wire.calls import (
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


@pytest.mark.parametrize("spoken", PROTOCOLS)
@pytest.mark.parametrize("asked", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_answered_in_every_protocol_from_a_recording_of_any_other(spoken, asked, stream):
    call_made = {"name": "look_up", "arguments": {"word": "y"}, "id": "call_1"}
    session = session_of(recording_of(recorded(spoken, content="Sure.", tool_calls=[call_made])), strict=True)
    answer = answer_to(session, conversation(asked, stream=stream))
    if spoken == asked:
        assert answer.status == 422
    else:
        response = read(answer, asked)
        assert response.content == "Sure."
        assert [(call.tool, call.args) for call in response.tool_calls] == [("look_up", {"word": "y"})]
        assert session.unused() == []


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
    assert (missed.kind, missed.key) == ("exhausted", "a")
    told = "a request to 'm': the recording has 2 answers for any request, and every one was served already."
    assert missed.text.endswith(f"{told}\n  hint: a new session starts from the beginning")


def test_an_entry_that_says_what_it_answers_comes_before_those_that_do_not():
    session = session_of(
        {"_version": 2, "any": {"content": "any"}, "mine": entry_of(call_of(), content="mine")}, strict=True
    )
    assert text_of(answer_to(session, call_of())) == "mine"
    assert text_of(answer_to(session, call_of(text="other"))) == "any"
