"""Determinism: a recorded run replays the same to the byte, however often, whatever its tasks do."""

import asyncio

import orjson
import pytest

from offbook import MockProvider, RecordingProvider, run
from offbook.errors import ProviderConnectionError, ProviderError
from offbook.messages import Response, StreamEnd, TextDelta, ToolCall, ToolCallDelta, Usage
from tests.fakes import Scripted, user

TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
CITIES = ("Oslo", "Rome", "Lima")


class Model(Scripted):
    """Fails at first, then asks for tools in a stream, then answers; side questions take different times."""

    def __init__(self):
        calls = tuple(ToolCall("get_weather", {"city": city}, f"call_{city}") for city in CITIES)
        pieces = [
            piece
            for index, call in enumerate(calls)
            for piece in (ToolCallDelta(index, "", call.id, call.tool), 0.25, ToolCallDelta(index, call.arguments))
        ]
        asks = Response(
            "Let me look.", "gpt-4o", "scripted", Usage.of(9, 9), finish_reason="tool_calls", tool_calls=calls
        )
        super().__init__(
            ProviderError("busy", status_code=503, body="busy"),
            [1.0, TextDelta("Let me "), 0.5, TextDelta("look."), *pieces, asks],
            *(
                [wait_s, Response(f"{city}: sun", "gpt-4o")]
                for city, wait_s in zip(CITIES, (3.0, 1.0, 2.0), strict=True)
            ),
            [TextDelta("Sun "), 0.1, ProviderConnectionError("reset")],
            Response("Sun everywhere.", "gpt-4o", usage=Usage.of(30, 3), cost_usd=0.01),
        )


async def agent(provider):
    """A small agent with retries, streams, tool calls and parallel questions; gives its transcript as bytes."""
    loop, log = asyncio.get_running_loop(), []

    def note(*what):
        log.append([round(loop.time(), 6), *what])

    async def ask(messages, step):
        try:
            events = [event async for event in await provider.stream(messages, "gpt-4o", tools=TOOLS, step_id=step)]
        except ProviderError as error:
            note("failed", type(error).__name__, error.status_code)
            return await ask(messages, step)
        note("answered", [str(event) for event in events if not isinstance(event, StreamEnd)])
        return events[-1].response

    async def look(call):
        response = await provider.complete(user(f"Weather in {call.args['city']}?"), "gpt-4o", step_id="side")
        note("looked", call.args["city"], response.content)
        return {"role": "tool", "tool_call_id": call.id, "content": response.content}

    messages = user("Where is sun?")
    response = await ask(messages, "agent")
    results = await asyncio.gather(*(look(call) for call in response.tool_calls))
    answer = await ask([*messages, response.to_message().to_dict(), *results], "agent")
    note("done", answer.content, answer.usage.total_tokens, answer.cost_usd)
    return orjson.dumps(log)


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return request.param


def record(location):
    async def work():
        async with RecordingProvider(Model(), location) as recorder:
            return await agent(recorder)

    return run(work(), virtual_time=True)


def replay(location, **options):
    async def work():
        async with MockProvider(location, strict=True, **options) as mock:
            transcript = await agent(mock)
            assert mock.unused() == []
            return transcript, orjson.dumps([str(call) for call in mock.calls])

    return run(work(), virtual_time=True)


def test_the_replay_is_the_recorded_run_to_the_byte(location):
    recorded = record(location)
    transcript, _ = replay(location, latency_model="replay")
    assert transcript == recorded


@pytest.mark.parametrize(
    "options", [{}, {"latency_model": "replay"}, {"latency_model": "normal", "latency_ms": 800, "seed": 3}]
)
def test_any_two_replays_are_the_same_to_the_byte(location, options):
    record(location)
    assert len({replay(location, **options) for _ in range(3)}) == 1


def test_the_recorded_run_has_all_that_it_should_prove(location):
    transcript = orjson.loads(record(location))
    assert [entry[1] for entry in transcript] == [
        *("failed", "answered", "looked", "looked", "looked", "failed", "answered", "done")
    ]
    assert [entry[2] for entry in transcript if entry[1] == "looked"] == ["Rome", "Lima", "Oslo"]


def test_recording_the_same_run_twice_gives_the_same_file(tmp_path):
    for name in ("one.json", "two.json"):
        record(tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
