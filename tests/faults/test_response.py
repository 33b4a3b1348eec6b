"""The malformed_response fault."""

import json

import pytest

from offbook import MockProvider, Response, StreamEnd, TextDelta, ToolCall, ToolCallDelta, Usage, WrongShape
from offbook.errors import MalformedResponseError, ProviderError, RecordingFormatError, ToolFaultError
from offbook.faults import At, FaultInjector, FaultPlan, PartialResponse
from tests.fakes import Scripted, events_of, user


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "raw", ["not valid json", "", "{", "[]", '{"choices": []}', '{"choices": [{"message": 5}]}', "ÿ"]
)
def test_the_parse_error_of_the_real_codec_surfaces_with_what_arrived(apply, raw, stream):
    came, error, _ = apply({"type": "malformed_response", "raw": raw}, stream=stream)
    assert came == []
    assert type(error) is MalformedResponseError
    assert (error.raw, error.body, error.provider) == (raw, raw, "mock")


def test_it_fails_also_with_what_the_codec_could_read(apply):
    raw = '{"choices": [{"message": {"content": "fine"}}]}'
    _, error, _ = apply({"type": "malformed_response", "raw": raw})
    assert (type(error), error.raw) == (MalformedResponseError, raw)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "raw", ["[]", "null", '"ok"', '{"choices": []}', '{"choices": [{"message": 5}]}', ' {"a": "ä"}\n']
)
def test_the_complaint_of_the_real_codec_surfaces_with_what_arrived(apply, raw, stream):
    came, error, _ = apply({"type": "wrong_shape", "raw": raw}, stream=stream)
    assert (came, type(error)) == ([], MalformedResponseError)
    assert (error.raw, error.body, error.provider) == (raw, raw, "mock")


def test_by_default_the_answer_is_an_object_without_choices(apply):
    _, error, _ = apply({"type": "wrong_shape"})
    assert error.raw == '{"status": "ok"}'
    assert "missing required field `choices`" in str(error)


def test_a_wrong_shape_fails_also_with_what_the_codec_could_read(apply):
    raw = '{"choices": [{"message": {"content": "fine"}}]}'
    _, error, _ = apply({"type": "wrong_shape", "raw": raw})
    assert (type(error), error.raw) == (MalformedResponseError, raw)


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


TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "get_time")]


@pytest.mark.parametrize(
    ("tools", "asked"), [(TOOLS, "get_weather"), (TOOLS[1:], "get_time"), ([], "tool"), ([{}], "tool")]
)
async def test_the_model_asks_for_the_first_tool_with_arguments_that_are_no_json(tools, asked):
    mock = MockProvider(responses={"a": {"fault": {"type": "invalid_tool_args"}}})
    response = await mock.complete(user("Hi"), "m", tools=tools, step_id="a")
    (call,) = response.tool_calls
    assert (call.tool, call.args, response.finish_reason) == (asked, {}, "tool_calls")
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)
    assert call.raw_arguments == call.arguments
    delta, end = await events_of(await mock.stream(user("Hi"), "m", tools=tools, step_id="a"))
    assert delta == ToolCallDelta(0, call.arguments, call.id, asked)
    assert end.response == response


TOOLS_unknown_tool = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


async def test_the_model_asks_for_a_tool_that_nobody_gave_it():
    mock = MockProvider(responses={"a": {"fault": {"type": "unknown_tool"}}})
    response = await mock.complete(user("Hi"), "m", tools=TOOLS_unknown_tool, step_id="a")
    assert response.tool_calls == (ToolCall("no_such_tool", {}, "call_fault_1"),)
    assert response.finish_reason == "tool_calls"
    response.tool_calls[0].raise_for_fault()
    delta, end = await events_of(await mock.stream(user("Hi"), "m", tools=TOOLS_unknown_tool, step_id="a"))
    assert delta == ToolCallDelta(0, "{}", "call_fault_1", "no_such_tool")
    assert end.response == response


FAULT = {"type": "tool_call_fault", "tool": "get_weather", "args": {"at": ["Oslo"]}, "error": "the station is down"}


async def test_the_model_asks_for_the_tool_and_its_call_fails_when_it_is_run():
    mock = MockProvider(responses={"a": {"fault": FAULT}})
    response = await mock.complete(user("Rain?"), "m", step_id="a")
    (call,) = response.tool_calls
    assert call == ToolCall("get_weather", {"at": ["Oslo"]}, "call_fault_1", error="the station is down")
    assert response.finish_reason == "tool_calls"
    with pytest.raises(ToolFaultError, match=r"^the station is down$") as caught:
        call.raise_for_fault()
    assert caught.value.tool == "get_weather"
    assert not isinstance(caught.value, ProviderError)


async def test_the_last_event_of_a_stream_carries_the_failing_call():
    mock = MockProvider(responses={"a": {"fault": FAULT}})
    delta, end = await events_of(await mock.stream(user("Rain?"), "m", step_id="a"))
    assert delta == ToolCallDelta(0, '{"at":["Oslo"]}', "call_fault_1", "get_weather")
    with pytest.raises(ToolFaultError):
        end.response.tool_calls[0].raise_for_fault()


def test_a_call_without_a_fault_is_let_through():
    ToolCall("get_weather", {"city": "Oslo"}).raise_for_fault()


def test_an_empty_error_still_fails():
    with pytest.raises(ToolFaultError):
        ToolCall("get_weather", error="").raise_for_fault()


async def test_a_tool_that_changes_its_arguments_does_not_change_the_fault():
    mock = MockProvider(responses={"a": {"fault": FAULT}})
    first = await mock.complete(user("Rain?"), "m", step_id="a")
    first.tool_calls[0].args["at"].append("Rome")
    second = await mock.complete(user("Rain?"), "m", step_id="a")
    assert second.tool_calls[0].args == {"at": ["Oslo"]}


async def test_a_hand_written_loop_tells_the_model_of_the_failure():
    mock = MockProvider(responses={"a": [{"fault": FAULT}, {"content": "I cannot tell."}]}, strict=True)
    messages = user("Rain?")
    while (response := await mock.complete(messages, "m", step_id="a")).tool_calls:
        messages.append(response.to_message().to_dict())
        for call in response.tool_calls:
            try:
                call.raise_for_fault()
                result = "sunny"
            except ToolFaultError as error:
                result = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert response.content == "I cannot tell."
    assert messages[-1] == {"role": "tool", "tool_call_id": "call_fault_1", "content": "error: the station is down"}
    assert "error" not in messages[1]["tool_calls"][0]


async def test_every_asking_of_a_conversation_has_its_own_id():
    mock = MockProvider(responses={"a": {"fault": FAULT}})
    short = await mock.complete(user("Rain?"), "m", step_id="a")
    longer = await mock.complete([*user("Rain?"), *user("And?")], "m", step_id="a")
    assert short.tool_calls[0].id != longer.tool_calls[0].id
