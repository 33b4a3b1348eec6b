"""Grouping the errors of a run by the config."""

import pytest

from offbook.config import Config, ErrorGrouping, error_grouping
from offbook.scenarios.result import ConversationResult, ErrorGroup, Failure, Judgement, ScenarioResult, SuiteResult

RUDE = Judgement("tone", "rude", "It shouts.", severity="low")


def run_of(*failures):
    """A run of one conversation with a judgement and these failures."""
    conversation = ConversationResult(
        id="c0", scenario="s", agent="a", index=0, ending="script_done", judgements=(RUDE,), failures=failures
    )
    return SuiteResult((ScenarioResult("s", "a", "", (conversation,)),), is_complete=False)


@pytest.mark.parametrize("by", ["label", "model"])
def test_a_run_that_was_cut_off_is_grouped_by_label_without_asking_a_model(by):
    assert ErrorGrouping(by, "m").groups_without_model(run_of(Failure("error", "broken"))) == (
        ErrorGroup("error: broken", "high", ("c0",), "broken"),
        ErrorGroup("tone: rude", "low", ("c0",), "It shouts."),
    )


def test_a_run_in_which_all_passed_has_no_groups():
    assert ErrorGrouping().groups_without_model(run_of()) == ()


def test_without_a_judge_errors_are_grouped_by_label():
    assert error_grouping(Config()) == ErrorGrouping("label")
