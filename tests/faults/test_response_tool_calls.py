"""Faults of the tool calls that a model asks for."""

import json

import pytest

from offbook import MockProvider, Response, ToolCall
from offbook.errors import ProviderError, ToolFaultError
from offbook.faults import (
    At,
    DoubledToolCalls,
    FaultInjector,
    FaultPlan,
    InvalidToolArgs,
    OneMoreTool,
    SharedToolId,
    UnknownTool,
    WrongTypes,
    WrongValues,
)
from offbook.messages import ToolCallDelta
from tests.fakes import Scripted, events_of, user

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "get_time")]


@pytest.mark.parametrize(
    ("tools", "calls"), [(TOOLS, "get_weather"), (TOOLS[1:], "get_time"), ([], "tool"), ([{}], "tool")]
)
async def test_the_model_asks_for_the_first_tool_with_arguments_that_are_no_json(tools, calls):
    mock = MockProvider(responses={"a": {"fault": {"type": "invalid_tool_args"}}})
    response = await mock.complete(user("Hi"), "m", tools=tools, step_id="a")
    (call,) = response.tool_calls
    assert call.tool == calls
    assert call.args == {}
    assert response.finish_reason == "tool_calls"
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)
    assert call.raw_arguments == call.arguments
    delta, end = await events_of(await mock.stream(user("Hi"), "m", tools=tools, step_id="a"))
    assert delta == ToolCallDelta(0, call.arguments, call.id, calls)
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


PARALLEL = Response(
    "Both.", tool_calls=(ToolCall("find", {"city": "Oslo"}, "a"), ToolCall("find", {"city": "Bonn"}, "b"))
)
BROKEN = {
    InvalidToolArgs: (ToolCall("find", {}, "b", raw_arguments='{"value": "brok'),),
    UnknownTool: (ToolCall("no_such_tool", {"city": "Bonn"}, "b"),),
    WrongTypes: (ToolCall("find", {"city": {"value": "Bonn"}}, "b"),),
    WrongValues: (ToolCall("find", {"city": "Bonn-2"}, "b"),),
    DoubledToolCalls: (PARALLEL.tool_calls[1], ToolCall("find", {"city": "Bonn"}, "b_again")),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_one_of_several_parallel_calls_is_struck_and_the_others_stay(kind):
    async def answered(number):
        injector = FaultInjector(Scripted(PARALLEL), FaultPlan([At().fail(kind(number))]))
        return await injector.complete(user("Hi"), "m", tools=TOOLS)

    struck = await answered(2)
    assert struck.tool_calls == (PARALLEL.tool_calls[0], *BROKEN[kind])
    assert struck.content == "Both."
    assert (await answered(3)).tool_calls == PARALLEL.tool_calls


@pytest.mark.parametrize(("number", "ids"), [(0, "aaa"), (1, "cbc"), (2, "aac"), (3, "aba"), (4, "abc")])
async def test_parallel_calls_share_an_id(number, ids):
    calls = tuple(
        ToolCall("find", {"city": city}, own) for city, own in zip(("Oslo", "Bonn", "Rome"), "abc", strict=True)
    )
    answer = Response("All.", tool_calls=calls)
    injector = FaultInjector(Scripted(answer), FaultPlan([At().fail(SharedToolId(number))]))
    struck = await injector.complete(user("Hi"), "m", tools=TOOLS)
    assert [each.id for each in struck.tool_calls] == list(ids)
    assert [each.args for each in struck.tool_calls] == [each.args for each in calls]


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


async def test_a_hand_written_loop_reports_the_failure_to_the_model():
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


ARGS = {"order_id": 42, "reason": "late", "urgent": True, "tags": ["a", "b"], "price": {"eur": 1.5}, "note": None}
ASKS = Response("On it.", "m", finish_reason="tool_calls", tool_calls=(ToolCall("refund", ARGS, "c1"),))


async def calls_with(fault, response=ASKS):
    """The tool calls of the response with the fault."""
    changed = await FaultInjector(Scripted(response), FaultPlan([At().fail(fault)])).complete(user("Hi"), "m")
    assert changed.content == response.content
    assert changed.finish_reason == response.finish_reason
    return changed.tool_calls


async def test_every_argument_is_of_another_type():
    (call,) = await calls_with(WrongTypes())
    assert call.tool == "refund"
    assert call.id == "c1"
    assert list(call.args) == list(ARGS)
    assert [type(value) for value in call.args.values()] == [str, dict, str, str, list, str]


async def test_every_argument_is_of_the_same_type_with_another_value():
    (call,) = await calls_with(WrongValues())
    assert call.args == {
        "order_id": 43,
        "reason": "late-2",
        "urgent": False,
        "tags": ["a"],
        "price": {"eur": 2.5},
        "note": None,
    }


async def test_every_call_is_made_twice_the_second_time_under_a_new_id():
    two = Response(tool_calls=(ToolCall("find", {"n": 1}, "c1"), ToolCall("refund", {}, None)))
    calls = await calls_with(DoubledToolCalls(), two)
    assert [call.tool for call in calls] == ["find", "find", "refund", "refund"]
    assert [call.args for call in calls] == [{"n": 1}, {"n": 1}, {}, {}]
    assert len({call.id for call in calls}) == 4


@pytest.mark.parametrize("fault", [WrongTypes(), WrongValues(), DoubledToolCalls()])
async def test_an_answer_without_tool_calls_stays_as_it_is(fault):
    assert await calls_with(fault, Response("Done.", "m")) == ()


async def test_a_model_that_never_ends_makes_its_first_call_again_under_a_new_id():
    plan = FaultPlan([At(since=1).fail(OneMoreTool())])
    model = FaultInjector(Scripted(ASKS), plan)
    messages = user("Pay it back")
    made = []
    for _ in range(4):
        (call,) = (response := await model.complete(messages, "m", tools=TOOLS)).tool_calls
        made.append((call.tool, call.args))
        messages += [response.to_message().to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "paid"}]
    assert made == [("refund", ARGS)] * 4
    assert len({each["tool_call_id"] for each in messages if each["role"] == "tool"}) == 4


@pytest.mark.parametrize("options", [{}, {"tools": []}, {"tools": TOOLS, "tool_choice": "none"}])
async def test_a_model_that_never_ends_answers_where_it_may_call_no_tool(options):
    model = FaultInjector(Scripted(Response("Done.", "m")), FaultPlan([At(since=1).fail(OneMoreTool())]))
    messages = [*user("Pay it back"), ASKS.to_message().to_dict()]
    assert (await model.complete(messages, "m", **options)).content == "Done."


@pytest.mark.parametrize("odd", ["x", {"function": None}, {"function": "refund"}])
async def test_malformed_calls_of_a_conversation_are_not_made_again(odd):
    model = FaultInjector(Scripted(Response("Done.", "m")), FaultPlan([At(since=1).fail(OneMoreTool())]))
    messages = [*user("Hi"), {"role": "assistant", "content": None, "tool_calls": [odd]}]
    assert (await model.complete(messages, "m", tools=TOOLS)).content == "Done."
