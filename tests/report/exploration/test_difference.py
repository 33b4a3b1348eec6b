"""Calls of tools side by side."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.explore.run import Run, ToolRun
from offbook.report.exploration.difference import MAX_COMPARED, differences
from offbook.report.exploration.timeline import timeline_of
from tests.report.exploration.explorations import CLEAN, LOOKED_UP, REFUNDED


def told(clean, run):
    pairs = differences(timeline_of(clean).steps, timeline_of(run).steps)
    return [(pair.clean and pair.clean.name, pair.run and pair.run.name, pair.is_same) for pair in pairs]


def test_equal_runs_are_the_same_line_by_line():
    assert told(CLEAN, CLEAN) == [("find_order 1", "find_order 1", True), ("refund 1", "refund 1", True)]


def test_a_call_too_many_or_too_few_has_nothing_beside_it():
    twice = replace(CLEAN, tools=(*CLEAN.tools, replace(REFUNDED, call=2)))
    assert told(CLEAN, twice)[1:] == [("refund 1", "refund 1", True), (None, "refund 2", False)]
    assert told(CLEAN, replace(CLEAN, tools=(REFUNDED,)))[0] == ("find_order 1", None, False)


def test_the_same_call_with_another_result_is_beside_its_own():
    garbled = replace(CLEAN, tools=(replace(LOOKED_UP, result="~~"), REFUNDED))
    assert told(CLEAN, garbled) == [("find_order 1", "find_order 1", False), ("refund 1", "refund 1", True)]


def test_very_long_runs_are_told_as_what_they_begin_with_and_the_rest():
    def calls(ids):
        return Run(
            tools=tuple(ToolRun(tool="t", call=place, arguments={"id": number}) for place, number in enumerate(ids, 1))
        )

    pairs = told(calls([0, 1]), calls([0, *range(2, MAX_COMPARED + 3)]))
    assert pairs[0] == ("t 1", "t 1", True)
    assert pairs[1] == ("t 2", None, False)
    assert all(pair[0] is None for pair in pairs[2:])


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_every_call_of_both_runs_is_there_once_and_in_order(clean, run):
    def calls(tools):
        return timeline_of(Run(tools=tuple(ToolRun(tool=tool, call=1, arguments={}) for tool in tools))).steps

    pairs = differences(calls(clean), calls(run))
    assert [pair.clean for pair in pairs if pair.clean is not None] == list(calls(clean))
    assert [pair.run for pair in pairs if pair.run is not None] == list(calls(run))
