"""The assertion, as a test runner sees it."""

import traceback

import pytest

from offbook import InputError, ToolCall
from offbook.scenarios import Trajectory, assert_trajectory, match_trajectory

CALLS = [ToolCall("look"), ToolCall("pay", {"amount": 30})]


def test_nothing_happens_if_the_calls_match():
    assert assert_trajectory(CALLS, Trajectory("strict", ["look", "pay"])) is None


def test_the_message_is_the_reason_and_the_difference():
    trajectory = Trajectory("strict", ["look", "book", "pay"])
    match = match_trajectory(CALLS, trajectory)
    with pytest.raises(AssertionError) as caught:
        assert_trajectory(CALLS, trajectory)
    assert str(caught.value) == f"{match.reason}\n{match.difference}" == str(match)


def test_the_frame_of_the_assertion_is_hidden():
    with pytest.raises(AssertionError) as caught:
        assert_trajectory(CALLS, Trajectory("strict"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert [entry.name for entry in caught.traceback.filter(caught)] == ["test_the_frame_of_the_assertion_is_hidden"]


def test_calls_that_cannot_be_read_are_no_failed_assertion():
    with pytest.raises(InputError):
        assert_trajectory("look", Trajectory("strict"))


def test_a_match_reads_as_such():
    assert str(match_trajectory(CALLS, Trajectory("strict", ["look", "pay"]))) == "matched"
