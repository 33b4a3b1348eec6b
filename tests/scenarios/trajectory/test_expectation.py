"""What can be expected of one call, and how it reads."""

import re

import pytest

from offbook import InputError, ToolCall
from offbook.scenarios import Trajectory, expected, match_trajectory, near

PAY = ToolCall("pay", {"amount": 30, "to": "Ada"})


@pytest.mark.parametrize(
    ("expectation", "fits"),
    [
        (expected("pay"), True),
        (expected("pay", match="ignore"), True),
        (expected("pay", args={"amount": 30}), True),
        (expected("pay", args={}), True),
        (expected("pay", args={"amount": 30}, match="partial"), True),
        (expected("pay", args={"amount": 30}, match="exact"), False),
        (expected("pay", args={"to": "Ada", "amount": 30}, match="exact"), True),
        (expected("pay", args={}, match="exact"), False),
        (expected("pay", args={"amount": 31}), False),
        (expected("refund"), False),
    ],
    ids=str,
)
def test_arguments_are_matched_as_asked_and_partially_if_nothing_is_said(expectation, fits):
    assert expectation.fits(PAY) is fits
    assert match_trajectory([PAY], Trajectory("strict", [expectation])).matched is fits


@pytest.mark.parametrize(
    ("expectation", "text"),
    [
        (expected("pay"), "pay(…)"),
        (expected("pay", args={"amount": near(30, within=1)}), "pay(amount=near(30, within=1), …)"),
        (expected("pay", args={"amount": 30}, match="exact"), "pay(amount=30)"),
        (expected("pay", args={}, match="exact"), "pay()"),
        (expected("pay", exactly=2), "pay(…) exactly 2"),
        (expected("pay", at_most=3), "pay(…) at most 3"),
        (expected("pay", at_least=1), "pay(…) at least 1"),
        (expected("pay", at_least=1, at_most=3), "pay(…) 1 to 3"),
        (expected("pay", args={"to": "A" * 99}, at_most=3), f"pay(to='{'A' * 41}… at most 3"),
    ],
)
def test_an_expectation_reads_like_a_call(expectation, text):
    assert str(expectation) == text
    assert len(text) <= 60


def test_an_expectation_keeps_its_arguments_when_the_dict_changes():
    args = {"amount": 30}
    expectation = expected("pay", args=args)
    args["amount"] = 31
    assert expectation.fits(PAY)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tool": ""}, "expected: tool: expected the name of a tool, got ''"),
        ({"tool": 7}, "expected: tool: expected the name of a tool, got 7"),
        ({"args": [1]}, "expected: args: expected a dict, got [1]"),
        ({"args": {}, "match": "exat"}, "unknown way to match: 'exat'\n  hint: did you mean 'exact'?"),
        ({"args": {"a": 1}, "match": "ignore"}, "expected: match: args are given, and ignored"),
        ({"match": "exact"}, "expected: match: there is nothing to match exactly"),
        ({"match": "partial"}, "expected: match: there is nothing to match partially"),
        ({"at_most": -1}, "expected: at_most: expected a count from 0, got -1"),
        ({"at_least": True}, "expected: at_least: expected a count from 0, got True"),
        ({"exactly": 1.5}, "expected: exactly: expected a count from 0, got 1.5"),
        ({"exactly": 1, "at_most": 1}, "expected: exactly: more than one count is given"),
        ({"exactly": 1, "at_least": 1}, "expected: exactly: more than one count is given"),
        ({"at_least": 3, "at_most": 2}, "expected: at_least: at least 3 is more than at most 2"),
    ],
)
def test_an_expectation_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        expected(**{"tool": "pay", **given})
