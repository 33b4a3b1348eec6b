"""The values between agent and model: tool calls, messages, deltas that join to responses, replies."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import ProviderConnectionError, ProviderError, RequestError
from offbook.messages import (
    Accumulator,
    Message,
    ReasoningDelta,
    Response,
    StreamedReply,
    StreamEnd,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    WholeReply,
    deltas_of,
    plain_messages,
)

from .codecs.strategies import arguments, streams

ANSWER = Response(
    content="Let me look.",
    model="m",
    provider="p",
    usage=Usage.of(3, 4),
    cost_usd=0.5,
    latency_ms=9.0,
    finish_reason="tool_calls",
    tool_calls=(ToolCall("get", {"city": "Oslo"}, "call_1"), ToolCall("put", {}, "call_2")),
    reasoning="Hm.",
)


def joined(deltas, rest=None):
    accumulator = Accumulator()
    for delta in deltas:
        accumulator.add(delta)
    return accumulator.join(rest or Response())


async def events_of(reply):
    return [event async for event in reply]


@given(args=arguments)
def test_a_tool_call_survives_as_text(args):
    call = ToolCall("get", args, "call_1")
    assert ToolCall.parse("get", call.arguments, id="call_1") == call


@pytest.mark.parametrize("arguments", ["", "  ", "\n", "{}", " { } "])
def test_no_arguments_are_an_empty_object(arguments):
    call = ToolCall.parse("get", arguments)
    assert call == ToolCall("get")
    assert call.arguments == "{}"


@pytest.mark.parametrize(
    "arguments", ['{"city": "Os', "city=Oslo", "[1]", '"text"', "null", "7", '{"a": NaN}', "{'a': 1}", '{"a":1}}']
)
def test_arguments_that_are_no_json_object_are_kept_as_they_were_written(arguments):
    call = ToolCall.parse("get", arguments, id="call_1")
    assert call.tool == "get"
    assert call.id == "call_1"
    assert call.args == {}
    assert call.raw_arguments == call.arguments == arguments


def test_a_message_is_a_dict_of_the_openai_chat_shape():
    assert Message("user", "Hi").to_dict() == {"role": "user", "content": "Hi"}
    assert Message("tool", "rain", tool_call_id="call_1", name="get").to_dict() == {
        "role": "tool",
        "content": "rain",
        "tool_call_id": "call_1",
        "name": "get",
    }


def test_the_content_of_a_message_may_be_parts():
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    assert Message("user", parts).to_dict() == {"role": "user", "content": parts}


def test_a_response_continues_the_conversation_as_a_message():
    message = ANSWER.to_message().to_dict()
    assert orjson.loads(message["tool_calls"][0]["function"].pop("arguments")) == {"city": "Oslo"}
    assert message == {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get"}},
            {"id": "call_2", "type": "function", "function": {"name": "put", "arguments": "{}"}},
        ],
    }


def test_a_response_without_text_has_no_content_as_a_message():
    assert Response(tool_calls=(ToolCall("get"),)).to_message().content is None


def test_messages_may_be_dicts_other_mappings_and_message_values_in_any_sequence():
    class Mine(dict):
        """Somebody's own kind of dict."""

    given_messages = (Message("system", "Be brief."), {"role": "user", "content": "Hi"}, Mine(role="user", content="!"))
    plain = plain_messages(given_messages)
    assert plain == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "!"},
    )
    assert {type(message) for message in plain} == {dict}
    assert plain_messages(list(given_messages)) == plain


@pytest.mark.parametrize("messages", ["Hi", b"Hi", {"role": "user"}, Message("user", "Hi"), None, 5], ids=repr)
def test_messages_that_are_no_list_are_refused_with_an_example(messages):
    with pytest.raises(RequestError, match="messages must be a list") as caught:
        plain_messages(messages)
    assert '"role"' in caught.value.hint


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Hi", "got str"),
        (None, "got NoneType"),
        (["role", "user"], "got list"),
        ({}, "no role"),
        ({"content": "Hi"}, "no role"),
    ],
)
def test_a_message_of_another_kind_is_refused_with_its_place(message, expected):
    with pytest.raises(RequestError, match=expected) as caught:
        plain_messages([{"role": "user", "content": "Hi"}, message])
    assert caught.value.place == "messages[1]"


def test_usage_adds_up():
    assert Usage.of(3, 4, cached=1, reasoning=2) == Usage(3, 4, 7, 1, 2)


@pytest.mark.parametrize("total", [{}, {"total_tokens": 0}])
def test_a_total_that_nobody_counted_is_the_sum(total):
    fields = {"prompt_tokens": 3, "completion_tokens": 4} | total
    assert Usage(**fields).total_tokens == 7
    assert msgspec.json.decode(orjson.dumps(fields), type=Usage).total_tokens == 7
    assert msgspec.convert(fields, type=Usage).total_tokens == 7


def test_a_total_that_was_counted_stays():
    assert Usage(3, 4, 9).total_tokens == 9
    assert Usage.of(3, 4, total=9).total_tokens == 9
    assert Usage(total_tokens=5) == Usage(0, 0, 5)


@given(stream=streams())
def test_deltas_join_to_the_response_they_were_cut_from(stream):
    """However a response is cut, and also if every part of it is one delta."""
    response, deltas = stream
    rest = Response(model=response.model, usage=response.usage, finish_reason=response.finish_reason)
    assert joined(deltas, rest) == response
    assert joined(deltas_of(response), rest) == response


def test_a_response_comes_apart_in_the_order_in_which_a_model_speaks():
    assert deltas_of(ANSWER) == [
        ReasoningDelta("Hm."),
        TextDelta("Let me look."),
        ToolCallDelta(0, '{"city":"Oslo"}', "call_1", "get"),
        ToolCallDelta(1, "{}", "call_2", "put"),
    ]
    assert deltas_of(Response()) == []


def test_tool_calls_are_joined_by_index_however_their_pieces_are_mixed():
    pieces = [
        ToolCallDelta(1, id="call_2", tool="put"),
        ToolCallDelta(0, '{"a"', id="call_1", tool="get"),
        ToolCallDelta(1, '{"b": 2'),
        ToolCallDelta(0, ": 1}"),
        ToolCallDelta(1, "}"),
    ]
    assert joined(pieces).tool_calls == (ToolCall("get", {"a": 1}, "call_1"), ToolCall("put", {"b": 2}, "call_2"))


def test_a_tool_call_without_name_and_with_broken_arguments_is_still_a_call():
    assert joined([ToolCallDelta(0, '{"a')]).tool_calls == (ToolCall("", raw_arguments='{"a'),)


def test_joining_keeps_what_the_deltas_do_not_say():
    rest = Response(model="m", provider="p", usage=Usage.of(1, 2), finish_reason="length", cost_usd=0.5)
    assert joined([TextDelta("a"), TextDelta("b")], rest) == Response(
        content="ab", model="m", provider="p", usage=Usage.of(1, 2), finish_reason="length", cost_usd=0.5
    )


def test_joining_nothing_gives_an_empty_response():
    assert joined([], Response(content="old", reasoning="old", tool_calls=(ToolCall("old"),))) == Response()


async def test_a_whole_reply_can_be_collected_and_read_any_number_of_times():
    reply = WholeReply(ANSWER)
    for _ in range(2):
        assert await events_of(reply) == [*deltas_of(ANSWER), StreamEnd(ANSWER)]
        assert await reply.collect() is ANSWER
        await reply.aclose()


class Source:
    """Events one by one, then an error if there is one; tells whether it was let go of."""

    def __init__(self, events, error=None):
        self.events, self.error = events, error
        self.over = False

    async def __aiter__(self):
        try:
            for event in self.events:
                yield event
            if self.error is not None:
                raise self.error
        finally:
            self.over = True


def streamed(*events, error=None):
    source = Source(events, error)
    return StreamedReply(aiter(source)), source


async def test_a_streamed_reply_gives_its_events():
    reply, source = streamed(TextDelta("a"), StreamEnd(ANSWER))
    assert await events_of(reply) == [TextDelta("a"), StreamEnd(ANSWER)]
    assert source.over


async def test_a_streamed_reply_is_collected_to_its_end():
    reply, source = streamed(TextDelta("a"), StreamEnd(ANSWER))
    assert await reply.collect() is ANSWER
    assert source.over


async def test_a_streamed_reply_can_be_collected_after_some_of_its_events():
    reply, _ = streamed(TextDelta("a"), TextDelta("b"), StreamEnd(ANSWER))
    assert await anext(aiter(reply)) == TextDelta("a")
    assert await reply.collect() is ANSWER


async def test_a_streamed_reply_without_an_end_is_a_broken_connection():
    reply, _ = streamed(TextDelta("a"))
    with pytest.raises(ProviderConnectionError, match="before its last event"):
        await reply.collect()


async def test_a_streamed_reply_that_breaks_raises_what_broke_it():
    error = ProviderError("overloaded")
    reply, _ = streamed(TextDelta("a"), error=error)
    with pytest.raises(ProviderError) as caught:
        await reply.collect()
    assert caught.value is error


async def test_closing_a_streamed_reply_lets_go_of_its_source():
    reply, source = streamed(TextDelta("a"), StreamEnd(ANSWER))
    await anext(aiter(reply))
    assert not source.over
    await reply.aclose()
    await reply.aclose()
    assert source.over
    assert await events_of(reply) == []


async def test_a_streamed_reply_may_stand_on_an_iterator_that_cannot_be_closed():
    class Plain:
        def __aiter__(self):
            return self

        async def __anext__(self):
            raise StopAsyncIteration

    reply = StreamedReply(Plain())
    await reply.aclose()
    assert await events_of(reply) == []


@given(text=st.text())
def test_parsing_arguments_never_fails(text):
    assert ToolCall.parse("get", text).tool == "get"


def test_arguments_may_have_integers_of_any_size():
    assert ToolCall("look_up", {"a": [10**30, "é"]}).arguments == '{"a":[1000000000000000000000000000000,"é"]}'
