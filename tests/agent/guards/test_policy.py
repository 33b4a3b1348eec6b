"""What a run may cost."""

import asyncio

import pytest

from offbook import InputError, Response, Usage, run
from offbook.agent import (
    AgentBudgetError,
    GuardPolicy,
    MaxIterationsError,
    MessageType,
    ToolCall,
    ToolExecutionError,
    ToolResolutionError,
    ToolTimeoutError,
)
from tests.agent.small_agents import FETCH, SUBMIT, agent, fails, run_script, tool


def paid(call, cost_usd=0.4):
    return Response(tool_calls=(call,), usage=Usage.of(60, 40), cost_usd=cost_usd)


async def test_the_model_is_not_asked_again_once_the_dollars_are_spent():
    end = await run_script([paid(FETCH)] * 5, policy={"budget_usd": 0.8}, catch=AgentBudgetError)
    assert len(end.client.calls) == 2
    assert (end.error.spent, end.error.limit, end.error.unit) == (0.8, 0.8, "USD")
    assert end.results == ["fetch done"] * 2


async def test_tokens_are_counted_too():
    end = await run_script([paid(FETCH)] * 5, policy={"budget_tokens": 250}, catch=AgentBudgetError)
    assert (len(end.client.calls), end.error.unit) == (3, "tokens")


async def test_tokens_without_a_total_are_counted_too():
    fetch = Response(tool_calls=(FETCH,), usage=Usage(prompt_tokens=60, completion_tokens=40))
    end = await run_script([fetch] * 5, policy={"budget_tokens": 250}, catch=AgentBudgetError)
    assert (len(end.client.calls), end.error.spent) == (3, 300)


async def test_a_run_that_ends_on_its_last_cent_has_ended():
    assert (await run_script([paid(FETCH), paid(SUBMIT)], policy={"budget_usd": 0.8})).result == "submit done"


async def test_refused_answers_are_paid_for_as_well():
    wordy = Response("Let me think.", cost_usd=1.0)
    end = await run_script([wordy, FETCH], policy={"budget_usd": 1.0}, catch=AgentBudgetError)
    assert len(end.client.calls) == 1


async def test_a_cost_that_is_no_number_does_not_make_the_budget_endless():
    lines = [paid(FETCH, float("nan")), paid(FETCH), paid(FETCH)]
    await run_script(lines, policy={"budget_usd": 0.8}, catch=AgentBudgetError)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tool_errors": -1},
        {"budget_usd": 0},
        {"tool_timeout_s": -1.0},
        {"max_same_calls": 0},
        {"budget_tokens": -5},
    ],
)
def test_a_policy_out_of_range_is_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        GuardPolicy(**wrong)


async def test_an_error_is_reported_to_the_model_which_may_try_again():
    end = await run_script([FETCH, FETCH, SUBMIT], agent(fetch=fails(ValueError("no such column"))))
    assert end.results == ["[ToolError] ValueError: no such column", "done", "submit done"]


async def test_errors_once_too_often_end_the_run():
    end = await run_script([FETCH] * 3, agent(fetch=fails(*[ValueError("always")] * 3)), catch=ToolExecutionError)
    assert end.error.tool_name == "fetch"
    assert isinstance(end.error.cause, ValueError)
    assert len(end.results) == 3


async def test_success_starts_the_count_afresh():
    outcomes = iter([ValueError("1"), None, ValueError("3"), None])

    def fetch(**_):
        if error := next(outcomes):
            raise error

    await run_script([FETCH] * 4 + [SUBMIT], agent(fetch=fetch), max_tool_errors=1)


async def test_several_failures_in_one_turn_count_as_one():
    workflow = agent(fetch=fails(*[ValueError("busy")] * 3))
    await run_script([[FETCH] * 3, FETCH, SUBMIT], workflow, max_tool_errors=1)


async def test_a_terminal_tool_that_fails_does_not_end_the_run():
    end = await run_script([FETCH, SUBMIT, SUBMIT], agent(submit=fails(TypeError("bad args"), then="sent")))
    assert end.result == "sent"


async def test_errors_use_up_iterations():
    workflow = agent(fetch=fails(*[ValueError("no")] * 3))
    await run_script([FETCH] * 3, workflow, catch=MaxIterationsError, max_iterations=2, max_tool_errors=5)


async def test_a_resolution_error_is_reported_and_costs_nothing():
    workflow = agent(fetch=fails(*[ToolResolutionError("no entry for 'x'")] * 5))
    end = await run_script([FETCH] * 5, workflow, catch=MaxIterationsError, max_iterations=5, max_tool_errors=0)
    assert end.results[0] == "[ToolResolutionError] no entry for 'x'"
    assert set(end.types[3:]) == {MessageType.TOOL_CALL, MessageType.TOOL_RESULT}


async def test_a_resolution_error_between_failures_is_no_failure():
    workflow = agent(fetch=fails(ToolResolutionError("soft"), ValueError("hard")))
    await run_script([FETCH] * 3 + [SUBMIT], workflow, max_tool_errors=1)


async def test_a_fault_that_makes_a_call_fail_is_reported_like_any_error():
    broken = ToolCall("fetch", error="the order service is down")
    end = await run_script([broken, FETCH, SUBMIT])
    assert end.results[0] == "[ToolError] ToolFaultError: the order service is down"


def test_a_tool_that_takes_too_long_has_failed():
    async def sleep(**_):
        await asyncio.sleep(3600)

    workflow = agent(tool("slow", sleep, timeout_s=5.0))
    end = run(run_script([FETCH, ToolCall("slow"), SUBMIT], workflow), virtual_time=True)
    assert "slow" in end.results[1]
    assert "5 s" in end.results[1]


def test_one_timeout_can_be_set_for_all_tools():
    async def sleep(**_):
        await asyncio.sleep(3600)

    workflow = agent(tool("slow", sleep), tool("patient", sleep, timeout_s=7200.0))
    lines = [FETCH, ToolCall("slow"), ToolCall("patient"), SUBMIT]
    end = run(run_script(lines, workflow, policy={"tool_timeout_s": 60.0}), virtual_time=True)
    assert "60 s" in end.results[1]
    assert end.results[2] == "null"
    assert issubclass(ToolTimeoutError, TimeoutError)
