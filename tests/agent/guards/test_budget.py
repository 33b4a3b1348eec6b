"""What a run may cost."""

import pytest

from offbook import InputError, Response, Usage
from offbook.agent import AgentBudgetError, GuardPolicy
from tests.agent.parts import FETCH, SUBMIT, play


def paid(call, cost_usd=0.4):
    return Response(tool_calls=(call,), usage=Usage.of(60, 40), cost_usd=cost_usd)


async def test_the_model_is_not_asked_again_once_the_dollars_are_spent():
    played = await play([paid(FETCH)] * 5, policy={"budget_usd": 0.8}, catch=AgentBudgetError)
    assert len(played.client.calls) == 2
    assert (played.error.spent, played.error.limit, played.error.unit) == (0.8, 0.8, "USD")
    assert played.results == ["fetch done"] * 2


async def test_tokens_are_counted_too():
    played = await play([paid(FETCH)] * 5, policy={"budget_tokens": 250}, catch=AgentBudgetError)
    assert (len(played.client.calls), played.error.unit) == (3, "tokens")


async def test_a_run_that_ends_on_its_last_cent_has_ended():
    assert (await play([paid(FETCH), paid(SUBMIT)], policy={"budget_usd": 0.8})).result == "submit done"


async def test_refused_answers_are_paid_for_as_well():
    wordy = Response("Let me think.", cost_usd=1.0)
    played = await play([wordy, FETCH], policy={"budget_usd": 1.0}, catch=AgentBudgetError)
    assert len(played.client.calls) == 1


async def test_a_cost_that_is_no_number_does_not_make_the_budget_endless():
    lines = [paid(FETCH, float("nan")), paid(FETCH), paid(FETCH)]
    await play(lines, policy={"budget_usd": 0.8}, catch=AgentBudgetError)


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
