"""Findings by cause."""

from msgspec.structs import replace

from offbook.explore.verdict import Assessment
from offbook.report.exploration.report_input import causes_of_findings, exploration_notes, group_findings
from tests.report.exploration import explorations


def groups_of(exploration):
    return [(each.assessment.title, [one.case.id for one in each.results]) for each in group_findings(exploration)]


def test_the_worst_come_first_and_cases_with_one_cause_are_one_finding():
    assert groups_of(explorations.with_pair()) == [
        ("repeated effect", ["0006", "0007"]),
        ("crashed", ["0003", "0004"]),
    ]


def with_assessments(*assessments):
    exploration = explorations.naive()
    changed = (replace(each, assessment=a) for each, a in zip(exploration.results, assessments, strict=False))
    return replace(exploration, results=(*changed, *exploration.results[len(assessments) :]))


def test_another_reason_is_another_finding_and_only_its_first_line_counts():
    other = Assessment("undetected", ("KeyError",), "failed check")
    same = replace(other, evidence=("it said sorry\nat line 7",))
    found = groups_of(with_assessments(other, same, replace(same, evidence=("it said sorry",))))
    assert found[1:] == [(other.title, ["0001"]), (other.title, ["0002", "0003"]), ("crashed", ["0004"])]


def test_errors_that_merely_ended_the_run_are_one_finding_with_several_causes():
    exploration = with_assessments(Assessment("crashed", ("KeyError: 'x'",)))
    crashes = group_findings(exploration)[-1]
    assert [each.case.id for each in crashes.results] == ["0001", "0003", "0004"]
    assert crashes.headline == "it ended with an error that is not declared: KeyError, RuntimeError"
    assert crashes.evidence == ("KeyError: 'x' (1 case)", "RuntimeError: gave up (2 cases)")
    assert [len(cause.results) for cause in causes_of_findings(exploration)] == [1, 1, 2]


def test_a_finding_reports_its_first_case_and_its_evidence_if_there_is_any():
    finding = group_findings(explorations.naive())[0]
    assert str(finding.first) == "tool=refund call=1: tool_lost"
    assert finding.headline == "refund ran 2 times, usually once"
    assert finding.evidence == ()
    exploration = explorations.naive()
    bare = replace(exploration.results[0], assessment=Assessment("hung"))
    assert group_findings(replace(exploration, results=(bare,)))[0].evidence == ()


def test_a_sound_agent_has_none():
    assert group_findings(explorations.sound()) == []


def test_the_notes_say_which_tool_to_declare_and_how_many_cases_that_decides():
    exploration = explorations.sound()
    told = "refund ran 2 times instead of once", "nothing is declared about refund; if it only reads: read_only=True"
    results = [
        explorations.judged(each.case, each.run, "repeated effect", *told, reason="possible")
        for each in exploration.results[:3]
    ]
    clean = replace(exploration.clean, declarations={})
    assert list(exploration_notes(replace(exploration, clean=clean, results=tuple(results)))) == [
        (
            "1 tool changed something or may have (refund): declare [tools.refund] effect = true, or read_only = true "
            "→ 3 cases would be decided"
        )
    ]


def test_the_notes_suggest_a_pattern_for_results_that_nothing_judges():
    exploration = explorations.sound()
    runs = [replace(exploration.clean, result=f"Auftrag {number} (noch) nicht geprüft. Bald!") for number in (17, 18)]
    results = [
        explorations.judged(each.case, run, "different outcome", "it changed something else")
        for each, run in zip(exploration.results, runs, strict=False)
    ]
    assert list(exploration_notes(replace(exploration, results=tuple(results)))) == [
        (
            "2 cases end with other changes and a result like this; if it says that the run gave up, declare it: "
            r"--gave-up '(?i)auftrag \S+ \(noch\) nicht geprüft'"
        )
    ]
