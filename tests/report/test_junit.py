"""Runs as JUnit XML."""

import re
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.report.exploration.report_input import ReportOptions
from offbook.report.junit import exploration_junit, junit_report
from offbook.scenarios.result import Failure
from tests.report import runs
from tests.report.exploration import explorations

COUNTS = {"name", "tests", "failures", "errors", "time"}
SHAPE = {  # what CI servers accept: attributes that are required, that may be there, and children
    "testsuites": (set(), COUNTS, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, COUNTS | {"skipped"}, {"properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name"}, {"name", "classname", "time"}, {"failure", "error", "system-out"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def parsed(result):
    root = ET.fromstring(junit_report(result))
    for element in root.iter():
        required, allowed, children = SHAPE[element.tag]
        assert required <= set(element.attrib) <= allowed
        assert {child.tag for child in element} <= children
        assert re.fullmatch(r"\d+\.\d{3}", element.get("time", "0.000"))
    for case in root.iter("testcase"):
        assert len(case.findall("failure") + case.findall("error")) <= 1
    return root


def test_there_is_a_suite_for_each_file_and_agent_and_a_case_for_each_scenario():
    root = parsed(runs.two_agents())
    suites = [(suite.get("name"), [case.get("name") for case in suite.iter("testcase")]) for suite in root]
    assert suites == [
        ("tests/refunds.py [small]", ["refunds an order"]),
        ("tests/refunds.py [large]", ["refunds an order"]),
        ("tests/hello.py [small]", ["says hello"]),
        ("tests/hello.py [large]", ["says hello"]),
    ]
    assert root.get("tests") == "4"
    assert root.get("failures") == "1"
    assert root.get("errors") == "0"


def test_cost_and_tokens_are_properties_of_the_suite():
    suite = parsed(runs.two_agents())[0]
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties == {"agent": "small", "cost_usd": "0.030000", "tokens": "300"}


def test_a_failure_reports_what_is_wrong_with_each_conversation():
    failure = parsed(runs.two_agents()).find(".//failure")
    assert failure.get("message") == "conversation 2: assertion: a call is missing"
    assert failure.text.count(runs.DIFFERENCE) == 2


@pytest.mark.parametrize("kind", ["error", "mismatch"])
def test_what_broke_is_an_error_and_not_a_failure(kind):
    both = runs.scenario(runs=1, passes=0, kind=kind, failures=(Failure("threshold", "too low"),))
    root = parsed(runs.suite(both))
    error = root.find(".//error")
    assert error.get("type") == kind
    assert root.get("errors") == "1"
    assert root.get("failures") == "0"
    assert "threshold: too low" in error.text


def test_a_run_that_was_cut_off_has_an_error():
    root = parsed(runs.suite(runs.scenario(), is_complete=False))
    assert root.get("errors") == "1"
    assert "ended early" in root.find(".//error").get("message")


def test_scenarios_without_a_place_or_agent_are_in_a_suite_too():
    assert parsed(runs.suite(runs.scenario(agent="", source="")))[0].get("name") == "scenarios"


def test_hostile_text_breaks_nothing():
    root = parsed(runs.suite(runs.hostile()))
    assert "</script>" in root.find(".//testcase").get("name")
    assert len(junit_report(runs.suite(runs.hostile()))) < 100_000


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_any_text_at_all_gives_xml_that_can_be_read(name, detail):
    failed = runs.scenario(name, failures=(Failure("assertion", name, detail),))
    parsed(runs.suite(failed))


def test_causes_are_left_out():
    result = runs.grouped()
    assert junit_report(result) == junit_report(replace(result, groups=()))


def suite_of(exploration, **settings):
    return fromstring(
        exploration_junit(ReportOptions(explorations.reproduce).report_input(exploration, **settings))
    ).find("testsuite")


def test_every_case_is_a_test_case_and_findings_are_failures():
    suite = suite_of(explorations.naive())
    assert suite.attrib == {
        "name": "refund_agent",
        "tests": "6",
        "failures": "3",
        "errors": "0",
        "skipped": "1",
        "time": "1.000",
    }
    case = suite[5]
    assert case.attrib == {
        "classname": "refund_agent",
        "name": "0006 tool=refund call=1: tool_lost",
        "time": "0.000",
    }
    failure = case.find("failure")
    assert failure.attrib == {"type": "repeated effect", "message": "refund ran 2 times, usually once"}
    assert failure.text.endswith("\noffbook explore refund.py --only 0006")


def test_a_case_that_diverged_is_skipped_and_says_why():
    skipped = suite_of(explorations.naive())[4].find("skipped")
    assert skipped.attrib == {"message": "undecided: asked anew: messages[3]"}


def test_what_a_budget_left_out_is_skipped_once_for_each_fault():
    suite = suite_of(explorations.naive(left=3))
    assert suite.attrib["tests"] == "7"
    assert suite.attrib["skipped"] == "2"
    assert suite[6].attrib["name"] == "left out: timeout"
    assert suite[6].find("skipped").attrib == {"message": "the budget left out 3 cases of timeout; 0 tried"}
    assert suite.find("system-out").text == "left out: 3 of 9 single faults"


def test_what_is_no_finding_passes():
    recovered = suite_of(explorations.naive())[0]
    assert [child.tag for child in recovered] == ["system-out"]
    assert recovered[0].text.startswith("recovered: the same result, with 1 further call")


def test_an_exploration_that_was_cut_off_has_an_error():
    suite = suite_of(explorations.naive(), is_complete=False)
    assert suite.get("errors") == "1"
    assert suite[-1].find("error").get("type") == "incomplete"


def test_hostile_text_is_only_text_and_the_same_every_time():
    suite = suite_of(explorations.hostile())
    assert suite.get("name").startswith("</script><script>alert(1)")
    manner = ReportOptions(explorations.reproduce)
    one, other = (exploration_junit(manner.report_input(explorations.hostile())) for _ in range(2))
    assert one == other
