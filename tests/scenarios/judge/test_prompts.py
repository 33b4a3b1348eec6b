"""Prompts: all that a model is told, by the step of its calls."""

from offbook import run
from offbook.scenarios.judge import METRICS, Judge, prompts
from offbook.scenarios.user import DEFAULT_TEMPLATE
from tests.scenarios.judge.parts import REFUND, TURNS, ByStep


def test_there_is_a_prompt_for_the_user_every_metric_and_the_grouping():
    assert list(prompts()) == ["user", *(f"judge.{name}" for name in METRICS), "judge.error_groups"]
    assert prompts()["user"].startswith(DEFAULT_TEMPLATE)


def test_a_prompt_is_what_the_judge_sends():
    provider = ByStep()
    run(Judge(provider, "m").judge(REFUND, TURNS[:1]), virtual_time=True)
    sent = {request.step_id: request.messages[0]["content"] for request in provider.requests}
    assert sent == {step: prompt for step, prompt in prompts().items() if step in sent}
    assert len(sent) == len(METRICS)
