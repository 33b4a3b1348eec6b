"""Statistics over repeated runs."""

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.scenarios.result import ConversationResult, Failure, Judgement
from offbook.scenarios.statistics import (
    Interval,
    Spread,
    metric_spreads,
    pass_hat_k,
    pass_hats,
    pass_rate,
    spread,
    wilson,
)


def conversation(*judgements, failures=()):
    return ConversationResult(
        id="c", scenario="s", agent="a", index=0, ending="goal_reached", judgements=judgements, failures=failures
    )


@st.composite
def outcomes(draw, min_runs=0):
    runs = draw(st.integers(min_runs, 200))
    return draw(st.integers(0, runs)), runs


def test_the_pass_rate_is_the_part_that_passed():
    failed = conversation(failures=(Failure("error", "broken"),))
    assert pass_rate([conversation(), failed, failed, conversation(), conversation()]) == 0.6


def test_the_pass_rate_of_nothing_is_zero():
    assert pass_rate([]) == 0.0


@pytest.mark.parametrize(
    ("passes", "runs", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_that_of_newcombe_1998_table_one_method_three(passes, runs, low, high):
    found = wilson(passes, runs)
    assert round(found.low, 4) == low
    assert round(found.high, 4) == high


@given(outcomes(), st.floats(0.5, 0.999))
def test_the_interval_holds_the_observed_rate_and_stays_within_zero_and_one(outcome, confidence):
    passes, runs = outcome
    found = wilson(passes, runs, confidence=confidence)
    assert 0 <= found.low <= found.high <= 1
    if runs:
        assert found.low - 1e-12 <= passes / runs <= found.high + 1e-12


@given(outcomes())
def test_the_interval_of_failures_mirrors_that_of_passes(outcome):
    passes, runs = outcome
    found, mirrored = wilson(passes, runs), wilson(runs - passes, runs)
    assert found.low == pytest.approx(1 - mirrored.high, abs=1e-12)
    assert found.high == pytest.approx(1 - mirrored.low, abs=1e-12)


@given(outcomes(min_runs=1))
def test_more_runs_of_the_same_rate_make_it_surer(outcome):
    passes, runs = outcome
    few, many = wilson(passes, runs), wilson(passes * 4, runs * 4)
    assert many.high - many.low < few.high - few.low


@given(outcomes(min_runs=1), st.floats(0.5, 0.9))
def test_more_confidence_needs_a_wider_interval(outcome, confidence):
    less, more = wilson(*outcome, confidence=confidence), wilson(*outcome, confidence=confidence + 0.09)
    assert less.high - less.low < more.high - more.low


def test_without_runs_the_rate_may_be_anything():
    assert wilson(0, 0) == Interval(0.0, 1.0)


@pytest.mark.parametrize(("passes", "runs"), [(2, 1), (-1, 3), (0, -1)])
def test_counts_that_cannot_be_are_refused(passes, runs):
    with pytest.raises(InputError, match="invalid counts"):
        wilson(passes, runs)
    with pytest.raises(InputError, match="invalid counts"):
        pass_hat_k(passes, runs, 1)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, math.nan])
def test_a_confidence_outside_zero_and_one_is_refused(confidence):
    with pytest.raises(InputError, match="between 0 and 1"):
        wilson(1, 2, confidence=confidence)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_hat_k_is_the_part_of_all_choices_of_k_runs_that_pass_throughout(runs, data):
    k = data.draw(st.integers(1, len(runs)))
    choices = list(combinations(runs, k))
    wanted = Fraction(sum(all(choice) for choice in choices), len(choices))
    assert pass_hat_k(sum(runs), len(runs), k) == pytest.approx(float(wanted))


def test_pass_hat_1_is_the_pass_rate_and_it_falls_as_k_grows():
    assert pass_hats(6, 10) == {1: 0.6, 2: 15 / 45, 3: 20 / 120, 5: 6 / 252, 10: 0.0}


def test_pass_hats_go_as_far_as_there_are_runs():
    assert list(pass_hats(4, 4)) == [1, 2, 3]
    assert pass_hats(0, 0) == {}


@pytest.mark.parametrize("k", [0, 4])
def test_k_beyond_the_runs_is_refused(k):
    with pytest.raises(InputError, match="from 1 to the number of runs, 3"):
        pass_hat_k(2, 3, k)


def test_the_spread_is_the_mean_and_deviation_of_the_values():
    assert spread([2, 4, 4, 4, 5, 5, 7, 9]) == Spread(8, 5.0, 2.0, 2.0, 9.0)
    assert spread([]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_mean_lies_between_the_least_and_the_greatest_value(values):
    found = spread(values)
    assert found.low - 1e-6 <= found.mean <= found.high + 1e-6
    assert found.deviation >= 0


def test_metrics_are_spread_over_conversations_and_what_is_no_number_is_left_out():
    conversations = [
        conversation(Judgement("tone", 3.0), Judgement("label", "good"), Judgement("calm", 1.0)),
        conversation(Judgement("tone", 5), Judgement("tone", None), Judgement("tone", 9.0, error="no answer")),
        conversation(Judgement("calm", math.nan), Judgement("calm", math.inf)),
    ]
    found = metric_spreads(conversations)
    assert list(found) == ["calm", "tone"]
    assert found["tone"] == Spread(2, 4.0, 1.0, 3.0, 5.0)
    assert found["calm"].count == 1
