"""Opening participants: the step ids and retries of an agent's model calls, and how errors are grouped."""

import pytest

from offbook import Response
from offbook.config import Config, ErrorGrouping, error_grouping
from offbook.config.agents import AgentStepProvider, RetryingAgent
from offbook.errors import ProviderTimeoutError
from offbook.gateway.retry import RetryPolicy
from offbook.scenarios import HandlerTarget, Mocks
from offbook.scenarios.result import ConversationResult, ErrorGroup, Failure, Judgement, ScenarioResult, SuiteResult
from offbook.scenarios.targets import AgentEnvironment
from tests.fakes import Scripted, user

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


@pytest.mark.parametrize(
    ("step", "recorded"), [(None, "agent"), ("agent", "agent"), ("user", "agent.user"), ("a/1/user", "agent.a/1/user")]
)
async def test_steps_of_an_agent_are_its_own(step, recorded):
    model = Scripted(Response("hi"))
    await AgentStepProvider(model).complete(user("hi"), "m", step_id=step)
    assert model.requests[0].step_id == recorded


async def test_calls_are_retried_by_the_policy():
    async def handle(messages, ctx):
        return (await ctx.provider.complete(messages, "m")).content

    model = Scripted(ProviderTimeoutError("late"), Response("hi"))
    agent = RetryingAgent(HandlerTarget("a", handle), retry=RetryPolicy(backoff_s=0))
    dialogue = agent.begin(AgentEnvironment(Mocks({}).conversation("c"), model))
    assert (await dialogue.say("hi")).text == "hi"


async def test_an_agent_that_is_given_no_provider_has_none():
    agent = RetryingAgent(HandlerTarget("a", lambda messages, ctx: str(ctx.provider)), retry=None)
    assert (await agent.begin(AgentEnvironment(Mocks({}).conversation("c"))).say("hi")).text == "None"
