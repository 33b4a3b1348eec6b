"""Runs as JSON."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from offbook.report.scenarios.json_report import json_report, load_suite
from offbook.scenarios.result import SuiteOrigin, TurnRecord
from tests.report import runs

FIELDS = ["version", "passed", "is_complete", "origin", "tokens", "cost_usd", "latency_s", "groups", "scenarios"]
SCENARIO_FIELDS = ["name", "agent", "source", "passed", "figures", "failures", "never_called", "conversations"]


def report_of(result):
    return json.loads(json_report(result))


def with_result(value, args=None):
    """A run with one call, which gave the value."""
    turn = TurnRecord(0, "Hi", "Hello", (runs.call(args=args, result=value),))
    return runs.suite(runs.scenario(conversations=(runs.conversation(turns=(turn,)),)))


def call_in(report):
    return report["scenarios"][0]["conversations"][0]["turns"][0]["calls"][0]


def test_everything_is_reported_in_a_fixed_order():
    report = report_of(runs.two_agents())
    assert list(report) == FIELDS
    first = report["scenarios"][0]
    assert list(first) == SCENARIO_FIELDS
    assert first["figures"]["pass_hat_k"] == {"1": 1 / 3, "2": 0, "3": 0}
    assert first["figures"]["metrics"]["helpfulness"]["mean"] == 5
    assert first["conversations"][1]["failures"] == [
        {"kind": "assertion", "reason": "a call is missing", "detail": runs.DIFFERENCE}
    ]
    assert report["scenarios"][3]["never_called"] == ["wave"]


def test_equal_results_are_the_same_bytes_whatever_the_order_of_their_keys():
    one = with_result({"a": 1, "b": {1, 2, 3}}, {"x": 1, "y": 2})
    other = with_result({"b": {3, 2, 1}, "a": 1}, {"y": 2, "x": 1})
    assert one == other
    assert json_report(one) == json_report(other)


class Order(Struct):
    id: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Order(7), {"id": 7}),
        (math.nan, None),
        (2**80, 2**80),
        ({(1, 2): {"b": 1, "a": Order(7)}}, {"[1,2]": {"a": {"id": 7}, "b": 1}}),
        ("half \ud800", "half \\ud800"),
        ([1, ("\ud800", None)], [1, ["\\ud800", None]]),
        (complex(1, 2), "(1+2j)"),
        (b"\xff", "/w=="),
    ],
)
def test_what_json_does_not_know_is_reported_as_well_as_may_be(value, expected):
    assert call_in(report_of(with_result(value)))["result"] == expected


def test_fields_keep_their_order_beside_text_that_is_broken():
    report = report_of(with_result("\ud800"))
    assert list(report) == FIELDS
    assert list(report["scenarios"][0]) == SCENARIO_FIELDS


def test_what_is_inside_itself_is_cut():
    ring = {}
    ring["again"] = ring
    assert b'"\xe2\x80\xa6"' in json_report(with_result(ring))


@given(st.text(), st.recursive(st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_texts_and_values_come_back_as_they_were(said, value):
    turn = TurnRecord(0, said, said, (runs.call(result=value),))
    report = report_of(runs.suite(runs.scenario(conversations=(runs.conversation(turns=(turn,)),))))
    assert report["scenarios"][0]["conversations"][0]["turns"][0]["user"] == said
    assert call_in(report)["result"] == value


def test_hostile_text_is_reported_as_it_is():
    assert report_of(runs.suite(runs.hostile()))["scenarios"][0]["name"] == runs.HOSTILE.replace("\ud800", "\\ud800")


def test_groups_are_reported_with_all_their_conversations():
    assert report_of(runs.grouped())["groups"] == [
        {
            "title": "a call is missing",
            "severity": "high",
            "conversations": ["c0", "c1"],
            "description": "Tell it to look first.",
        }
    ]


def test_a_report_of_a_whole_run_is_read_back_with_what_it_came_from():
    result = runs.suite(*runs.two_agents().scenarios, origin=SuiteOrigin(version="1.0", command="offbook test"))
    again = load_suite(json_report(result), source="report.json")
    assert again.origin == result.origin
    assert json_report(again) == json_report(result)
