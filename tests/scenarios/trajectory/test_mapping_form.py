"""Trajectories that are written as mappings."""

import pytest

from offbook.errors import InputError
from offbook.scenarios import expected
from offbook.scenarios.trajectory.mapping_form import parse_assertions


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
