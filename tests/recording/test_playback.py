"""Playback: recorded entries as streams and as whole responses, each read either way."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MockProvider, run
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.messages import Accumulator, ReasoningDelta, Response, StreamEnd, TextDelta, ToolCall, ToolCallDelta
from tests.fakes import events_of, read_until_broken, user

HI = user("Hi")
STREAMED = {
    "content": "Let me look.",
    "reasoning": "A tool is best.",
    "model": "gpt-4o",
    "finish_reason": "tool_calls",
    "tool_calls": [{"id": "c1", "name": "get", "arguments": {"city": "Oslo"}}, {"id": "c2", "name": "now"}],
    "chunks": [
        [1.0, {"reasoning": "A tool "}],
        [2.0, {"reasoning": "is best."}],
        [3.0, "Let me "],
        [4.0, "look."],
        [5.0, {"tool_call": {"index": 0, "id": "c1", "name": "get"}}],
        [6.0, {"tool_call": {"index": 0, "arguments": '{"city":'}}],
        [7.0, {"tool_call": {"index": 1, "id": "c2", "name": "now"}}],
        [8.0, {"tool_call": {"index": 0, "arguments": '"Oslo"}'}}],
    ],
}
DELTAS = [
    ReasoningDelta("A tool "),
    ReasoningDelta("is best."),
    TextDelta("Let me "),
    TextDelta("look."),
    ToolCallDelta(0, "", "c1", "get"),
    ToolCallDelta(0, '{"city":'),
    ToolCallDelta(1, "", "c2", "now"),
    ToolCallDelta(0, '"Oslo"}'),
]
CALLS = (ToolCall("get", {"city": "Oslo"}, "c1"), ToolCall("now", {}, "c2"))


async def streamed(entry):
    return await events_of(await MockProvider(responses={"a": entry}).stream(HI, "m", step_id="a"))


async def test_recorded_pieces_come_as_they_were_recorded_and_the_response_comes_last():
    *deltas, end = await streamed(STREAMED)
    assert deltas == DELTAS
    assert end == StreamEnd(
        Response(
            "Let me look.", "gpt-4o", "mock", finish_reason="tool_calls", tool_calls=CALLS, reasoning="A tool is best."
        )
    )


async def test_recorded_pieces_make_up_the_response():
    *deltas, end = await streamed(STREAMED)
    joined = Accumulator()
    for delta in deltas:
        joined.add(delta)
    assert joined.join(end.response) == end.response


async def test_a_streamed_entry_can_be_had_whole():
    mock = MockProvider(responses={"a": STREAMED})
    whole = await mock.complete(HI, "m", step_id="a")
    assert (whole.content, whole.tool_calls, whole.reasoning) == ("Let me look.", CALLS, "A tool is best.")
    assert await (await mock.stream(HI, "m", step_id="a")).collect() == whole


async def test_a_whole_entry_is_streamed_word_by_word():
    entry = {"content": "Roses are\nred. ", "reasoning": "A poem then.", "tool_calls": [{"id": "c", "name": "get"}]}
    *deltas, end = await streamed(entry)
    assert deltas == [
        ReasoningDelta("A poem then."),
        TextDelta("Roses"),
        TextDelta(" are"),
        TextDelta("\nred."),
        TextDelta(" "),
        ToolCallDelta(0, "{}", "c", "get"),
    ]
    assert end.response.content == "Roses are\nred. "


@given(st.text())
def test_words_make_up_the_text_again(text):
    async def work():
        *deltas, end = await streamed({"content": text})
        return "".join(delta.text for delta in deltas), end.response.content

    assert run(work()) == (text, text)


async def test_an_empty_entry_streams_only_its_end():
    assert await streamed({"content": ""}) == [StreamEnd(Response(model="m", provider="mock"))]


async def test_arguments_that_are_no_json_object_come_back_as_the_text_they_are():
    entry = {"tool_calls": [{"name": "get", "arguments": "{oops"}]}
    *deltas, end = await streamed(entry)
    assert deltas == [ToolCallDelta(0, "{oops", None, "get")]
    assert end.response.tool_calls == (ToolCall("get", raw_arguments="{oops"),)


async def test_a_reply_may_be_left_or_closed_at_any_time():
    mock = MockProvider(responses={"a": STREAMED})
    unread = await mock.stream(HI, "m", step_id="a")
    await unread.aclose()
    left = await mock.stream(HI, "m", step_id="a")
    async for _ in left:
        break
    await left.aclose()
    await left.aclose()
    assert await events_of(left) == []


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("ConnectionError", ProviderConnectionError),
        ("clean", ProviderConnectionError),
        ("TimeoutError", ProviderTimeoutError),
        ("error_event", ProviderError),
        ("malformed", MalformedResponseError),
    ],
)
@pytest.mark.parametrize("chunks", [None, [[1.0, "one "], [2.0, "two "], [3.0, "three"]]])
async def test_a_truncated_stream_gives_what_came_and_then_breaks(ending, error, chunks):
    fault = {"type": "stream_truncate", "after_chunks": 2, "raise": ending}
    entry = {"content": "one two three", "fault": fault} | ({"chunks": chunks} if chunks else {})
    mock = MockProvider(responses={"a": entry})
    got, broke_by = await read_until_broken(await mock.stream(HI, "m", step_id="a"), lambda event: event.text)
    assert type(broke_by) is error
    assert got == (["one ", "two "] if chunks else ["one", " two"])
    with pytest.raises(error):
        await mock.complete(HI, "m", step_id="a")


async def test_a_stream_that_is_shorter_than_its_break_still_breaks():
    entry = {"content": "one", "fault": {"type": "stream_truncate", "after_chunks": 9}}
    with pytest.raises(ProviderConnectionError):
        await streamed(entry)


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_faults_before_the_first_event_strike_both_ways_of_asking(ask):
    mock = MockProvider(responses={"a": {"fault": {"type": "http_error", "status_code": 503, "body": "busy"}}})
    with pytest.raises(ProviderError, match="busy") as caught:
        await getattr(mock, ask)(HI, "m", step_id="a")
    assert (caught.value.status_code, caught.value.body, caught.value.provider) == (503, "busy", "mock")


async def test_a_fault_tells_the_provider_that_failed_when_it_was_recorded():
    mock = MockProvider(responses={"a": {"provider": "openai", "fault": {"type": "connection_reset"}}})
    with pytest.raises(ProviderConnectionError) as caught:
        await mock.complete(HI, "m", step_id="a")
    assert caught.value.provider == "openai"


def test_a_timeout_takes_its_time():
    async def work():
        mock = MockProvider(responses={"a": {"fault": {"type": "timeout", "after_ms": 5000}}})
        with pytest.raises(TimeoutError):
            await mock.complete(HI, "m", step_id="a")
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 5.0


def test_a_stream_breaks_when_it_broke():
    entry = {
        "content": "ab",
        "chunks": [[1000.0, "a"], [2000.0, "b"]],
        "latency_ms": 32_000.0,
        "fault": {"type": "stream_truncate", "after_chunks": 2, "raise": "TimeoutError"},
    }

    async def work():
        loop = asyncio.get_running_loop()
        mock = MockProvider(responses={"a": entry}, latency_model="replay")
        reply = await mock.stream(HI, "m", step_id="a")
        moments, error = await read_until_broken(reply, lambda _: loop.time())
        assert isinstance(error, TimeoutError)
        return [*moments, loop.time()]

    assert run(work(), virtual_time=True) == pytest.approx([1.0, 2.0, 32.0])
