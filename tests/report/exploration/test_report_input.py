"""Findings by cause."""

from msgspec.structs import replace

from offbook.explore.verdict import Assessment
from offbook.report.exploration.report_input import group_findings
from tests.report.exploration import explorations


def told(exploration):
    return [(each.verdict, [one.case.id for one in each.results]) for each in group_findings(exploration)]


def test_the_worst_come_first_and_cases_with_one_cause_are_one_finding():
    assert told(explorations.with_pair()) == [("repeated side effect", ["0006", "0007"]), ("crashed", ["0003", "0004"])]


def test_another_reason_is_another_finding_and_only_its_first_line_counts():
    exploration = explorations.naive()
    other, same = Assessment("crashed", ("KeyError",)), Assessment("crashed", ("RuntimeError: gave up\nat line 7",))
    explored = list(exploration.results)
    explored[0], explored[1] = replace(explored[0], assessment=other), replace(explored[1], assessment=same)
    found = told(replace(exploration, results=tuple(explored)))
    assert found[1:] == [("crashed", ["0001"]), ("crashed", ["0002", "0003", "0004"])]


def test_a_finding_tells_its_first_case_and_its_evidence_if_there_is_any():
    finding = group_findings(explorations.naive())[0]
    assert str(finding.first) == "tool=refund call=1: tool_lost"
    assert finding.evidence == ("refund ran 2 times, usually once",)
    exploration = explorations.naive()
    bare = replace(exploration.results[0], assessment=Assessment("hung"))
    assert group_findings(replace(exploration, results=(bare,)))[0].evidence == ()


def test_a_sound_agent_has_none():
    assert group_findings(explorations.sound()) == []
