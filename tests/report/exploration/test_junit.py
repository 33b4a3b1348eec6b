"""Explorations as JUnit XML."""

from xml.etree.ElementTree import fromstring

from offbook.report.exploration.junit import exploration_junit
from offbook.report.exploration.report_input import ReportOptions
from tests.report.exploration import explorations


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
    assert failure.attrib == {"type": "repeated side effect", "message": "refund ran 2 times, usually once"}
    assert failure.text.endswith("\noffbook explore refund.py --only 0006")


def test_a_case_that_diverged_is_skipped_and_says_why():
    skipped = suite_of(explorations.naive())[4].find("skipped")
    assert skipped.attrib == {"message": "undecided: asked anew: messages[3]"}


def test_what_is_no_finding_passes():
    recovered = suite_of(explorations.naive())[0]
    assert [child.tag for child in recovered] == ["system-out"]
    assert recovered[0].text.startswith("recovered: the same result, with 1 further call")


def test_an_exploration_that_was_cut_off_has_an_error():
    suite = suite_of(explorations.naive(), is_complete=False)
    assert suite.get("errors") == "1"
    assert suite[-1].find("error").get("type") == "interrupted"


def test_hostile_text_is_only_text_and_the_same_every_time():
    suite = suite_of(explorations.hostile())
    assert suite.get("name").startswith("</script><script>alert(1)")
    manner = ReportOptions(explorations.reproduce)
    one, other = (exploration_junit(manner.report_input(explorations.hostile())) for _ in range(2))
    assert one == other
