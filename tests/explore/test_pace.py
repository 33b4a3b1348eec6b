"""How long the rest of an exploration will take."""

import pytest

from offbook.explore.cases import cases_of
from offbook.explore.options import select_variants
from offbook.explore.pace import Pace, describe_time
from offbook.explore.run import sites_of
from offbook.explore.schedule import Deadline
from tests.explore.runs import clean_run, model_call

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
    pace.expect(SLOW, 1)
    assert pace.remaining_s == 4 * 3.0 + 5 * 3.0


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
    assert pace_of(*FAST, *SLOW).estimate(10, is_program=False) == "10 cases, about 20 s"
    waits = ", and what the program waits in 5 that hold an answer back"
    assert pace_of(*FAST, *SLOW).estimate(10, is_program=True) == f"10 cases, about 20 s{waits}"
    assert pace_of(*FAST, clean_s=0.1).estimate(5, is_program=True) == ""


def test_no_more_time_is_left_than_the_budget_has():
    pace = pace_of(*FAST)
    pace.deadline = Deadline(3.0, FixedClock())
    assert pace.remaining_s == 3.0


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
