"""Two explorations side by side."""

import pytest

from offbook.explore.case import Case
from offbook.explore.comparison import Change, compared
from offbook.explore.exploration import Exploration, Explored
from offbook.explore.verdict import Judged
from offbook.faults import parse_fault
from tests.explore.runs import clean_run, struck_run


def exploration(**verdicts):
    """One with a case for each name, which is a fault at the first call."""
    cases = [
        Explored(Case(str(number), (parse_fault(f"call=1: {name}"),), ()), struck_run(), Judged(verdict))
        for number, (name, verdict) in enumerate(verdicts.items())
    ]
    return Exploration("it", clean_run(), tuple(cases))


def test_cases_are_compared_by_their_faults():
    before = exploration(timeout="recovered", connection_reset="crashed", content_filter="hung")
    after = exploration(connection_reset="recovered", timeout="recovered", empty_response="silent")
    comparison = compared(before, after)
    assert comparison.changes == (
        Change("call=1: connection_reset", "crashed", "recovered"),
        Change("call=1: empty_response", None, "silent"),
        Change("call=1: content_filter", "hung", None),
    )
    assert comparison.same == 1
    assert [change.case for change in comparison.worse] == ["call=1: empty_response"]


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        ("recovered", "crashed", True),
        ("crashed", "wrong", True),
        ("wrong", "crashed", False),
        ("recovered", "degraded", False),
        ("crashed", None, False),
        (None, "crashed", True),
        (None, "recovered", False),
    ],
)
def test_a_case_is_worse_if_it_is_a_finding_that_was_none_or_a_worse_one(before, after, is_worse):
    assert Change("call=1: timeout", before, after).is_worse == is_worse


def test_an_exploration_is_as_good_as_itself():
    same = exploration(timeout="crashed")
    assert compared(same, same).changes == ()
