"""Declaring trajectories, valid and invalid ones."""

import re

import pytest

from offbook import ToolCall
from offbook.errors import InputError
from offbook.scenarios import Trajectory, expected, match_trajectory, near
from offbook.scenarios.trajectory.trajectory import parse_assertions


def test_the_name_of_a_tool_stands_for_any_call_of_it():
    assert Trajectory("strict", ["pay"]).expected == (expected("pay"),)
    assert Trajectory("strict", forbidden=["pay"]).forbidden == (expected("pay"),)
    assert Trajectory("strict", before=[("find", "pay")]).before == ((expected("find"), expected("pay")),)


def test_a_trajectory_is_shown_with_its_mode_and_calls():
    shown = repr(Trajectory("in_order", ["find", expected("pay", args={"amount": 30}, at_most=2)]))
    assert shown == "Trajectory('in_order', [find(…), pay(amount=30, …) at most 2])"


@pytest.mark.parametrize(
    ("mode", "expected_calls", "message"),
    [
        (
            "strikt",
            {},
            "mode 'strikt'\n  hint: did you mean 'strict'?",
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
            "Trajectory: forbidden[0]: a count is not allowed here: pay(…) at most 1",
        ),
        ("strict", {"before": ("find", "pay")}, "Trajectory: before[0]: expected a pair of tool calls, got 'find'"),
        ("strict", {"before": [("a", "b", "c")]}, "Trajectory: before[0]: expected a pair of tool calls"),
        ("strict", {"before": [("a", 7)]}, "Trajectory: before[0]: expected a tool call, got 7"),
        ("strict", {"before": [("a", "a")]}, "Trajectory: before[0]: a(…) cannot come before itself"),
        ("strict", {"before": [("a", expected("b", exactly=1))]}, "a count is not allowed here: b(…) exactly 1"),
    ],
)
def test_a_trajectory_that_makes_no_sense_is_refused(mode, expected_calls, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Trajectory(mode, **expected_calls)


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
    ("fields", "message"),
    [
        ({"tool": ""}, "expected: tool: expected the name of a tool, got ''"),
        ({"tool": 7}, "expected: tool: expected the name of a tool, got 7"),
        ({"args": [1]}, "expected: args: expected a dict, got [1]"),
        ({"args": {}, "match": "exat"}, "unknown value 'exat'\n  hint: did you mean 'exact'?"),
        ({"args": {"a": 1}, "match": "ignore"}, "expected: match: args have no effect with match='ignore'"),
        ({"match": "exact"}, "expected: match: match='exact' requires args"),
        ({"match": "partial"}, "expected: match: match='partial' requires args"),
        ({"at_most": -1}, "expected: at_most: expected an int of at least 0, got -1"),
        ({"at_least": True}, "expected: at_least: expected an int of at least 0, got True"),
        ({"exactly": 1.5}, "expected: exactly: expected an int of at least 0, got 1.5"),
        ({"exactly": 1, "at_most": 1}, "expected: exactly: exactly excludes at_least and at_most"),
        ({"exactly": 1, "at_least": 1}, "expected: exactly: exactly excludes at_least and at_most"),
        ({"at_least": 3, "at_most": 2}, "expected: at_least: at_least=3 is more than at_most=2"),
    ],
)
def test_an_expectation_that_makes_no_sense_is_refused(fields, message):
    with pytest.raises(InputError, match=re.escape(message)):
        expected(**{"tool": "pay", **fields})


def calls(*expected_calls, **fields):
    return {"toolCalls": {"matchMode": "contains", "expected": list(expected_calls), **fields}}


def test_every_field_of_a_call_is_taken():
    mapping = {"name": "pay", "argMatchMode": "exact", "args": {"sum": 3}, "atLeast": 1, "atMost": 2}
    [trajectory] = parse_assertions(calls(mapping, forbidden=[{"name": "refund"}]))
    assert trajectory.expected == (expected("pay", args={"sum": 3}, match="exact", at_least=1, at_most=2),)
    assert trajectory.forbidden == (expected("refund"),)


def test_arguments_beside_ignore_are_ignored():
    [trajectory] = parse_assertions(calls({"name": "pay", "argMatchMode": "ignore", "args": {"sum": 3}}))
    assert trajectory.expected == (expected("pay"),)


def test_nothing_is_no_assertion():
    assert parse_assertions(None) == parse_assertions(()) == ()


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"toolcall": {}}, "assertions: unknown key 'toolcall'\n  hint: did you mean 'tool_calls'?"),
        ({"toolCalls": ["search"]}, "assertions: toolCalls: expected a dict, got ['search']"),
        ({"toolCalls": {"expected": []}}, "assertions: toolCalls: matchMode is missing"),
        ({"toolCalls": {"matchMode": "strct"}}, "assertions: toolCalls.mode: unknown mode 'strct'"),
        ({"toolCalls": {"matchMode": "strict", "expected": "search"}}, "toolCalls.expected: expected a list, got"),
        (calls({"nam": "search"}), "assertions: toolCalls.expected[0]: unknown key 'nam'"),
        (calls({"name": "search", "argMatchMode": "loose"}), "toolCalls.expected[0].match: unknown value 'loose'"),
        (calls({}), "toolCalls.expected[0].tool: expected the name of a tool, got ''"),
        (calls(3), "toolCalls.expected[0]: expected a tool call, got 3"),
        ({}, "expected a dict, got None"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(mapping, message):
    with pytest.raises(InputError) as refused:
        parse_assertions(mapping)
    assert message in str(refused.value)
