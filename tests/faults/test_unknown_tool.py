"""The unknown_tool fault."""

from offbook import MockProvider, ToolCall, ToolCallDelta
from tests.fakes import events_of, user

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


async def test_the_model_asks_for_a_tool_that_nobody_gave_it():
    mock = MockProvider(responses={"a": {"fault": {"type": "unknown_tool"}}})
    response = await mock.complete(user("Hi"), "m", tools=TOOLS, step_id="a")
    assert response.tool_calls == (ToolCall("no_such_tool", {}, "call_fault_1"),)
    assert response.finish_reason == "tool_calls"
    response.tool_calls[0].raise_for_fault()
    delta, end = await events_of(await mock.stream(user("Hi"), "m", tools=TOOLS, step_id="a"))
    assert delta == ToolCallDelta(0, "{}", "call_fault_1", "no_such_tool")
    assert end.response == response
