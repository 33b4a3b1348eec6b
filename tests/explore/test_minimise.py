"""The smallest part of a plan that still fails."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.minimise import minimised
from offbook.faults import parse_fault

LINES = [parse_fault(f"call={number}: connection_reset") for number in range(1, 7)]


@given(st.sets(st.sampled_from(range(6)), min_size=1))
def test_only_the_lines_that_are_needed_are_left(needed):
    wanted = [LINES[place] for place in sorted(needed)]
    assert list(minimised(LINES, lambda lines: set(map(str, wanted)) <= set(map(str, lines)))) == wanted


def test_a_single_line_is_not_tried_without():
    tried = []
    assert minimised(LINES[:1], lambda lines: bool(tried.append(lines))) == (LINES[0],)
    assert tried == []


def test_one_line_is_left_of_a_plan_that_always_fails():
    assert len(minimised(LINES, lambda _: True)) == 1
