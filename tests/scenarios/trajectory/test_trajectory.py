"""Trajectories that make sense, and those that do not."""

import re

import pytest

from offbook import InputError
from offbook.scenarios import Trajectory, expected


def test_the_name_of_a_tool_stands_for_any_call_of_it():
    assert Trajectory("strict", ["pay"]).expected == (expected("pay"),)
    assert Trajectory("strict", forbidden=["pay"]).forbidden == (expected("pay"),)
    assert Trajectory("strict", before=[("find", "pay")]).before == ((expected("find"), expected("pay")),)


def test_a_trajectory_is_shown_with_its_mode_and_calls():
    shown = repr(Trajectory("in_order", ["find", expected("pay", args={"amount": 30}, at_most=2)]))
    assert shown == "Trajectory('in_order', [find(…), pay(amount=30, …) at most 2])"


@pytest.mark.parametrize(
    ("mode", "given", "message"),
    [
        (
            "strikt",
            {},
            "mode 'strikt'\n  hint: did you mean 'strict'? modes: contains, in_order, strict, unordered, within",
        ),
        (None, {}, "Trajectory: mode: unknown mode None"),
        ("strict", {"expected": "pay"}, "Trajectory: expected: expected a list, got 'pay'"),
        ("strict", {"expected": expected("pay")}, "Trajectory: expected: expected a list, got"),
        ("strict", {"expected": None}, "Trajectory: expected: expected a list, got None"),
        ("strict", {"expected": ["a", 7]}, "Trajectory: expected[1]: expected a tool call, got 7"),
        ("strict", {"expected": [""]}, "Trajectory: expected[0]: expected a tool call, got ''"),
        ("strict", {"forbidden": "pay"}, "Trajectory: forbidden: expected a list, got 'pay'"),
        ("strict", {"forbidden": [None]}, "Trajectory: forbidden[0]: expected a tool call, got None"),
        (
            "strict",
            {"forbidden": [expected("pay", at_most=1)]},
            "Trajectory: forbidden[0]: a count means nothing here: pay(…) at most 1",
        ),
        ("strict", {"before": ("find", "pay")}, "Trajectory: before[0]: expected a pair of tool calls, got 'find'"),
        ("strict", {"before": [("a", "b", "c")]}, "Trajectory: before[0]: expected a pair of tool calls"),
        ("strict", {"before": [("a", 7)]}, "Trajectory: before[0]: expected a tool call, got 7"),
        ("strict", {"before": [("a", "a")]}, "Trajectory: before[0]: a(…) cannot come before itself"),
        ("strict", {"before": [("a", expected("b", exactly=1))]}, "a count means nothing here: b(…) exactly 1"),
    ],
)
def test_a_trajectory_that_makes_no_sense_is_refused(mode, given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Trajectory(mode, **given)
