"""The guards in a loop of one's own, and what a run may cost."""

import asyncio
from datetime import date

import pytest
from pydantic import BaseModel

from offbook import InputError, Response, Usage, run
from offbook.agent import (
    AgentBudgetError,
    GuardPolicy,
    Guardrails,
    MaxIterationsError,
    MessageType,
    StepEnforcementError,
    TextResponse,
    ToolCall,
    ToolExecutionError,
    ToolResolutionError,
    ToolTimeoutError,
)
from offbook.errors import EventLoopError
from offbook.tools import ToolOutcome
from tests.agent.small_agents import FETCH, SUBMIT, agent, fails, run_script, tool


def rails(**options):
    rules = {"required_steps": ["fetch"], "terminal_tool": "submit"} | options
    return Guardrails([tool("fetch"), tool("submit")], **rules)


class Order(BaseModel):
    number: int


def total(order: Order, on: date) -> str:
    """Tell what an order costs."""
    return f"{order.number} in {on.year}"


def explode():
    """Fail."""
    raise ValueError("no")


TOTAL = ToolCall("total", {"order": {"number": "42"}, "on": "2024-12-24"}, id="a")


def test_a_good_answer_is_to_be_carried_out():
    verdict = rails().check([FETCH])
    assert [call.tool for call in verdict.calls] == ["fetch"]
    [message] = verdict.messages
    assert message["tool_calls"][0]["id"] == verdict.calls[0].id
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_bad_answer_comes_with_what_to_say_to_it():
    verdict = rails().check([SUBMIT])
    assert verdict.calls == ()
    assert [message["role"] for message in verdict.messages] == ["assistant", "tool"]
    assert "cannot call submit yet" in verdict.messages[1]["content"]


def test_the_run_is_over_when_a_terminal_tool_has_run():
    guardrails = rails()
    assert guardrails.record(guardrails.check([FETCH]).calls) is False
    assert guardrails.record(guardrails.check([SUBMIT]).calls) is True


def test_a_terminal_tool_that_has_run_too_soon_does_not_end_the_run():
    guardrails = rails()
    assert guardrails.record([SUBMIT]) is False
    assert guardrails.pending_steps() == ["fetch"]
    assert guardrails.record([FETCH]) is False
    assert guardrails.record([SUBMIT]) is True


def test_required_steps_and_the_terminal_tool_may_be_recorded_together():
    assert rails().record([FETCH, SUBMIT]) is True


def test_text_is_an_answer_where_there_is_no_terminal_tool():
    guardrails = rails(terminal_tool=())
    assert guardrails.check(TextResponse("Done!")).answer is None
    guardrails.record([FETCH])
    assert guardrails.check(TextResponse("Done!")).answer == "Done!"


def test_a_call_written_as_text_is_carried_out_and_said_as_a_call():
    verdict = rails().check(TextResponse('{"tool": "fetch", "args": {"page": 2}}'))
    assert verdict.calls[0].args == {"page": 2}
    assert verdict.messages[0]["tool_calls"][0]["function"] == {"name": "fetch", "arguments": '{"page":2}'}


def test_rescue_can_be_switched_off():
    guardrails = rails(policy=GuardPolicy(rescue=False))
    assert guardrails.check(TextResponse('{"tool": "fetch", "args": {}}')).calls == ()


def test_a_model_that_will_not_listen_is_given_up():
    guardrails = rails(policy=GuardPolicy(max_premature_ends=1))
    guardrails.check([SUBMIT])
    with pytest.raises(StepEnforcementError):
        guardrails.check([SUBMIT])


def test_failures_are_counted_from_outcomes():
    guardrails = rails(policy=GuardPolicy(max_tool_errors=0))
    failed = ToolOutcome.of_error(FETCH, ValueError("no"))
    with pytest.raises(ToolExecutionError):
        guardrails.record([failed])
    assert guardrails.pending_steps() == ["fetch"]


def test_the_budget_ends_a_loop_between_its_calls():
    guardrails = rails(policy=GuardPolicy(budget_usd=1.0))
    verdict = guardrails.check(Response(tool_calls=(FETCH,), cost_usd=1.0))
    with pytest.raises(AgentBudgetError):
        guardrails.record(verdict.calls)


def test_plain_functions_are_tools():
    def fetch(page: int) -> str:
        """Fetch a page."""
        return "text"

    guardrails = Guardrails([fetch])
    assert guardrails.check([ToolCall("fetch", {"page": "two"})]).calls == ()
    assert guardrails.check([ToolCall("fetch", {"page": 2})]).calls[0].args == {"page": 2}


def test_tools_are_run_with_their_arguments_as_their_hints_say():
    guardrails = Guardrails([total], terminal_tool="total")
    outcomes = guardrails.run_sync(guardrails.check([TOTAL]).calls)
    assert [(outcome.call.id, outcome.text) for outcome in outcomes] == [("a", "42 in 2024")]
    assert guardrails.record(outcomes) is True


async def test_what_a_tool_raises_is_reported_and_counted():
    guardrails = Guardrails([explode, total], terminal_tool="explode", policy=GuardPolicy(max_tool_errors=1))
    outcomes = await guardrails.run(guardrails.check([ToolCall("explode"), TOTAL]).calls)
    assert [outcome.text for outcome in outcomes] == ["[ToolError] ValueError: no", "42 in 2024"]
    assert guardrails.record(outcomes) is False
    with pytest.raises(ToolExecutionError):
        guardrails.record(await guardrails.run([ToolCall("explode")]))


def test_tools_that_are_run_keep_to_the_timeout_of_the_policy():
    async def wait():
        await asyncio.sleep(3600)

    guardrails = Guardrails([wait], policy=GuardPolicy(tool_timeout_s=5))
    (outcome,) = run(guardrails.run([ToolCall("wait")]), virtual_time=True)
    assert outcome.text == "[ToolError] ToolTimeoutError: wait took longer than 5 s"


async def test_tools_are_awaited_where_there_is_an_event_loop():
    with pytest.raises(EventLoopError):
        rails().run_sync([FETCH])


def test_a_verdict_itself_cannot_be_run():
    guardrails = rails()
    with pytest.raises(InputError, match="calls: expected a Sequence, got TurnVerdict") as caught:
        guardrails.run_sync(guardrails.check([FETCH]))
    assert caught.value.hint == "run(verdict.calls)"


@pytest.mark.parametrize("executed", [["x"], "x", [None], FETCH, None])
def test_what_is_neither_outcome_nor_call_is_not_recorded(executed):
    with pytest.raises(InputError, match="executed: expected a list of outcomes or calls") as caught:
        rails().record(executed)
    assert "record(outcomes)" in caught.value.hint


@pytest.mark.parametrize("calls", [[{"name": "fetch"}], ["fetch"]])
def test_an_answer_whose_calls_are_no_calls_is_refused(calls):
    with pytest.raises(InputError, match="client: expected tool calls or text, got a Response with "):
        rails().check(Response(tool_calls=calls))


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(InputError, match="policy: expected a GuardPolicy, got dict") as caught:
        rails(policy={"max_tool_errors": 0})
    assert caught.value.hint == "policy=GuardPolicy(max_same_calls=2)"


def paid(call, cost_usd=0.4):
    return Response(tool_calls=(call,), usage=Usage.of(60, 40), cost_usd=cost_usd)


async def test_the_model_is_not_asked_again_once_the_dollars_are_spent():
    end = await run_script([paid(FETCH)] * 5, policy={"budget_usd": 0.8}, catch=AgentBudgetError)
    assert len(end.client.calls) == 2
    assert end.error.spent == 0.8
    assert end.error.limit == 0.8
    assert end.error.unit == "USD"
    assert end.results == ["fetch done"] * 2


async def test_tokens_are_counted_too():
    end = await run_script([paid(FETCH)] * 5, policy={"budget_tokens": 250}, catch=AgentBudgetError)
    assert len(end.client.calls) == 3
    assert end.error.unit == "tokens"


async def test_tokens_without_a_total_are_counted_too():
    fetch = Response(tool_calls=(FETCH,), usage=Usage(prompt_tokens=60, completion_tokens=40))
    end = await run_script([fetch] * 5, policy={"budget_tokens": 250}, catch=AgentBudgetError)
    assert len(end.client.calls) == 3
    assert end.error.spent == 300


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
