"""A limit on what all calls together may cost."""

import asyncio

import pytest
from msgspec.structs import replace

from offbook import (
    BudgetExceededError,
    InputError,
    MemorySink,
    ProviderConnectionError,
    ProviderError,
    ProviderGateway,
    RetryPolicy,
)
from tests.gateway.parts import OK, ask, failure, gateway_of, outcome, refusal, request, run, scripted, words

DEAR = replace(OK, cost_usd=0.4)


def test_calls_are_refused_once_it_is_spent():
    async def scene():
        sink = MemorySink()
        provider = scripted(*[DEAR] * 9)
        gateway = gateway_of(provider, budget_usd=1.0, sink=sink)
        for _ in range(3):
            assert await ask(gateway) == DEAR
        told = len(sink.events)
        error = await refusal(ask(gateway))
        assert len(provider.requests) == 3
        assert len(sink.events) == told
        return error

    error = run(scene())
    assert isinstance(error, BudgetExceededError)
    assert (error.limit_usd, error.spent_usd) == (1.0, pytest.approx(1.2))
    assert str(error) == "the budget of 1 $ is spent (1.2 $ so far)"
    assert not isinstance(error, ProviderError)


def test_streams_count_when_they_have_ended():
    async def scene():
        gateway = gateway_of(scripted(words("one", "two", end=DEAR)), budget_usd=0.4)
        reply = await gateway.send(request(stream=True))
        assert gateway.budget.spent_usd == 0.0
        await reply.collect()
        assert gateway.budget.spent_usd == 0.4
        return await refusal(gateway.send(request(stream=True)))

    assert isinstance(run(scene()), BudgetExceededError)


def test_a_stream_counts_as_soon_as_its_last_event_is_seen():
    async def scene():
        gateway = gateway_of(scripted(words("one", end=DEAR)))
        async for _ in await gateway.send(request(stream=True)):
            pass
        return gateway.budget.spent_usd

    assert run(scene()) == 0.4


def test_calls_under_way_may_still_end():
    async def scene():
        gateway = gateway_of(scripted(*[DEAR] * 9, delay_s=1.0), budget_usd=0.4)
        ended = await asyncio.gather(*(outcome(ask(gateway)) for _ in range(3)))
        assert ended == [DEAR] * 3
        assert gateway.budget.spent_usd == pytest.approx(1.2)
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_what_fails_costs_nothing():
    async def scene():
        cut = [*words("one")[:-1], ProviderConnectionError("cut")]
        gateway = gateway_of(scripted(failure(), cut, failure(400)), retry=RetryPolicy(max_retries=1))
        await outcome(ask(gateway))
        return gateway.budget.spent_usd

    assert run(scene()) == 0.0


@pytest.mark.parametrize("cost_usd", [float("nan"), float("inf")])
def test_a_cost_that_is_no_number_does_not_make_it_endless(cost_usd):
    async def scene():
        gateway = gateway_of(scripted(replace(OK, cost_usd=cost_usd), DEAR), budget_usd=0.4)
        await ask(gateway)
        await ask(gateway)
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_it_is_shared_by_all_uses_of_a_gateway():
    async def scene():
        gateway = gateway_of(scripted(DEAR, DEAR), budget_usd=0.4)
        await ask(gateway.using(deadline_s=5.0))
        return await refusal(ask(gateway))

    assert isinstance(run(scene()), BudgetExceededError)


def test_a_budget_of_nothing_refuses_everything():
    assert isinstance(run(refusal(ask(gateway_of(scripted(OK), budget_usd=0.0)))), BudgetExceededError)


@pytest.mark.parametrize("budget_usd", [-0.01, float("nan")])
def test_a_budget_that_makes_no_sense_is_refused(budget_usd):
    with pytest.raises(InputError, match=r"^budget_usd: expected"):
        ProviderGateway(budget_usd=budget_usd)
