"""Which cases run first, and what a budget leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.explore.cases import cases_of
from offbook.explore.options import select_variants
from offbook.explore.run import sites_of
from offbook.explore.schedule import (
    Budget,
    LeftOut,
    left_out,
    most_telling,
    parse_budget,
    rows_near_effects,
    schedule,
)
from offbook.tools.effects import Effect, ToolDeclaration
from tests.explore.runs import clean_run, model_call, streamed, tool_run

REFUND_ASKED = (("refund", {}),)
RUN = clean_run(
    calls=(
        model_call(1),
        streamed("text", number=2),
        model_call(3, has_tools=True, asks_for=REFUND_ASKED),
        model_call(4, has_tools=True),
        model_call(5),
    ),
    tools=(tool_run(), tool_run("find")),
    declarations={"refund": ToolDeclaration(side_effect=True), "find": ToolDeclaration(read_only=True)},
)
ALL = cases_of(sites_of(RUN), select_variants("all"))
COLUMNS = {column for case in ALL for column in case.columns}


def order_of(cases, near=()):
    return [str(case) for case in schedule(cases, lambda case: case.is_in(near)).all]


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (None, Budget()),
        (2000, Budget(cases=2000)),
        ("2000", Budget(cases=2000)),
        ("90s", Budget(time_s=90.0)),
        ("5m", Budget(time_s=300.0)),
        ("2h", Budget(time_s=7200.0)),
        ("1h30m", Budget(time_s=5400.0)),
        ("0.5m", Budget(time_s=30.0)),
    ],
)
def test_a_budget_is_a_number_of_cases_or_a_time(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "many", "5 minutes", "5x", "m", "1.5", "1m1h", "²"])
def test_anything_else_is_no_budget(text):
    with pytest.raises(InputError, match="expected a number of cases or a time") as refused:
        parse_budget(text, source="--budget")
    assert refused.value.source == "--budget"


def test_the_calls_around_an_effect_are_near_it_and_so_is_its_tool():
    assert rows_near_effects(RUN) == {"3", "4", "refund 1"}


def test_an_effect_that_was_only_observed_is_found_by_when_it_happened():
    counts = (0, 0, 1, 1)
    calls = tuple(model_call(number, effects_before=count) for number, count in enumerate(counts, 1))
    run = clean_run(calls=calls, effects=(Effect(tool="pay"),))
    assert rows_near_effects(run) == {"2", "3"}
    last = clean_run(calls=calls[:2], effects=(Effect(tool="pay"),))
    assert rows_near_effects(last) == {"2"}


def test_where_nothing_is_known_of_tools_each_may_have_an_effect():
    run = clean_run(calls=(model_call(1), model_call(2, asks_for=(("find", {}),))), tools=(tool_run("find"),))
    assert rows_near_effects(run) == {"2", "find 1"}


def test_what_is_near_effects_comes_first_then_faults_of_tools_then_lost_answers():
    cases = cases_of(sites_of(RUN), select_variants("http_error 400,connection_reset,tool_empty"))
    once = [case for case in cases if not any("always" in column for column in case.columns)]
    assert order_of(once, near=("3", "refund 1")) == [
        "tool=refund call=1: tool_empty",  # the first of its family, and of its column
        "call=3 attempt=1: connection_reset",
        "call=3 attempt=1: http_error 400",
        "tool=find call=1: tool_empty",
        *(f"call={number} attempt=1: connection_reset" for number in (1, 2, 4, 5)),
        *(f"call={number} attempt=1: http_error 400" for number in (1, 2, 4, 5)),
    ]


@given(st.integers(0, len(ALL) + 5), st.sets(st.sampled_from(["1", "2", "3", "refund 1", "find 1"])))
def test_no_budget_gives_a_fault_its_second_case_before_each_has_its_first(budget, near):
    chosen = schedule(ALL, lambda case: case.is_in(near)).within(budget).all
    assert len(chosen) == min(budget, len(ALL))
    covered = [set(case.columns) for case in chosen]
    has_second = any(not columns - set().union(*covered[:place]) for place, columns in enumerate(covered))
    families = {case.family for case in ALL}
    if has_second:
        assert set().union(*covered) == COLUMNS
    assert len({case.family for case in chosen}) == min(budget, len(families))


def test_the_most_telling_cases_keep_their_order_and_numbers():
    few = most_telling(ALL, 7, rows_near_effects(RUN))
    assert [case.id for case in few] == sorted(case.id for case in few)
    assert all(case in ALL for case in few)
    assert most_telling(ALL, None) == ALL


def test_what_was_left_out_is_counted_by_fault():
    cases = cases_of(sites_of(RUN), select_variants("connection_reset,tool_lost"))
    assert left_out(cases, cases) == ()
    assert left_out(cases, cases[:2]) == (
        LeftOut("model", "connection_reset", 3, 2),
        LeftOut("model", "connection_reset, always", 5, 0),
        LeftOut("tool", "tool_lost", 2, 0),
        LeftOut("tool", "tool_lost, always", 2, 0),
    )
