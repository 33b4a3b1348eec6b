"""The tool_call_fault fault, and how a loop lets the tool fail."""

import pytest

from offbook import MockProvider, ToolCall, ToolCallDelta
from offbook.errors import ProviderError, ToolFaultError
from tests.fakes import events_of, user

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
