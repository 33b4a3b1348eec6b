"""The slow_drip fault."""

import asyncio

import pytest

from offbook import (
    At,
    FaultInjector,
    FaultPlan,
    MockProvider,
    Request,
    Response,
    SlowDrip,
    StreamEnd,
    TextDelta,
    ToolCall,
    run,
)
from tests.fakes import Scripted, events_of, user


def moments(ask, provider, **fields):
    """When each event comes that a dripping provider answers with, in seconds; of a whole answer, when it is there."""

    async def work():
        injector = FaultInjector(provider, FaultPlan([At().fail(SlowDrip(**fields))]))
        answer = await getattr(injector, ask)(user("Hi"), "m", step_id="a")
        loop = asyncio.get_running_loop()
        if ask == "complete":
            return answer, loop.time()
        return [(getattr(event, "text", type(event)), loop.time()) async for event in answer]

    return run(work(), virtual_time=True)


def three_words(**fields):
    return MockProvider(responses={"a": {"content": "one two three"} | fields}, strict=True)


def test_it_waits_before_every_event_and_before_the_end():
    came = moments("stream", three_words(), every_ms=2000.0)
    assert came == [("one", 2.0), (" two", 4.0), (" three", 6.0), (StreamEnd, 8.0)]


def test_by_default_it_waits_a_tenth_of_a_second():
    came = moments("stream", three_words())
    assert [moment for _, moment in came] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_without_a_wait_all_comes_at_once():
    assert [moment for _, moment in moments("stream", three_words(), every_ms=0.0)] == [0.0] * 4


def test_its_waits_come_on_top_of_those_of_the_provider():
    provider = Scripted([TextDelta("one"), 3.0, TextDelta(" two"), Response("one two")])
    assert [moment for _, moment in moments("stream", provider, every_ms=1000.0)] == [1.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("response", "after_s"),
    [
        (Response("one two three"), 8.0),
        (Response(""), 2.0),
        (Response("one", reasoning="Hm, well."), 6.0),
        (Response(tool_calls=(ToolCall("get"), ToolCall("put"))), 6.0),
    ],
)
def test_a_whole_answer_comes_as_late_as_word_by_word(response, after_s):
    assert moments("complete", Scripted(response), every_ms=2000.0) == (response, after_s)


def test_a_whole_answer_can_be_read_event_by_event():
    async def work():
        injector = FaultInjector(three_words(), FaultPlan([At().fail(SlowDrip())]))
        return await events_of(await injector.send(Request(tuple(user("Hi")), "m", step_id="a")))

    (text, end) = run(work(), virtual_time=True)
    assert (text, end.response.content) == (TextDelta("one two three"), "one two three")


def test_a_whole_answer_is_as_late_however_it_was_recorded():
    chunked = three_words(chunks=[[0.0, "one two th"], [5.0, "ree"]])
    assert [moments("complete", provider, every_ms=2000.0)[1] for provider in (chunked, three_words())] == [8.0, 8.0]


def test_a_reader_with_less_patience_gives_up():
    async def work():
        drip = {"type": "slow_drip", "every_ms": 9000}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await three_words(fault=drip).complete(user("Hi"), "m", step_id="a")
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 10.0
