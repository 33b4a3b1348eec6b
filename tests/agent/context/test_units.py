"""Units: what stays or goes together."""

import pytest
from hypothesis import given

from offbook.agent.context import join_units, split_units
from offbook.agent.message import MessageType
from tests.agent.context.parts import (
    NUDGE_TYPES,
    assert_valid,
    call,
    nudge,
    reasoning,
    refused,
    system,
    text,
    transcripts,
    user,
)


def lengths(*messages):
    return [len(unit.messages) for unit in split_units(messages)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([system(), user()], [1, 1]),
        ([*call("one"), *call("two")], [2, 2]),
        ([*call("one", "two", "three")], [4]),
        ([reasoning(), *call("one", "two")], [4]),
        ([reasoning(), reasoning(), *call("one")], [4]),
        ([*call("one"), reasoning()], [2, 1]),
        ([reasoning(), user()], [1, 1]),
        ([text(), nudge()], [2]),
        ([reasoning(), text(), nudge()], [3]),
        ([reasoning(), nudge()], [2]),
        ([text(), user()], [1, 1]),
        ([*call("one"), nudge()], [2, 1]),
        ([*refused(), nudge()], [3]),
        ([text(), text()], [1, 1]),
        ([], []),
    ],
)
def test_a_call_keeps_its_reasoning_and_results_and_a_nudge_what_it_answers(messages, expected):
    assert lengths(*messages) == expected


def test_results_that_nobody_asked_for_stand_alone():
    stray = call("one")[1]
    assert lengths(user(), stray, stray) == [1, 1, 1]


def test_system_prompts_and_the_first_user_message_are_pinned():
    units = split_units([system("a"), nudge(), user("b"), user("c"), system("d"), *call("e")])
    assert [unit.messages[0].content for unit in units if unit.is_pinned] == ["a", "b", "d"]


def test_a_user_message_is_pinned_once_even_if_it_is_said_twice():
    assert [unit.is_pinned for unit in split_units([user("again"), user("again")])] == [True, False]


@pytest.mark.parametrize("of", NUDGE_TYPES)
def test_a_refused_call_is_refused_whatever_the_reason(of):
    (unit,) = split_units(refused(of=of))
    assert unit.is_refused


def test_a_turn_is_refused_as_a_whole():
    asked, one, two = call(
        "[NotRun] Call it again.", "[UnknownTool] There is no such tool.", type=MessageType.RETRY_NUDGE
    )
    (not_run, *_) = call("[NotRun] Call it again.")[1:]
    (unit,) = split_units([asked, not_run, two])
    assert unit.is_refused
    assert one.metadata.type != not_run.metadata.type


def test_an_answered_call_is_not_refused():
    assert not any(unit.is_refused for unit in split_units([user(), reasoning(), *call("one"), text()]))


@given(transcripts())
def test_units_joined_again_are_the_same_messages(messages):
    units = split_units(messages)
    assert all(joined is message for joined, message in zip(join_units(units), messages, strict=True))
    for unit in units:
        assert_valid(unit.messages)
