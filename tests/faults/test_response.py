"""Faults of the response itself."""

import json

import pytest

from offbook import MockProvider, Response, StreamEnd, TextDelta, ToolCall, Usage
from offbook.errors import MalformedResponseError, RecordingFormatError
from offbook.faults import At, FaultInjector, FaultPlan, PartialResponse, Refusal, WrongShape
from tests.fakes import Scripted, events_of, user

WRONG_SHAPES = ["[]", "null", '"ok"', '{"choices": []}', '{"choices": [{"message": 5}]}', ' {"a": "ä"}\n']
UNREADABLE = [
    *(("malformed_response", raw) for raw in ("not valid json", "", "{", "ÿ", *WRONG_SHAPES)),
    *(("wrong_shape", raw) for raw in WRONG_SHAPES),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("kind", "raw"), UNREADABLE)
def test_the_complaint_of_the_real_codec_surfaces_with_what_arrived(apply, kind, raw, stream):
    came, error, _ = apply({"type": kind, "raw": raw}, stream=stream)
    assert came == []
    assert type(error) is MalformedResponseError
    assert error.raw == raw
    assert error.body == raw
    assert error.provider == "mock"


@pytest.mark.parametrize("kind", ["malformed_response", "wrong_shape"])
def test_it_fails_also_with_what_the_codec_could_read(apply, kind):
    raw = '{"choices": [{"message": {"content": "fine"}}]}'
    _, error, _ = apply({"type": kind, "raw": raw})
    assert type(error) is MalformedResponseError
    assert error.raw == raw


def test_by_default_the_answer_is_an_object_without_choices(apply):
    _, error, _ = apply({"type": "wrong_shape"})
    assert error.raw == '{"status": "ok"}'
    assert "missing required field `choices`" in str(error)


def test_what_is_no_json_is_refused():
    for raw in ("", "not valid json", "{", "[] []", "NaN", '"\ud800"', "[" * 100_000):
        with pytest.raises(ValueError, match=r"raw is not JSON: .*; malformed_response takes any text"):
            WrongShape(raw)


def test_what_is_no_json_is_refused_in_a_recording_with_its_place():
    with pytest.raises(RecordingFormatError, match="raw is not JSON") as caught:
        MockProvider(responses={"a": [{"content": "fine"}, {"fault": {"type": "wrong_shape", "raw": "{"}}]})
    assert caught.value.place == "key 'a'[1].fault"


EMPTY = Response(model="gpt-4o", provider="mock", finish_reason="stop")


async def test_the_answer_says_nothing_as_if_all_were_well():
    mock = MockProvider(responses={"a": {"content": "never seen", "fault": {"type": "empty_response"}}})
    assert await mock.complete(user("Hi"), "gpt-4o", step_id="a") == EMPTY
    assert await events_of(await mock.stream(user("Hi"), "gpt-4o", step_id="a")) == [StreamEnd(EMPTY)]


WITHHELD = Response(model="gpt-4o", provider="mock", finish_reason="content_filter")


async def test_the_answer_is_withheld_and_says_so():
    mock = MockProvider(responses={"a": {"content": "never seen", "fault": {"type": "content_filter"}}})
    assert await mock.complete(user("Hi"), "gpt-4o", step_id="a") == WITHHELD
    assert await events_of(await mock.stream(user("Hi"), "gpt-4o", step_id="a")) == [StreamEnd(WITHHELD)]


CUT = FaultPlan([At().fail(PartialResponse())])


async def test_the_content_is_there_but_no_completion_tokens_and_the_end_is_by_length():
    entry = {
        "content": "The capital of",
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13, "reasoning_tokens": 2},
        "fault": {"type": "partial_response"},
    }
    response = await MockProvider(responses={"a": entry}).complete(user("Hi"), "m", step_id="a")
    assert response.content == "The capital of"
    assert response.finish_reason == "length"
    assert response.usage == Usage(prompt_tokens=10, completion_tokens=0, total_tokens=10)


async def test_all_else_stays_as_the_provider_answered():
    clean = Response("x", "gpt-4o", "scripted", Usage.of(5, 2, cached=4), 0.25, 12.5, "stop", reasoning="Hm.")
    response = await FaultInjector(Scripted(clean), CUT).complete(user("Hi"), "m")
    assert response.model == "gpt-4o"
    assert response.cost_usd == 0.25
    assert response.latency_ms == 12.5
    assert response.reasoning == "Hm."
    assert response.usage.cached_tokens == 4


async def test_a_stream_keeps_its_pieces():
    provider = Scripted([TextDelta("The "), TextDelta("capital"), Response("The capital", usage=Usage.of(5, 2))])
    *deltas, end = await events_of(await FaultInjector(provider, CUT).stream(user("Hi"), "m"))
    assert deltas == [TextDelta("The "), TextDelta("capital")]
    assert end == StreamEnd(Response("The capital", usage=Usage(5, 0, 5), finish_reason="length"))


HALF = FaultPlan([At().fail(PartialResponse("half"))])


async def half_of(response):
    return await FaultInjector(Scripted(response), HALF).complete(user("Hi"), "m")


async def test_a_long_value_before_the_last_one_is_read_once():
    """Else this takes longer than a test may."""
    response = await half_of(Response(f'{{"data": "{"A" * 500_000}", "name": "Ada!"}}'))
    assert response.content.endswith('", "name": "Ad')


@pytest.mark.parametrize(("text", "half"), [("The capital", "The c"), ("ab", "a"), ("x", ""), ("", "")])
async def test_the_text_breaks_off_in_its_middle(text, half):
    response = await half_of(Response(text, usage=Usage.of(5, 2)))
    assert response.content == half
    assert response.finish_reason == "length"
    assert response.usage.completion_tokens == 0


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("120000", "120"),
        ("12,000", "12,0"),
        ('{"why": "late", "amount": 12000}', '{"why": "late", "amount": 12'),
        ('{"amount": 12000, "why": "late"}', '{"amount": 12000, "why": "la'),
        ('{"to": [{"id": "a\\"bcd"}]}', '{"to": [{"id": "a\\"'),
        ('```json\n{"amount": 12000}\n```', '```json\n{"amount": 12'),
        ("[[], {}]", "[[],"),
    ],
)
async def test_data_breaks_off_inside_its_last_value_and_carries_no_mark(text, cut):
    marked = FaultInjector(Scripted(Response(text)), HALF, marked=True)
    assert (await marked.complete(user("Hi"), "m")).content == cut


@pytest.mark.parametrize("args", [{}, {"order_id": 42}, {"note": "a long text of many words"}])
async def test_of_text_and_tool_calls_the_arguments_of_the_last_call_break_off(args):
    first = ToolCall("find", {"order_id": 42}, "c1")
    response = await half_of(Response("On it.", tool_calls=(first, ToolCall("refund", args, "c2"))))
    assert response.content == "On it."
    assert response.finish_reason == "length"
    assert response.tool_calls[0] == first
    last = response.tool_calls[1]
    assert last.tool == "refund"
    assert last.id == "c2"
    assert last.args == {}
    assert json.dumps(args, separators=(",", ":")).startswith(last.arguments)
    with pytest.raises(json.JSONDecodeError):
        json.loads(last.arguments)


async def test_a_stream_breaks_off_as_a_whole_answer_does():
    provider = Scripted([TextDelta("The "), TextDelta("capital"), Response("The capital")])
    *deltas, end = await events_of(await FaultInjector(provider, HALF).stream(user("Hi"), "m"))
    assert deltas == [TextDelta("The c")]
    assert end.response.content == "The c"
    assert end.response.finish_reason == "length"


async def test_a_refusal_is_an_answer_in_words():
    refuse = FaultPlan([At().fail(Refusal("Not today."))])
    response = await FaultInjector(Scripted(), refuse).complete(user("Hi"), "m")
    assert response.content == "Not today."
    assert response.tool_calls == ()
    assert response.finish_reason == "stop"
