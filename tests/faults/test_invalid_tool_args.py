"""The invalid_tool_args fault."""

import json

import pytest

from offbook import MockProvider, ToolCallDelta
from tests.fakes import events_of, user

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
