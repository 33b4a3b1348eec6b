"""The shapes in which calls may be given."""

from types import SimpleNamespace

import pytest

from offbook import InputError, Message, Response, ToolCall
from offbook.agent import Message as TranscriptMessage
from offbook.agent import MessageMeta, MessageType, ToolCallInfo
from offbook.scenarios import MockedCall, Trajectory, expected, match_trajectory

ARGS = {"text": "tea"}
META = MessageMeta(MessageType.TOOL_CALL)
SEARCH = Trajectory("strict", [expected("search", args=ARGS, match="exact")])
NO_ARGUMENTS = Trajectory("strict", [expected("search", args={}, match="exact")])


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("search", ARGS),
        ToolCallInfo("search", ARGS),
        ToolCallInfo("search", '{"text": "tea"}'),
        MockedCall("search", ARGS),
        {"name": "search", "args": ARGS},
        {"tool": "search", "arguments": ARGS},
        {"name": "search", "arguments": '{"text": "tea"}'},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": ARGS},
        {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"text": "tea"}'}},
        SimpleNamespace(id="call_1", function=SimpleNamespace(name="search", arguments='{"text": "tea"}')),
        Message("assistant", tool_calls=(ToolCall("search", ARGS),)),
        Response(tool_calls=(ToolCall("search", ARGS),)),
        TranscriptMessage("assistant", "", META, (ToolCallInfo("search", ARGS),)),
        {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": ARGS}}]},
    ],
    ids=lambda call: f"{type(call).__name__}",
)
def test_a_call_may_have_any_usual_shape(call):
    assert match_trajectory([call], SEARCH)
    assert not match_trajectory([call], NO_ARGUMENTS)


@pytest.mark.parametrize(
    "call", [{"name": "search"}, {"name": "search", "args": None}, {"name": "search", "arguments": ""}]
)
def test_a_call_may_have_no_arguments(call):
    assert match_trajectory([call], NO_ARGUMENTS)


def test_messages_without_calls_are_passed_over():
    messages = [
        {"role": "user", "content": "Find tea"},
        {"role": "assistant", "tool_calls": [{"name": "search", "args": ARGS}]},
        {"role": "tool", "content": "found"},
        Message("assistant", "There is tea."),
    ]
    assert match_trajectory(messages, SEARCH)


def test_calls_may_come_one_by_one():
    assert match_trajectory((call for call in [ToolCall("search", ARGS)]), SEARCH)


def test_arguments_that_are_no_json_object_fit_only_where_arguments_do_not_matter():
    broken = {"name": "search", "arguments": '{"text": '}
    assert match_trajectory([broken], Trajectory("strict", ["search"]))
    for trajectory in (SEARCH, NO_ARGUMENTS):
        match = match_trajectory([broken], trajectory)
        assert (
            match.reason == """arguments differ: call 1, search: arguments: expected a JSON object, got '{"text": '"""
        )


@pytest.mark.parametrize("calls", ["search", b"search", {"name": "search"}, None, 7])
def test_calls_that_are_no_list_are_refused(calls):
    with pytest.raises(InputError, match="calls: expected a list of tool calls, got"):
        match_trajectory(calls, SEARCH)


@pytest.mark.parametrize("call", ["search", None, 7, {}, {"name": ""}, {"name": 7}, SimpleNamespace(name="search")])
def test_something_else_among_the_calls_is_refused_with_its_place(call):
    with pytest.raises(InputError, match="expected a tool call, got") as caught:
        match_trajectory([ToolCall("search"), call], SEARCH)
    assert (caught.value.source, caught.value.place) == ("calls", "[1]")
    assert caught.value.hint.startswith("a call is a ToolCall, or like")


def test_a_wrong_call_in_a_message_is_refused_with_its_place():
    with pytest.raises(InputError) as caught:
        match_trajectory([{"role": "assistant", "tool_calls": [{"name": "search"}, 7]}], SEARCH)
    assert caught.value.place == "[0].tool_calls[1]"


def test_arguments_of_a_wrong_type_are_refused_with_their_place():
    with pytest.raises(InputError, match="expected a dict or JSON text, got 7") as caught:
        match_trajectory([{"name": "search", "args": 7}], SEARCH)
    assert caught.value.place == "[0].args"
