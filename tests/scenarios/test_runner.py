"""Running scenarios."""

import asyncio

import pytest

from offbook import MockProvider, OpenAIProvider, Response, run
from offbook.errors import InputError
from offbook.scenarios import (
    HandlerTarget,
    Judgement,
    Participants,
    RunRules,
    ScenarioRunner,
    Trajectory,
    expected,
    scenario,
    sequence,
    turn,
)
from tests.fakes import Scripted


async def booking_agent(messages, ctx):
    """Books the requested time."""
    if messages[-1]["content"] == "crash":
        raise RuntimeError("out of memory")
    if messages[-1]["content"] == "hang":
        await asyncio.sleep(3600)
    booked = await ctx.resolve_tool("create_booking", {"time": messages[-1]["content"]})
    return f"Booked: {booked}"


AGENT = HandlerTarget("booking", booking_agent)
BOOKS = {"create_booking": lambda args: {"id": f"BK-{args['time']}"}}


def ran(*scenarios, rules=None, participants=None, **options):
    runner = ScenarioRunner(
        participants or Participants({"booking": AGENT}),
        RunRules(**rules or {}),
        on_scenario=options.pop("on_scenario", lambda _: None),
    )
    return run(runner.run(scenarios, **options), virtual_time=True)


def scripted(*turns, name="books", **fields):
    return scenario(name, turns=turns, **({"mocks": BOOKS} | fields))


def test_a_scripted_scenario_is_played_and_its_trajectory_checked():
    result = ran(scripted("09:00", "10:00", assertions=Trajectory("strict", ["create_booking", "create_booking"])))
    assert result.passed
    [conversation] = result.scenarios[0].conversations
    assert [(each.user, each.agent) for each in conversation.turns] == [
        ("09:00", "Booked: {'id': 'BK-09:00'}"),
        ("10:00", "Booked: {'id': 'BK-10:00'}"),
    ]
    assert conversation.ending == "script_done"


def test_a_trajectory_that_does_not_fit_fails_with_the_difference():
    result = ran(scripted("09:00", assertions=Trajectory("strict", [expected("cancel_booking")])))
    [failure] = result.scenarios[0].conversations[0].failures
    assert failure.kind == "assertion"
    assert failure.reason.startswith("extra: call 1, create_booking")
    assert "cancel_booking" in failure.detail


def test_each_turn_can_have_assertions_of_its_own():
    wanted = Trajectory("strict", [expected("create_booking", args={"time": "09:00"})])
    result = ran(scripted(turn("09:00", assertions=wanted), turn("10:00", assertions=wanted)))
    [failure] = result.scenarios[0].conversations[0].failures
    assert failure.reason.startswith("turn 2: ")


def test_sequences_start_afresh_in_each_conversation():
    mocks = {"create_booking": sequence([{"ok": False}, {"ok": True}])}
    result = ran(scripted("09:00", "10:00", mocks=mocks, conversations=3), rules={"concurrency": 1})
    said = [[turn.agent for turn in each.turns] for each in result.scenarios[0].conversations]
    assert said == [["Booked: {'ok': False}", "Booked: {'ok': True}"]] * 3


def test_conversations_have_ids_of_their_own_that_are_the_same_in_every_run():
    ids = [[each.id for each in ran(scripted("09:00", conversations=3)).scenarios[0].conversations] for _ in range(2)]
    assert ids[0] == ids[1]
    assert [each.rpartition("-")[0] for each in ids[0]] == ["conv-1", "conv-2", "conv-3"]


@pytest.mark.parametrize(
    ("says", "reason"),
    [("crash", "the agent raised RuntimeError: out of memory"), ("hang", "the agent did not answer within 30 s")],
)
def test_an_agent_that_fails_is_reported_plainly_and_the_others_go_on(says, reason):
    result = ran(scripted(says, name="bad"), scripted("09:00", name="good"), rules={"answer_timeout_s": 30.0})
    bad, good = result.scenarios
    assert not bad.passed
    assert bad.conversations[0].ending == "error"
    assert bad.conversations[0].failures[0].reason == reason
    assert bad.conversations[0].turns[0].user == says
    assert good.passed


def test_a_tool_without_a_mock_fails_the_conversation_with_the_mock_to_paste():
    result = ran(scripted("09:00", mocks={}))
    [failure] = result.scenarios[0].conversations[0].failures
    assert "create_booking" in failure.reason
    assert "lambda args" in failure.detail


def test_unmocked_tools_can_be_let_through():
    result = ran(scripted("09:00", mocks={}, unmocked="passthrough"))
    assert result.scenarios[0].conversations[0].turns[0].agent == "Booked: None"


def test_mocks_that_were_never_called_are_reported():
    result = ran(scripted("09:00", mocks={**BOOKS, "send_mail": True}))
    assert result.scenarios[0].never_called == ("send_mail",)


def test_scenarios_are_reported_as_soon_as_they_end():
    ended = []
    ran(
        scripted("hang", name="slow"),
        scripted("09:00", name="quick"),
        rules={"answer_timeout_s": 5.0},
        on_scenario=lambda each: ended.append(each.name),
    )
    assert ended == ["quick", "slow"]


def test_a_run_that_is_cut_off_leaves_what_has_finished():
    runner = ScenarioRunner(Participants({"booking": AGENT}), RunRules(answer_timeout_s=None))

    async def cut_off():
        running = asyncio.ensure_future(runner.run([scripted("hang", name="slow"), scripted("09:00", name="quick")]))
        await asyncio.sleep(60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(cut_off(), virtual_time=True)
    partial = runner.so_far()
    assert [each.name for each in partial.scenarios] == ["quick"]
    assert not partial.passed


def test_no_more_conversations_are_held_at_once_than_allowed():
    now, most = 0, 0

    async def counting(messages, ctx):
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(1)
        now -= 1
        return "ok"

    participants = Participants({"a": HandlerTarget("a", counting)})
    result = ran(scripted("hi", conversations=10), participants=participants, rules={"concurrency": 3})
    assert most == 3
    assert result.latency_s == 4


def test_several_agents_are_compared_on_the_same_scenarios():
    other = HandlerTarget("other", lambda messages, ctx: "no")
    participants = Participants({"booking": AGENT, "other": other})
    wanted = scripted("09:00", assertions=Trajectory("contains", ["create_booking"]))
    result = ran(wanted, participants=participants, agents=["booking", "other"])
    assert [(each.agent, each.passed) for each in result.scenarios] == [("booking", True), ("other", False)]


def test_a_scenario_names_its_agent():
    participants = Participants({"booking": AGENT, "other": HandlerTarget("other", lambda messages, ctx: "no")})
    assert ran(scripted("09:00", agent="other"), participants=participants).scenarios[0].agent == "other"
    with pytest.raises(InputError, match="there is no agent 'billing'"):
        ran(scripted("09:00", agent="billing"), participants=participants)


def test_conversations_can_be_repeated():
    assert len(ran(scripted("09:00", conversations=2), repeat=5).scenarios[0].conversations) == 10


def test_no_conversation_begins_when_the_budget_is_spent():
    async def costly(messages, ctx):
        return Response("ok", cost_usd=0.6)

    participants = Participants({"a": HandlerTarget("a", costly)})
    result = ran(
        scripted("hi", conversations=4), participants=participants, rules={"budget_usd": 1.0, "concurrency": 1}
    )
    assert [each.passed for each in result.scenarios[0].conversations] == [True, True, False, False]


def test_with_a_budget_an_agent_calls_no_model_without_a_price_even_if_it_catches_the_error():
    async def asks_a_model(messages, ctx):
        try:
            return await ctx.provider.complete(messages, "gpt-99", step_id="agent")
        except Exception:
            return "All done!"

    provider = OpenAIProvider(base_url="http://127.0.0.1:9/v1")
    participants = Participants({"a": HandlerTarget("a", asks_a_model)}, provider)
    (conversation,) = (
        ran(scripted("hi"), participants=participants, rules={"budget_usd": 1.0}).scenarios[0].conversations
    )
    assert not conversation.passed
    assert "no price is known for model 'gpt-99'" in conversation.failures[0].reason


def test_a_replay_without_an_answer_is_reported_as_such():
    async def asks_a_model(messages, ctx):
        response = await ctx.provider.complete(messages, "m", step_id="agent")
        return response.content

    strict = MockProvider(responses={"_version": 2, "books/a/1/agent": {"content": "hi"}}, strict=True)
    participants = Participants({"a": HandlerTarget("a", asks_a_model)}, strict)
    result = ran(scripted("hi", conversations=2), participants=participants)
    first, second = result.scenarios[0].conversations
    assert first.turns[0].agent == "hi"
    assert second.failures[0].kind == "mismatch"


def test_findings_and_thresholds_fail_a_conversation():
    class Strict:
        async def judge(self, scenario, turns):
            return (Judgement("behavior", "rude", "it shouted", 0, "high"), Judgement("helpfulness", 2.0, "meh", 0))

    participants = Participants({"booking": AGENT}, Scripted(), make_judge=lambda scenario, provider: Strict())
    result = ran(scripted("09:00", thresholds={"helpfulness": 3.0}), participants=participants)
    kinds = [failure.kind for failure in result.scenarios[0].conversations[0].failures]
    assert kinds == ["severity", "threshold"]


def test_a_conversation_can_have_to_end_in_a_certain_way():
    result = ran(scripted("09:00", ends="goal_reached"), scripted("09:00", name="other", ends=["script_done"]))
    first, second = result.scenarios
    assert first.conversations[0].failures[0].reason == "the conversation ended with script_done, not with goal_reached"
    assert second.passed


def test_a_scenario_that_is_not_judged_by_a_metric_is_not_held_to_its_threshold():
    class Silent:
        async def judge(self, scenario, turns):
            return ()

    participants = Participants({"booking": AGENT}, Scripted(), make_judge=lambda scenario, provider: Silent())
    rules = {"thresholds": {"helpfulness": 3.0}}
    assert ran(scripted("09:00", metrics=[]), participants=participants, rules=rules).passed
    assert not ran(scripted("09:00"), participants=participants, rules=rules).passed


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "neither a goal"),
        ({"goal": "x", "max_turns": 0}, "max_turns"),
        ({"goal": "x", "ends": "somehow"}, "unknown ending 'somehow'"),
        ({"goal": "x", "ends": "gave_it_up"}, "did you mean 'gave_up'"),
        ({"goal": "x", "mocks": {"refund": 1}, "side_effects": "refnd"}, "has no mock\n  hint: did you mean 'refund'"),
        ({"goal": "x", "mocks": {"a": object()}}, "a"),
    ],
)
def test_a_scenario_that_could_not_run_is_refused_where_it_is_written(fields, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        scenario("broken", **fields)
    assert "test_runner.py" in str(caught.value)


def test_a_wrapper_of_tools_sees_their_calls():
    seen = []

    def wrap(tool):
        seen.append((tool.name, tool.side_effect))
        return tool

    participants = Participants({"booking": AGENT}, wrap_tool=wrap)
    assert ran(scripted("09:00", side_effects="create_booking"), participants=participants).passed
    assert seen == [("create_booking", True)]


def test_a_side_effect_of_a_tool_that_has_no_mock_is_refused():
    with pytest.raises(InputError, match="side_effects: 'book' has no mock"):
        scripted("09:00", side_effects=["book"])
    scripted("09:00", side_effects=["book"], unmocked="passthrough")
