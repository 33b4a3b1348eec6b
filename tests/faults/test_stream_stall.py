"""The stream_stall fault."""

import asyncio

import pytest

from offbook import MockProvider, StreamEnd, run
from tests.fakes import user


def moments(*, content="one two three", stream=True, **fields):
    """When each event of a stalled stream comes, in seconds."""

    async def work():
        entry = {"content": content, "fault": {"type": "stream_stall"} | fields}
        mock = MockProvider(responses={"a": entry})
        loop = asyncio.get_running_loop()
        if not stream:
            assert (await mock.complete(user("Hi"), "m", step_id="a")).content == content
            return [loop.time()]
        reply = await mock.stream(user("Hi"), "m", step_id="a")
        return [(getattr(event, "text", type(event)), loop.time()) async for event in reply]

    return run(work(), virtual_time=True)


def test_it_is_silent_after_so_many_events_and_then_goes_on():
    assert moments(after_chunks=2, for_ms=30_000) == [
        ("one", 0.0),
        (" two", 0.0),
        (" three", 30.0),
        (StreamEnd, 30.0),
    ]


def test_by_default_it_is_silent_for_a_minute_before_the_first_event():
    assert [moment for _, moment in moments()] == [60.0] * 4


@pytest.mark.parametrize("after_chunks", [3, 100])
def test_a_stream_that_is_too_short_stalls_before_its_end(after_chunks):
    assert [moment for _, moment in moments(after_chunks=after_chunks, for_ms=1000)] == [0.0, 0.0, 0.0, 1.0]


def test_a_whole_answer_comes_as_much_later():
    assert moments(stream=False, after_chunks=1, for_ms=2500) == [2.5]


def test_a_reader_with_less_patience_gives_up():
    async def work():
        mock = MockProvider(responses={"a": {"content": "one two", "fault": {"type": "stream_stall"}}})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await mock.complete(user("Hi"), "m", step_id="a")
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 10.0
