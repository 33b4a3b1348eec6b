"""The stream_truncate fault."""

import asyncio
import pickle

import httpx
import httpx2
import pytest

from offbook import At, FaultInjector, FaultPlan, MockProvider, Request, Response, StreamEnd, ToolCall, run
from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
)
from offbook.faults import SlowDrip, parse_fault
from offbook.messages import ReasoningDelta, TextDelta
from tests.fakes import Scripted, events_of, user

ENDINGS = {
    "ConnectionError": ProviderConnectionError,
    "TimeoutError": ProviderTimeoutError,
    "clean": ProviderConnectionError,
    "cut": ProviderConnectionError,
    "error_event": ProviderError,
    "malformed": MalformedResponseError,
}


def truncate(**fields):
    return {"type": "stream_truncate"} | fields


@pytest.mark.parametrize(("ending", "error_type"), ENDINGS.items())
def test_it_yields_so_many_events_and_then_ends_that_way(apply, ending, error_type):
    came, error, _ = apply(truncate(after_chunks=2, **{"raise": ending}), content="one two three")
    assert came == [TextDelta("one"), TextDelta(" two")]
    assert type(error) is error_type
    assert "2 chunks" in str(error)
    assert error.provider == "mock"


@pytest.mark.parametrize(("ending", "error_type"), ENDINGS.items())
def test_a_whole_answer_is_never_complete(apply, ending, error_type):
    came, error, _ = apply(truncate(after_chunks=1, **{"raise": ending}), stream=False, content="one two")
    assert type(error) is error_type
    assert len(came) <= 1


def test_every_ending_is_reported_in_words_of_its_own(apply):
    messages = [str(apply(truncate(**{"raise": ending}), content="one")[1]) for ending in ENDINGS]
    assert len(set(messages)) == len(ENDINGS)


def test_by_default_the_connection_breaks_before_the_first_event(apply):
    came, error, _ = apply(truncate(), content="never seen")
    assert came == []
    assert type(error) is ProviderConnectionError


def test_a_stream_that_is_too_short_breaks_at_its_end(apply):
    came, error, _ = apply(truncate(after_chunks=100), content="one two")
    assert [event.text for event in came] == ["one", " two"]
    assert isinstance(error, ProviderConnectionError)


def test_without_content_nothing_comes(apply):
    came, error, _ = apply(truncate(after_chunks=3))
    assert came == []
    assert isinstance(error, ProviderConnectionError)


def test_events_of_every_kind_count(apply):
    came, _, _ = apply(truncate(after_chunks=2), reasoning="Hm.", content="one two")
    assert came == [ReasoningDelta("Hm."), TextDelta("one")]


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


def moments_of_drip(ask, provider, **fields):
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
    came = moments_of_drip("stream", three_words(), every_ms=2000.0)
    assert came == [("one", 2.0), (" two", 4.0), (" three", 6.0), (StreamEnd, 8.0)]


def test_by_default_it_waits_a_tenth_of_a_second():
    came = moments_of_drip("stream", three_words())
    assert [moment for _, moment in came] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_without_a_wait_all_comes_at_once():
    assert [moment for _, moment in moments_of_drip("stream", three_words(), every_ms=0.0)] == [0.0] * 4


def test_its_waits_come_on_top_of_those_of_the_provider():
    provider = Scripted([TextDelta("one"), 3.0, TextDelta(" two"), Response("one two")])
    assert [moment for _, moment in moments_of_drip("stream", provider, every_ms=1000.0)] == [1.0, 5.0, 6.0]


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
    assert moments_of_drip("complete", Scripted(response), every_ms=2000.0) == (response, after_s)


def test_a_whole_answer_can_be_read_event_by_event():
    async def work():
        injector = FaultInjector(three_words(), FaultPlan([At().fail(SlowDrip())]))
        return await events_of(await injector.send(Request(tuple(user("Hi")), "m", step_id="a")))

    (text, end) = run(work(), virtual_time=True)
    assert text == TextDelta("one two three")
    assert end.response.content == "one two three"


def test_a_whole_answer_is_as_late_however_it_was_recorded():
    chunked = three_words(chunks=[[0.0, "one two th"], [5.0, "ree"]])
    assert [moments_of_drip("complete", provider, every_ms=2000.0)[1] for provider in (chunked, three_words())] == [
        8.0,
        8.0,
    ]


def test_a_reader_with_less_patience_than_a_drip_takes_gives_up():
    async def work():
        drip = {"type": "slow_drip", "every_ms": 9000}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await three_words(fault=drip).complete(user("Hi"), "m", step_id="a")
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 10.0


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("ValueError", (ProviderError, ValueError)),
        ("OSError", (ProviderConnectionError, OSError)),
        ("RateLimitError", (RateLimitError,)),
        ("ReadTimeout", (ProviderTimeoutError, httpx.ReadTimeout)),
        ("httpx.RemoteProtocolError", (ProviderConnectionError, httpx.RemoteProtocolError)),
        ("httpx2.ReadError", (ProviderConnectionError, httpx2.ReadError)),
    ],
)
def test_any_exception_by_its_name_is_raised_as_a_provider_error_too(apply, name, kinds):
    came, error, _ = apply(truncate(after_chunks=1, **{"raise": name}), content="one two")
    assert came == [TextDelta("one")]
    assert all(isinstance(error, kind) for kind in kinds)
    assert error.provider == "mock"


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "UnicodeDecodeError", "httpx.HTTPStatusError", "os.system", ""])
def test_what_cannot_be_raised_with_a_message_is_refused(name):
    with pytest.raises(InputError) as caught:
        MockProvider(responses={"a": {"content": "x", "fault": truncate(**{"raise": name})}})
    assert caught.value.place == "key 'a'.fault.raise"


def test_a_named_exception_crosses_processes_as_offbooks_own(apply):
    _, error, _ = apply(truncate(**{"raise": "httpx.ReadError"}), content="one")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.provider) == (ProviderConnectionError, str(error), "mock")


def test_a_plan_keeps_the_name_of_an_exception():
    line = "call=1: stream_truncate 2 raise=httpx.ReadError"
    assert str(parse_fault(line)) == line
