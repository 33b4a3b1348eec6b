"""Declaring scenarios."""

import pytest

from offbook.errors import InputError
from offbook.scenarios import Trajectory, expected, scenario, turn
from offbook.scenarios.users import user_prompt

WEATHER = {"get_weather": lambda args: {"city": args["city"]}}


def test_a_single_message_is_one_turn():
    assert [each.says for each in scenario("s", turns="hi").turns] == ["hi"]
    assert [each.says for each in scenario("s", turns=turn("hi")).turns] == ["hi"]


def test_a_single_fact_is_one_fact():
    assert scenario("s", goal="g", knowledge="Your order is 42.").knowledge == ("Your order is 42.",)


def test_a_single_metric_is_one_metric():
    assert scenario("s", goal="g", metrics="helpfulness").metrics == ("helpfulness",)


def test_facts_may_be_objects_with_their_content():
    facts = [{"content": "VIPs get 20 %."}, "SAVE10 gives 10 %."]
    declared = scenario("s", goal="save money", knowledge=facts)
    assert declared.knowledge == ("VIPs get 20 %.", "SAVE10 gives 10 %.")
    assert "- VIPs get 20 %.\n- SAVE10 gives 10 %." in user_prompt(declared)


def test_mocks_may_be_inside_an_object_of_tools():
    assert scenario("s", goal="g", mocks={"tools": WEATHER}).mocks == WEATHER


def test_a_tool_may_be_called_tools():
    mocks = {"tools": ["hammer"]}
    assert scenario("s", goal="g", mocks=mocks).mocks == mocks


@pytest.mark.parametrize(
    "mapping",
    [
        {"toolCalls": {"matchMode": "strict", "expected": [{"name": "search", "argMatchMode": "ignore"}]}},
        {"tool_calls": {"match_mode": "strict", "expected": [{"name": "search", "arg_match_mode": "ignore"}]}},
        [{"toolCalls": {"matchMode": "strict", "expected": ["search"]}}],
        Trajectory("strict", ["search"]),
    ],
)
def test_assertions_may_be_objects_in_snake_case_or_camel_case(mapping):
    for [wanted] in (scenario("s", goal="g", assertions=mapping).assertions, turn("hi", assertions=mapping).assertions):
        assert wanted.mode == "strict"
        assert wanted.expected == (expected("search"),)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"turns": [3]}, "scenario 's': turns: expected turn(…) or a str, got 3"),
        ({"turns": 3}, "scenario 's': turns: expected a list, got 3"),
        ({"knowledge": [{"text": "x"}]}, "scenario 's': knowledge: expected a fact as a str, got {'text': 'x'}"),
        ({"mocks": ["search"]}, "scenario 's': mocks: expected a dict of mocks, got ['search']"),
        ({"mocks": {"search": object}}, "scenario 's': mocks.search: "),
        ({"schemas": ["search"]}, "scenario 's': schemas: expected a dict, got ['search']"),
        ({"assertions": "strict"}, "scenario 's': assertions: expected a Trajectory, got 'strict'"),
        ({"assertions": [3]}, "scenario 's': assertions[0]: expected a Trajectory, got 3"),
        ({"thresholds": {"safety": "3"}}, "scenario 's': thresholds.safety: expected a number, got '3'"),
        ({"conversations": "3"}, "scenario 's': conversations must be at least 1, not '3'"),
        ({"unmocked": "eror"}, "scenario 's': unmocked: unknown value 'eror'"),
        ({"goal": ["x"]}, "scenario 's': goal: expected a str, got ['x']"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name_where_it_is_declared(fields, reason):
    with pytest.raises(InputError) as refused:
        scenario("s", **({"turns": ["hi"]} | fields))
    assert reason in str(refused.value)
    assert "test_scenario.py:" in refused.value.source


def test_a_turn_says_something():
    with pytest.raises(InputError, match="expected what the user says, got 3"):
        turn(3)
