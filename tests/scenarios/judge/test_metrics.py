"""Metrics: their declaration, and how they read an answer."""

import math

import pytest

from offbook import run
from offbook.errors import InputError
from offbook.scenarios.judge import METRICS, Judge, label_metric, numeric_metric, python_metric
from offbook.scenarios.result import Judgement
from tests.fakes import Scripted
from tests.scenarios.judge.samples import REFUND, TURNS, ByStep, answer


def judged(metric, *answers):
    judge = Judge(Scripted(*answers), "m", [metric])
    return run(judge.judge(REFUND, TURNS[:1]))[0]


@pytest.mark.parametrize("name", ["helpfulness", "coherence", "relevance", "faithfulness", "verbosity"])
def test_a_numeric_metric_declares_each_number_from_one_to_five(name):
    metric = METRICS[name]
    assert metric.scope == "turn"
    assert all(f"\n{number}: " in metric.prompt for number in range(1, 6))
    assert f"by one criterion: {name}." in metric.prompt
    assert '"score": <whole number from 1 to 5>' in metric.prompt
    assert judged(name, answer(score=3, reason="so so")) == Judgement(name, 3.0, "so so", 0)


@pytest.mark.parametrize("score", [0, 1])
def test_goal_completion_is_zero_or_one_for_a_conversation(score):
    assert judged("goal_completion", answer(score=score)) == Judgement("goal_completion", float(score))


def test_half_a_goal_is_none():
    assert "integer from 0 to 1" in judged("goal_completion", *[answer(score=0.5)] * 2).error


LABELS = {
    "agent_behavior_failure": [
        "repetition",
        "failure_to_ask_for_clarification",
        "lack_of_specific_information",
        "disobeys_user_request",
        "stops_without_reason",
        "hallucination",
        "other",
    ],
    "tool_call_behavior_failure": [
        "unnecessary_tool_call",
        "tool_call_skipped",
        "wrong_arguments",
        "misread_result",
        "repeated_call",
        "other",
    ],
}
FAILURES = [(name, label) for name, labels in LABELS.items() for label in labels]


@pytest.mark.parametrize(("name", "label"), FAILURES)
def test_a_failure_is_declared_and_has_a_severity(name, label):
    assert f"\n- {label}: " in METRICS[name].prompt
    found = judged(name, answer(label=label, severity="High", reason="bad"))
    assert found == Judgement(name, label, "bad", 0, "high")


@pytest.mark.parametrize("name", LABELS)
def test_no_failure_has_no_severity(name):
    assert "\n- none: " in METRICS[name].prompt
    assert judged(name, answer(label="none", severity="high", reason="fine")) == Judgement(name, "none", "fine", 0)


@pytest.mark.parametrize(
    ("unfit", "reason"),
    [
        ({"label": "rudeness", "severity": "low"}, "label must be one of: none, repetition, "),
        ({"label": None}, "label must be one of: none, repetition, "),
        ({"label": "other"}, "severity must be one of: low, medium, high, critical"),
        ({"label": "other", "severity": "fatal"}, "severity must be one of: low, medium, high, critical"),
        ({"label": "none", "reason": 1}, "reason must be a string"),
    ],
)
def test_a_label_or_a_severity_that_is_none_of_those_is_an_error(unfit, reason):
    found = judged("agent_behavior_failure", *[answer(**unfit)] * 2)
    assert reason in found.error
    assert found.value is None
    assert found.severity is None


def test_a_numeric_metric_of_ones_own_has_its_prompt_scale_and_scope():
    metric = numeric_metric("politeness", "Is it {polite}?", low=0, high=10, scope="conversation")
    assert "\n\nIs it {polite}?\n\n" in metric.prompt
    assert judged(metric, answer(score=10)) == Judgement("politeness", 10.0)
    assert "from 0 to 10" in judged(metric, *[answer(score=11)] * 2).error


def test_a_label_metric_of_ones_own_has_its_labels_and_no_severity():
    metric = label_metric("language", "Which language is it in?", ["german", "french"])
    assert "severity" not in metric.prompt
    assert judged(metric, answer(label="French")) == Judgement("language", "french", turn_index=0)


def test_a_label_metric_of_ones_own_may_have_failures_of_a_severity():
    metric = label_metric("tone", "Which tone?", ["cold", "rude"], failures=["cold", "rude"])
    assert "A failure has a severity:" in metric.prompt
    assert "is null where" not in metric.prompt
    assert judged(metric, answer(label="rude", severity="low")) == Judgement("tone", "rude", "", 0, "low")


@pytest.mark.parametrize(
    ("returned", "value"), [(3, 3.0), (0.5, 0.5), (True, 1.0), (False, 0.0), ("good", "good"), (math.inf, math.inf)]
)
def test_a_function_gives_a_number_a_label_or_a_bool(returned, value):
    found = judged(python_metric("own", lambda turns: returned))
    assert found == Judgement("own", value)
    assert type(found.value) is type(value)


def test_a_function_sees_all_turns_and_no_model_is_asked():
    provider = ByStep()
    seen = []
    run(Judge(provider, "m", [python_metric("own", lambda turns: seen.append(turns) or 1)]).judge(REFUND, TURNS))
    assert seen == [TURNS]
    assert provider.requests == []


def test_a_function_may_give_its_reason():
    assert judged(python_metric("own", lambda turns: (0, "it lied"))) == Judgement("own", 0.0, "it lied")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda turns: None, "TypeError: expected a number, a label or a bool, alone or with a reason, got None"),
        (lambda turns: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_fails_is_a_judgement_that_failed(function, error):
    assert judged(python_metric("own", function)) == Judgement("own", error=error)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: numeric_metric("", "Is it?"), "metric: name: '' is not a valid metric name"),
        (lambda: python_metric("a/b", len), "'a/b' is not a valid"),
        (lambda: numeric_metric("own", " \n"), "own: prompt: the prompt is empty"),
        (lambda: label_metric("own", "", ["a", "b"], failures=["a"]), "own: prompt: the prompt is empty"),
        (lambda: numeric_metric("own", "Is it?", 5, 5), "own: low: low must be less than high, got 5 and 5"),
        (lambda: numeric_metric("own", "Is it?", scope="run"), "own: scope: unknown scope 'run'"),
        (lambda: label_metric("own", "Which?", "ab"), "own: labels: expected a list, got 'ab'"),
        (lambda: label_metric("own", "Which?", ["a"]), "own: labels: expected at least two labels"),
        (lambda: label_metric("own", "Which?", ["a", "b", "a"]), "without duplicates"),
        (
            lambda: label_metric("own", "Which?", ["a", "b"], failures=["c"]),
            r"own: failures: not a label: c\n  hint: labels",
        ),
    ],
)
def test_a_metric_that_is_declared_wrongly_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
