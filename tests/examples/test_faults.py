"""The response file with one step for every type of fault."""

import asyncio
from pathlib import Path

import pytest

from offbook import MockProvider, ProviderConnectionError, ProviderError, ProviderTimeoutError, RateLimitError, run
from offbook.errors import MalformedResponseError
from offbook.faults import FAULT_TYPES
from offbook.recording.stores.locate import open_store
from tests.fakes import user

PATH = Path(__file__).parents[2] / "examples" / "faults.json"


def test_every_type_of_fault_is_shown():
    shown = {exchange.fault.type for _, exchange in open_store(PATH).load() if exchange.fault}
    assert shown == {name for name in FAULT_TYPES if not name.startswith("ws_")}  # those are for WebSockets


@pytest.mark.parametrize(
    ("step", "error", "after_s"),
    [
        ("answer", ProviderTimeoutError, 5.0),
        ("summarize", RateLimitError, 0.0),
        ("explain", ProviderError, 0.0),
        ("translate", MalformedResponseError, 0.0),
        ("status", MalformedResponseError, 0.0),
        ("connect", ProviderConnectionError, 0.0),
        ("poem", ProviderConnectionError, 0.0),
        ("chat", ProviderError, 0.0),
    ],
)
def test_a_step_fails_as_its_fault_says(step, error, after_s):
    async def work():
        with pytest.raises(ProviderError) as caught:
            await MockProvider(PATH, strict=True).complete(user("Hi"), "m", step_id=step)
        return type(caught.value).__name__, asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == (error.__name__, after_s)


@pytest.mark.parametrize(
    ("step", "content", "finish_reason", "tools", "after_s"),
    [
        ("classify", "question", "stop", [], 0.0),
        ("login", "Welcome back", "stop", [], 0.0),
        ("news", "Nothing new", "stop", [], 20.0),
        ("apology", "I would rather not.", "stop", [], 0.0),
        ("chapter", "Call me", "length", [], 0.0),
        ("refund", "", "tool_calls", ["refund"], 0.0),
        ("transfer", "", "tool_calls", ["transfer"], 0.0),
        ("ship", "", "tool_calls", ["ship", "ship"], 0.0),
        ("compare", "", "tool_calls", ["weigh", "weigh"], 0.0),
        ("browse", "That is all", "stop", [], 0.0),
        ("pay", "", "tool_calls", ["pay"], 0.0),
        ("quote", "not or be to", "stop", [], 0.0),
        ("price", '{"the_price":5}', "stop", [], 0.0),
        ("again", "Once more", "stop", [], 0.0),
        ("essay", "It was a dark and stormy night", "stop", [], 60.0),
        ("letter", "Dear Sir or Madam", "stop", [], 10.0),
        ("report", "The quarter was", "length", [], 0.0),
        ("greet", "", "stop", [], 0.0),
        ("gossip", "", "content_filter", [], 0.0),
        ("weather", "", "tool_calls", ["get_weather"], 0.0),
        ("search", "", "tool_calls", ["no_such_tool"], 0.0),
        ("order", "", "tool_calls", ["tool"], 0.0),
    ],
)
def test_a_step_answers_as_its_fault_says(step, content, finish_reason, tools, after_s):
    async def work():
        response = await MockProvider(PATH, strict=True).complete(user("Hi"), "m", step_id=step)
        return response, asyncio.get_running_loop().time()

    response, moment = run(work(), virtual_time=True)
    assert response.content == content
    assert response.finish_reason == finish_reason
    assert moment == after_s
    assert [call.tool for call in response.tool_calls] == tools


async def test_a_step_fails_twice_and_then_succeeds():
    mock = MockProvider(PATH, strict=True)
    for status_code in (503, None):
        with pytest.raises(ProviderError) as caught:
            await mock.complete(user("Hi"), "m", step_id="recover")
        assert caught.value.status_code == status_code
    assert (await mock.complete(user("Hi"), "m", step_id="recover")).content == "success after two failures"
