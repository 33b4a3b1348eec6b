"""Two explorations side by side."""

import pytest
from msgspec.structs import replace

from offbook.explore.cases import FaultCase, HeatmapCell
from offbook.explore.compare import VerdictChange, compare_explorations
from offbook.explore.explorer import CaseResult, Exploration, coverage_of
from offbook.explore.schedule import LeftOutFault
from offbook.explore.verdict import stored_assessment
from offbook.faults import parse_fault
from offbook.report.exploration.report_input import comparison_totals
from tests.explore.runs import clean_run, fired_run, model_call


def exploration(**verdicts):
    """One with a case for each name, which is a fault at the first call."""
    cases = [
        CaseResult(
            FaultCase(str(number), (parse_fault(f"call=1: {name}"),), ()), fired_run(), stored_assessment(verdict, ())
        )
        for number, (name, verdict) in enumerate(verdicts.items())
    ]
    return Exploration("it", clean_run(), tuple(cases))


def test_cases_are_compared_by_their_faults():
    before = exploration(timeout="recovered", connection_reset="crashed", content_filter="hung")
    after = exploration(connection_reset="recovered", timeout="recovered", empty_response="undetected")
    comparison = compare_explorations(before, after)
    assert comparison.changes == (
        VerdictChange("call=1: connection_reset", "crashed", "recovered"),
        VerdictChange("call=1: empty_response", None, "undetected (failed check)"),
        VerdictChange("call=1: content_filter", "hung", None, is_left_out=True),
    )
    assert comparison.same == 1
    assert [change.case for change in comparison.worse] == ["call=1: empty_response"]


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        ("recovered", "crashed", True),
        ("crashed", "undetected (failed check)", True),
        ("undetected (failed check)", "crashed", False),
        ("recovered", "different result", False),
        ("recovered", "failed cleanly", False),
        ("recovered", "left behind", True),
        ("failed cleanly", "undecided", False),
        ("not reached", "recovered", False),
        ("recovered", "not reached", False),
        ("crashed", "crashed", False),
        (None, "different result", False),
        ("crashed", None, False),
        (None, "crashed", True),
        (None, "recovered", False),
    ],
)
def test_a_case_is_worse_if_it_ends_worse_than_before(before, after, is_worse):
    assert VerdictChange("call=1: timeout", before, after).is_worse == is_worse


def test_what_a_budget_left_out_then_or_now_is_not_known():
    before = replace(exploration(timeout="crashed"), left_out=(LeftOutFault("model", "then empty_response", 1, 0),))
    after = replace(exploration(empty_response="undetected"), not_tried=frozenset({"call=1: timeout"}))
    comparison = compare_explorations(before, after)
    assert comparison.changes == (
        VerdictChange("call=1: empty_response", None, "undetected (failed check)", was_left_out=True),
        VerdictChange("call=1: timeout", "crashed", None, is_left_out=True),
    )
    assert [change.case for change in comparison.left_out] == ["call=1: timeout"]
    assert [change.case for change in comparison.worse] == ["call=1: empty_response"]


def test_an_exploration_is_as_good_as_itself():
    same = exploration(timeout="crashed")
    assert compare_explorations(same, same).changes == ()


def test_a_finding_whose_fault_was_tried_is_gone():
    before, after = exploration(timeout="crashed"), exploration(timeout="recovered")
    gone = replace(
        before, results=(replace(before.results[0], case=FaultCase("7", (parse_fault("call=2: timeout"),), ())),)
    )
    assert [each.is_left_out for each in compare_explorations(gone, after).changes] == [False, False]


def test_what_was_not_tried_again_is_counted_and_only_a_finding_is_a_change():
    before = exploration(timeout="recovered", connection_reset="recovered", slow="crashed", refusal="recovered")
    comparison = compare_explorations(before, exploration(timeout="recovered"))
    assert comparison.same == 1
    assert comparison.not_tried == 2
    assert [(change.before, change.after) for change in comparison.changes] == [("crashed", None)]
    assert comparison_totals(comparison).endswith(
        "0 other changes, 1 the same; 2 cases were not tried this time; 1 earlier finding was not tried"
    )


LINE = (parse_fault("call=1: connection_reset"),)


def explored(row, column, verdict="recovered", **paths):
    run = fired_run(paths={name.replace("_", " "): count for name, count in paths.items()})
    return CaseResult(FaultCase("0001", LINE, (HeatmapCell(row, column),)), run, stored_assessment(verdict, ()))


def test_it_is_reported_which_calls_met_which_faults_and_which_paths_were_taken():
    clean = clean_run(calls=(model_call(1), model_call(2), model_call(3)))
    cases = (
        explored("1", "timeout", retry=2),
        explored("1", "connection_reset", retry=1, breaker_open=1),
        explored("2", "timeout", "not reached"),
        explored("1 try 2", "timeout"),
    )
    coverage = coverage_of(Exploration("it", clean, cases))
    assert coverage.met == {"1": ["timeout", "connection_reset"], "1 try 2": ["timeout"]}
    assert coverage.missed == ["2", "3"]
    assert coverage.paths == {"breaker open": 1, "retry": 3}
    assert coverage.never_ran == ["fallback"]
    assert coverage_of(Exploration("it", replace(clean, is_program=True), cases[3:])).never_ran == ["retry"]
