"""Replays the agent: no network, no key, no waiting."""

import os

import pytest
from openai import AsyncOpenAI
from pydantic_ai.exceptions import ModelAPIError

from agent import answer

KEY = os.environ.get("OPENAI_API_KEY", "none")  # a replay needs none, and --offbook-record=fresh does


async def replayed_answer(offbook) -> str:
    async with AsyncOpenAI(api_key=KEY, timeout=10, http_client=offbook.http_client()) as client:
        return await answer("Order 42 never came.", client)


@pytest.mark.offbook(recording="recordings/agent.json")
def test_it_refunds_what_never_came(offbook) -> None:
    assert offbook.run(replayed_answer(offbook)) == "Order 42 is refunded. I am sorry that it never came."


@pytest.mark.offbook(recording="recordings/agent.json")
def test_an_outage_is_retried(offbook) -> None:
    offbook.faults("call=1 attempt=1: http_error 503")
    assert "refunded" in offbook.run(replayed_answer(offbook))


@pytest.mark.explore(
    recording="recordings/agent.json",
    faults="connection_reset,http_error 429,http_error 500,timeout",
    side_effects="refund",
    declared=[ModelAPIError],
)
def test_no_outage_refunds_twice(offbook) -> None:
    assert "refunded" in offbook.run(replayed_answer(offbook))
