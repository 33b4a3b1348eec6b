"""The model calls of an agent: their step ids and retries."""

import pytest

from offbook import Response
from offbook.config.agents import AgentStepProvider, RetryingAgent
from offbook.errors import ProviderTimeoutError
from offbook.gateway.retry import RetryPolicy
from offbook.scenarios import HandlerTarget, Mocks
from offbook.scenarios.targets import AgentEnvironment
from tests.fakes import Scripted, user


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
