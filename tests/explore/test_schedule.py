"""Which cases run first, what a budget leaves out, and how long the rest takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.options import CRASH_VARIANTS, select_variants
from offbook.explore.run import sites_of
from offbook.explore.schedule import (
    BudgetDeadline,
    CaseBudget,
    LeftOutFault,
    LeftOutGroup,
    Pace,
    describe_time,
    left_out,
    left_out_groups,
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
    return [str(case) for case in schedule(cases, near).within(None)]


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (None, CaseBudget()),
        (2000, CaseBudget(cases=2000)),
        ("2000", CaseBudget(cases=2000)),
        ("90s", CaseBudget(time_s=90.0)),
        ("5m", CaseBudget(time_s=300.0)),
        ("2h", CaseBudget(time_s=7200.0)),
        ("1h30m", CaseBudget(time_s=5400.0)),
        ("0.5m", CaseBudget(time_s=30.0)),
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


def test_an_error_that_no_other_try_changes_comes_first_after_the_effect():
    cases = cases_of(sites_of(RUN), select_variants("http_error 400,http_error 500"))
    once = [case for case in cases if not any("always" in column for column in case.columns)]
    order = order_of(once, near=rows_near_effects(RUN))
    assert order.index("call=4 attempt=1: http_error 400") < order.index("call=3 attempt=1: http_error 400")
    assert order.index("call=3 attempt=1: http_error 500") < order.index("call=4 attempt=1: http_error 500")


@given(st.integers(0, len(ALL) + 5), st.sets(st.sampled_from(["1", "2", "3", "refund 1", "find 1"])))
def test_no_budget_gives_a_fault_its_second_case_before_each_has_its_first(budget, near):
    chosen = schedule(ALL, near).within(budget)
    assert len(chosen) == min(budget, len(ALL))
    covered = [set(case.columns) for case in chosen]
    has_second = any(not columns - set().union(*covered[:place]) for place, columns in enumerate(covered))
    families = {case.family for case in ALL}
    if has_second:
        assert set().union(*covered) == COLUMNS
    assert len({case.family for case in chosen}) == min(budget, len(families))


def test_after_each_fault_each_call_gets_a_case_before_any_gets_its_second():
    planned = schedule(ALL, rows_near_effects(RUN))
    rows = {row for case in ALL for row in case.rows}
    assert {row for case in (*planned.first, *planned.next) for row in case.rows} == rows
    assert sorted(planned.within(None), key=lambda case: case.id) == ALL


def test_single_faults_crashes_and_orders_take_turns():
    crashes = cases_of(sites_of(RUN), select_variants("crash", CRASH_VARIANTS))
    numbered = [replace(case, id=f"9{case.id}") for case in crashes]
    others = [case.group for case in schedule([*ALL, *numbered], ()).others]
    assert others[:6] == ["single faults", "crashes"] * 3
    assert others.count("crashes") > 3


def test_what_was_left_out_is_counted_by_fault():
    cases = cases_of(sites_of(RUN), select_variants("connection_reset,tool_lost"))
    assert left_out(cases, cases) == ()
    assert left_out(cases, cases[:2]) == (
        LeftOutFault("model", "connection_reset", 3, 2),
        LeftOutFault("model", "connection_reset, always", 5, 0),
        LeftOutFault("tool", "tool_lost", 2, 0),
        LeftOutFault("tool", "tool_lost, always", 2, 0),
    )
    assert left_out_groups(cases, cases) == ()
    assert left_out_groups(cases, cases[:2]) == (LeftOutGroup("single faults", 12, 14),)


SITES = sites_of(clean_run(calls=tuple(model_call(number) for number in range(1, 6))))
FAST, SLOW = (
    [case for case in cases_of(SITES, select_variants(name)) if "always" not in case.columns[0]]
    for name in ("http_error 400", "timeout")
)


def pace_of(*cases, workers=1, clean_s=2.0):
    pace = Pace()
    pace.clean_s = clean_s
    pace.expect(cases, workers)
    return pace


def test_before_the_first_case_every_case_costs_as_much_as_the_clean_run():
    assert pace_of(*FAST, *SLOW).remaining_s == 20.0
    assert pace_of(*FAST, *SLOW, workers=4).remaining_s == 5.0


def test_slow_faults_that_come_last_count_for_what_they_cost():
    pace = pace_of(*FAST, *SLOW)
    pace.note(SLOW[0], 20.0)
    for case in FAST[:4]:
        pace.note(case, 1.0)
    assert pace.remaining_s == 4 * 20.0 + 1.0  # the mean of all so far would be 24


def test_a_fault_that_was_not_measured_costs_as_much_as_its_like():
    pace = pace_of(*FAST)
    pace.note(FAST[0], 3.0)
    pace.expect([*FAST[1:], *SLOW], 1)
    assert pace.remaining_s == 4 * 3.0 + 5 * 3.0


def test_pairs_to_come_cost_as_much_as_pairs_and_before_the_first_as_much_as_all_cases():
    pace = pace_of(*FAST)
    pace.note(FAST[0], 3.0)
    pace.expect([], 2, pairs=10)
    assert pace.remaining_s == 10 * 3.0 / 2
    pace.note(FaultCase("9", (*FAST[0].lines, *SLOW[1].lines), ()), 5.0)
    assert pace.remaining_s == 10 * 5.0 / 2


def test_a_family_that_was_not_measured_costs_as_much_as_all_that_has_run_and_not_as_the_clean_run():
    tools = cases_of(sites_of(clean_run(tools=(tool_run("refund"),))), select_variants("tool_lost"))
    pace = pace_of(*FAST, *tools, clean_s=60.0)
    pace.note(FAST[0], 0.5)
    assert pace.remaining_s == (len(FAST) - 1 + len(tools)) * 0.5
    assert pace.expected_s(tools[0]) == 0.5


def test_a_case_that_shares_a_run_costs_nothing_and_teaches_nothing():
    pace = pace_of(*FAST)
    pace.note(FAST[0], None)
    assert pace.remaining_s == 4 * 2.0


class FixedClock:
    def monotonic_s(self):
        return 0.0


def test_cases_that_hold_an_answer_back_are_counted_because_nobody_knows_how_long_that_takes():
    pace = pace_of(*FAST, *SLOW)
    pace.note(SLOW[0], 20.0)
    assert pace.waiting == 4


def test_a_long_exploration_is_announced_and_a_short_one_is_not():
    assert pace_of(*FAST, *SLOW).estimate(10, is_program=False) == "10 cases, at most about 20 s"
    waits = ", and what the program waits in 5 that hold an answer back"
    assert pace_of(*FAST, *SLOW).estimate(10, is_program=True) == f"10 cases, at most about 20 s{waits}"
    assert pace_of(*FAST, clean_s=0.1).estimate(5, is_program=True) == ""


def test_no_more_time_is_left_than_the_budget_has():
    pace = pace_of(*FAST, clean_s=9.0)
    pace.deadline = BudgetDeadline(10.0, FixedClock())
    assert pace.remaining_s == pytest.approx(9.7)
    pace.expect(FAST, 1, pairs=1000)
    assert pace.estimate(1005, is_program=True) == "about 1,005 cases, the most telling ones first, for 10 s"


class CountingClock(FixedClock):
    """Is read once in a while, and counts how often."""

    reads = 0

    def monotonic_s(self):
        self.reads += 1
        return float(self.reads)


def test_a_deadline_that_is_asked_once_looks_at_the_clock_once():
    clock = CountingClock()
    deadline = BudgetDeadline(100.0, clock)
    for reads, ask in enumerate((lambda: not deadline.has_passed, lambda: deadline.allows(1.0)), start=2):
        assert ask()
        assert clock.reads == reads


def test_time_is_kept_for_what_comes_after_the_last_case_and_the_start_counts():
    deadline = BudgetDeadline(10.0, FixedClock(), start_s=-4.0)
    assert deadline.left_s == 4.0  # 10 s from the start on, but for half of what it has taken until now
    deadline.keep_for_closing(3.0)
    deadline.keep_for_closing(1.0)
    assert deadline.left_s == 3.0
    assert deadline.allows(2.9)
    assert not deadline.allows(3.0)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0.2, "less than a second"),
        (3.4, "3 s"),
        (42, "40 s"),
        (88, "90 s"),
        (150, "2 min"),
        (3540, "59 min"),
        (3598, "1 h"),
        (4800, "1 h 20 min"),
    ],
)
def test_times_are_described_roughly(time_s, text):
    assert describe_time(time_s) == text
