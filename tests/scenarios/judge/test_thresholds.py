"""Thresholds: held to the mean of all judgements that were made."""

import pytest

from offbook.scenarios.judge import below_thresholds
from offbook.scenarios.result import Failure, Judgement

JUDGEMENTS = (
    Judgement("helpfulness", 4.0, "fine", 0),
    Judgement("helpfulness", 3.0, "vague", 1),
    Judgement("helpfulness", error="down", turn_index=2),
    Judgement("coherence", error="down", turn_index=0),
    Judgement("agent_behavior_failure", "none"),
)


@pytest.mark.parametrize("least", [1, 3.5])
def test_a_mean_that_reaches_its_threshold_is_no_failure(least):
    assert below_thresholds(JUDGEMENTS, {"helpfulness": least}) == ()


def test_a_mean_below_its_threshold_is_a_failure_with_the_lowest_reason():
    assert below_thresholds(iter(JUDGEMENTS), {"helpfulness": 3.6}) == (
        Failure("threshold", "helpfulness is 3.5 on average, below its threshold of 3.6", "vague"),
    )


def test_a_metric_without_a_number_does_not_meet_its_threshold():
    assert below_thresholds(JUDGEMENTS, {"relevance": 1, "coherence": 2, "agent_behavior_failure": 3}) == (
        Failure("threshold", "relevance has no number to hold to its threshold of 1"),
        Failure("threshold", "coherence has no number to hold to its threshold of 2", "down"),
        Failure("threshold", "agent_behavior_failure has no number to hold to its threshold of 3"),
    )
