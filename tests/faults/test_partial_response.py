"""The partial_response fault."""

from offbook import MockProvider, Response, StreamEnd, TextDelta, Usage
from offbook.faults import At, FaultInjector, FaultPlan, PartialResponse
from tests.fakes import Scripted, events_of, user

CUT = FaultPlan([At().fail(PartialResponse())])


async def test_the_content_is_there_but_no_completion_tokens_and_the_end_is_by_length():
    entry = {
        "content": "The capital of",
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13, "reasoning_tokens": 2},
        "fault": {"type": "partial_response"},
    }
    response = await MockProvider(responses={"a": entry}).complete(user("Hi"), "m", step_id="a")
    assert (response.content, response.finish_reason) == ("The capital of", "length")
    assert response.usage == Usage(prompt_tokens=10, completion_tokens=0, total_tokens=10)


async def test_all_else_stays_as_the_provider_answered():
    clean = Response("x", "gpt-4o", "scripted", Usage.of(5, 2, cached=4), 0.25, 12.5, "stop", reasoning="Hm.")
    response = await FaultInjector(Scripted(clean), CUT).complete(user("Hi"), "m")
    assert (response.model, response.cost_usd, response.latency_ms, response.reasoning) == ("gpt-4o", 0.25, 12.5, "Hm.")
    assert response.usage.cached_tokens == 4


async def test_a_stream_keeps_its_pieces():
    provider = Scripted([TextDelta("The "), TextDelta("capital"), Response("The capital", usage=Usage.of(5, 2))])
    *deltas, end = await events_of(await FaultInjector(provider, CUT).stream(user("Hi"), "m"))
    assert deltas == [TextDelta("The "), TextDelta("capital")]
    assert end == StreamEnd(Response("The capital", usage=Usage(5, 0, 5), finish_reason="length"))
