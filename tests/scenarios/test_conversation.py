"""A conversation fails if a call had no answer, even if the agent caught the error."""

import asyncio
from contextlib import suppress

import pytest

from offbook import MockProvider, run
from offbook.errors import NoProviderError, RequestError
from offbook.providers.provider import Provider
from offbook.scenarios import (
    HandlerTarget,
    Participants,
    ScenarioRunner,
    replayed,
    scenario,
)
from offbook.scenarios.conversation import UnansweredCapture
from offbook.scenarios.targets import EngineTarget
from offbook.workflow import parse_workflow
from tests.fakes import user

HELLO = [{"role": "user", "content": "Hello"}]
NOTHING_RECORDED = {"_version": 2}


async def careless(messages, ctx):
    """Sends a mail, and says so whatever happens."""
    with suppress(Exception):
        await ctx.resolve_tool("send_email", {"to": "ada"})
    return "All done!"


def careless_in_a_thread(messages, ctx):
    with suppress(Exception):
        ctx.resolve_tool("send_email", {"to": "ada"})
    return "All done!"


async def careless_thinker(messages, ctx):
    """Asks a model, and answers without it if that fails."""
    try:
        return (await ctx.provider.complete(messages, "m", step_id="think")).content
    except Exception:
        return "All done!"


def held(declared, handler, *, provider=None):
    """The only conversation of a scenario with an agent that is this function."""
    target = handler if hasattr(handler, "begin") else HandlerTarget("bot", handler)
    runner = ScenarioRunner(Participants({"bot": target}, provider))
    result = run(runner.run([declared]), virtual_time=True)
    assert not result.passed
    return result.scenarios[0].conversations[0]


def real_send_email(to: str) -> int:
    """Send a mail, and return its number."""
    raise NotImplementedError


@pytest.mark.parametrize("handler", [careless, careless_in_a_thread])
@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({}, "error", "tool 'send_email' was called, but no mock is defined"),
        ({"mocks": {"send_email": lambda args: object()}}, "error", "returned something that is not JSON"),
        (
            {"mocks": {"send_email": "sent"}, "schemas": {"send_email": real_send_email}},
            "error",
            "returns what the real tool would not",
        ),
        ({"mocks": {"send_email": replayed(NOTHING_RECORDED)}}, "mismatch", "tool 'send_email' is not in the record"),
    ],
)
def test_a_tool_call_without_an_answer_fails_an_agent_that_swallows_the_error(handler, fields, kind, reason):
    conversation = held(scenario("s", turns=["Hi"], **fields), handler)
    assert conversation.ending == "error"
    [failure] = conversation.failures
    assert failure.kind == kind
    assert reason in failure.reason


def test_a_model_call_without_an_answer_fails_an_agent_that_swallows_the_error():
    provider = MockProvider(responses=NOTHING_RECORDED, strict=True)
    conversation = held(scenario("s", turns=["Hi"]), careless_thinker, provider=provider)
    assert conversation.ending == "error"
    assert [failure.kind for failure in conversation.failures] == ["mismatch"]


def test_arguments_that_are_not_an_object_fail_an_agent_that_swallows_the_error():
    async def handle(messages, ctx):
        try:
            return await ctx.resolve_tool("search", '{"text": "tea"}')
        except Exception:
            return "All done!"

    conversation = held(scenario("s", turns=["Hi"], mocks={"search": []}), handle)
    assert "expected arguments by name" in conversation.failures[0].reason


def test_no_further_turn_is_taken_once_a_call_had_no_answer():
    conversation = held(scenario("s", turns=["Hi", "And now?"]), careless)
    assert [turn.user for turn in conversation.turns] == ["Hi"]


def test_an_agent_that_raises_an_error_of_its_own_fails_with_the_missing_answer_first():
    async def handle(messages, ctx):
        try:
            return await ctx.resolve_tool("send_email", {})
        except Exception:
            raise RuntimeError("cannot send")  # noqa: B904 - as agents do

    conversation = held(scenario("s", turns=["Hi"]), handle)
    reasons = [failure.reason.partition(",")[0] for failure in conversation.failures]
    assert reasons == ["tool 'send_email' was called", "the agent raised RuntimeError: cannot send"]


def test_the_same_miss_is_reported_once_and_many_are_counted():
    async def handle(messages, ctx):
        for name in ("a", "a", "b", "c", "d", "e"):
            try:
                await ctx.resolve_tool(name, {})
            except Exception:
                continue
        return "All done!"

    conversation = held(scenario("s", turns=["Hi"]), handle)
    reasons = [failure.reason for failure in conversation.failures]
    assert [reason.split("'")[1] for reason in reasons[:3]] == ["a", "b", "c"]
    assert reasons[3:] == ["2 more calls have no answer"]


def test_errors_of_parallel_calls_are_reported_one_by_one():
    async def handle(messages, ctx):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.resolve_tool("a", {}))
                group.create_task(ctx.resolve_tool("b", {}))
        except ExceptionGroup:
            pass
        return "All done!"

    conversation = held(scenario("s", turns=["Hi"]), handle)
    assert [failure.reason.split("'")[1] for failure in conversation.failures] == ["a", "b"]


def test_a_workflow_whose_step_may_fail_fails_if_a_tool_has_no_mock():
    flow = parse_workflow(
        """
name: mail
state: {user_input: "", response: "All done!"}
tools: {send_email: {function: "pprint:saferepr"}}
steps:
- {id: send, type: tool, tool: send_email, args: {object: 1}, on_failure: continue}
"""
    )
    provider = MockProvider(responses=NOTHING_RECORDED)
    conversation = held(scenario("s", turns=["Hi"]), EngineTarget("bot", flow, provider=provider), provider=provider)
    assert "no mock is defined" in conversation.failures[0].reason


def test_a_tool_that_fails_on_purpose_fails_nobody():
    mocks = {"send_email": RuntimeError("down")}
    runner = ScenarioRunner(Participants({"bot": HandlerTarget("bot", careless)}))
    assert run(runner.run([scenario("s", turns=["Hi"], mocks=mocks)])).passed


def test_the_advice_for_a_tool_without_a_mock_is_the_argument_of_the_scenario():
    [failure] = held(scenario("s", turns=["Hi"]), careless).failures
    assert 'scenario(…, unmocked="passthrough")' in failure.detail


@pytest.mark.parametrize(
    ("error", "is_reported"), [(RequestError("no messages"), False), (NoProviderError("nobody accepts it"), True)]
)
def test_a_request_that_is_wrong_in_itself_does_not_count_as_unanswered(error, is_reported):
    class Refusing(Provider):
        name = "refusing"

        async def send(self, request):
            raise error

    reported = []
    with pytest.raises(type(error)):
        run(UnansweredCapture(Refusing(), reported.append).complete(user("hi"), "m"))
    assert reported == ([error] if is_reported else [])
