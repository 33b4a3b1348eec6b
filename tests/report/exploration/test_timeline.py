"""Calls of models and tools as one sequence."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.explore.cases import FaultCase
from offbook.explore.run import ModelCall, Run, ToolRun
from offbook.faults import At, ConnectionReset
from offbook.report.exploration.page import MAX_COMPARED, compare_tool_calls, timeline_of
from tests.report.exploration import explorations
from tests.report.exploration.explorations import CLEAN, LOOKED_UP, REFUNDED, model_call


def names(run):
    return [step.name for step in timeline_of(run).steps]


def test_a_tool_stands_behind_the_call_that_asked_for_it():
    assert names(CLEAN) == ["1 agent", "find_order 1", "2 agent", "refund 1"]


def test_a_call_that_was_refused_does_not_draw_a_later_one_to_it():
    calls = (model_call(1, "refund"), model_call(2, "find_order"), model_call(3, "refund"))
    assert names(replace(CLEAN, calls=calls)) == ["1 agent", "2 agent", "find_order 1", "3 agent", "refund 1"]


def test_tools_that_were_asked_for_at_once_stand_together():
    assert names(replace(CLEAN, calls=(model_call(1, "refund", "find_order"), model_call(2)))) == [
        "1 agent",
        "find_order 1",
        "refund 1",
        "2 agent",
    ]


def test_tools_that_no_model_asked_for_stand_before_the_next_or_at_the_end():
    step = ToolRun(tool="fetch", call=1, arguments={})
    run = Run(calls=(model_call(1), model_call(2, "refund")), tools=(step, REFUNDED, replace(step, call=2)))
    assert names(run) == ["1 agent", "2 agent", "fetch 1", "refund 1", "fetch 2"]


def test_the_places_where_a_fault_fired_are_reported():
    first, _, first_always, _, _, refund = explorations.cases()
    assert timeline_of(explorations.retried(first), first).fired == (0,)
    assert timeline_of(explorations.retried(first_always), first_always).fired == (0, 1)
    assert timeline_of(explorations.refunded_twice(refund), refund).fired == (3,)
    assert timeline_of(CLEAN, first).fired == ()


def test_a_call_without_a_step_is_found_by_its_number():
    case = FaultCase("1", (At(call=2, attempt=1).fail(ConnectionReset()),), ())
    run = Run(calls=(ModelCall(number=1, step_call=1), ModelCall(number=2, step_call=2)), fired=(str(case),))
    assert timeline_of(run, case).fired == (1,)


def test_a_step_reports_how_a_call_ended():
    undecided = model_call(1, outcome="undecided")
    failed = replace(LOOKED_UP, error="gone", has_run=False)
    model, tool = timeline_of(Run(calls=(undecided,), tools=(failed,))).steps
    assert model.kind == "model"
    assert model.error == "undecided"
    assert model.model == "gpt-4o-mini"
    assert tool.kind == "tool"
    assert tool.error == "gone"
    assert tool.notes == ("did not run",)
    assert tool.asks_for[0].arguments == {"order_id": 42}


def test_a_step_notes_what_else_is_worth_knowing():
    calls = (model_call(1, "refund", is_too_soon=True, forgot=2),)
    model, tool = timeline_of(Run(calls=calls, tools=(REFUNDED,))).steps
    assert model.notes == ("sooner than the answer before had asked for", "without 2 messages of its conversation")
    assert tool.notes == ("side effect",)


def describe_pairs(clean, run):
    pairs = compare_tool_calls(timeline_of(clean).steps, timeline_of(run).steps)
    return [(pair.clean and pair.clean.name, pair.run and pair.run.name, pair.is_same) for pair in pairs]


def test_equal_runs_are_the_same_line_by_line():
    assert describe_pairs(CLEAN, CLEAN) == [("find_order 1", "find_order 1", True), ("refund 1", "refund 1", True)]


def test_a_call_too_many_or_too_few_has_nothing_beside_it():
    twice = replace(CLEAN, tools=(*CLEAN.tools, replace(REFUNDED, call=2)))
    assert describe_pairs(CLEAN, twice)[1:] == [("refund 1", "refund 1", True), (None, "refund 2", False)]
    assert describe_pairs(CLEAN, replace(CLEAN, tools=(REFUNDED,)))[0] == ("find_order 1", None, False)


def test_the_same_call_with_another_result_is_beside_its_own():
    garbled = replace(CLEAN, tools=(replace(LOOKED_UP, result="~~"), REFUNDED))
    assert describe_pairs(CLEAN, garbled) == [("find_order 1", "find_order 1", False), ("refund 1", "refund 1", True)]


def test_very_long_runs_are_reported_as_what_they_begin_with_and_the_rest():
    def calls(ids):
        return Run(
            tools=tuple(ToolRun(tool="t", call=place, arguments={"id": number}) for place, number in enumerate(ids, 1))
        )

    pairs = describe_pairs(calls([0, 1]), calls([0, *range(2, MAX_COMPARED + 3)]))
    assert pairs[0] == ("t 1", "t 1", True)
    assert pairs[1] == ("t 2", None, False)
    assert all(pair[0] is None for pair in pairs[2:])


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_every_call_of_both_runs_is_there_once_and_in_order(clean, run):
    def calls(tools):
        return timeline_of(Run(tools=tuple(ToolRun(tool=tool, call=1, arguments={}) for tool in tools))).steps

    pairs = compare_tool_calls(calls(clean), calls(run))
    assert [pair.clean for pair in pairs if pair.clean is not None] == list(calls(clean))
    assert [pair.run for pair in pairs if pair.run is not None] == list(calls(run))
