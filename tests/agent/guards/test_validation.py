"""Answers must be valid tool calls."""

import pytest
from pydantic import BaseModel

from offbook.agent import (
    MaxIterationsError,
    MessageType,
    ScriptedClient,
    TextResponse,
    ToolCall,
    ToolCallError,
    ToolDef,
    ToolSpec,
    WorkflowRunner,
)
from tests.agent.parts import FETCH, SUBMIT, agent, play

NUDGE = MessageType.RETRY_NUDGE


class Order(BaseModel):
    order_id: int


def refund_tool(received):
    return ToolDef(ToolSpec("refund", "Refunds an order.", Order), lambda **args: received.append(args))


async def test_text_is_answered_with_a_nudge_and_another_try():
    played = await play([TextResponse("I am not sure"), FETCH, SUBMIT])
    assert [message["role"] for message in played.client.calls[1].messages][2:] == ["assistant", "user"]
    assert played.of(MessageType.TEXT_RESPONSE) == ["I am not sure"]
    assert "not a valid tool call" in played.of(NUDGE)[0]
    assert "fetch, submit" in played.of(NUDGE)[0]


async def test_a_call_that_a_fault_makes_fail_fails_whatever_its_arguments():
    received = []
    broken = ToolCall("refund", {}, error="the till is shut")
    played = await play([broken, SUBMIT], agent(refund_tool(received), required=()))
    assert played.of(NUDGE) == []
    assert "the till is shut" in played.of(MessageType.TOOL_RESULT)[0]
    assert received == []


async def test_text_once_too_often_ends_the_run_with_the_last_of_it():
    played = await play(["one", "two", "three", "four"], catch=ToolCallError)
    assert played.error.raw_response == "four"
    assert "Retries exhausted" in str(played.error)


async def test_a_valid_call_starts_the_count_afresh():
    await play(["a", "b", FETCH, "c", "d", SUBMIT], max_retries_per_step=2)


async def test_a_call_that_comes_too_early_is_still_a_valid_one():
    await play(["a", "b", SUBMIT, "c", "d", FETCH, SUBMIT], max_retries_per_step=2)


async def test_nudges_use_up_iterations():
    played = await play(["a", "b", FETCH, SUBMIT], catch=MaxIterationsError, max_iterations=3)
    assert played.error.iterations == 3


async def test_an_empty_answer_is_not_sent_back():
    played = await play([TextResponse("  "), FETCH, SUBMIT])
    assert [message["role"] for message in played.client.calls[1].messages] == ["system", "user", "user"]


async def test_an_empty_list_of_calls_is_an_empty_answer():
    assert len((await play([[], FETCH, SUBMIT])).of(NUDGE)) == 1


async def test_an_unknown_tool_is_answered_with_those_that_there_are():
    played = await play([ToolCall("nonexistent", {"x": 1}), FETCH, SUBMIT])
    call, told = played.client.calls[1].messages[2:]
    assert call["tool_calls"][0]["function"] == {"name": "nonexistent", "arguments": {"x": 1}}
    assert told["role"] == "tool"
    assert told["tool_call_id"] == call["tool_calls"][0]["id"]
    assert told["content"].startswith("[UnknownTool] Tool 'nonexistent' does not exist.")
    assert "fetch, submit" in told["content"]


async def test_unknown_tools_and_text_use_up_the_same_patience():
    lines = ["text", ToolCall("bad"), "text", ToolCall("worse", {"x": 1})]
    played = await play(lines, catch=ToolCallError)
    assert played.error.raw_response == 'worse({"x":1})'


async def test_arguments_that_do_not_fit_are_told_to_the_model_and_the_tool_is_not_run():
    received = []
    calls = [ToolCall("refund", {"order_id": "forty-two"}), ToolCall("refund", {"order_id": 42})]
    played = await play([FETCH, *calls, SUBMIT], agent(refund_tool(received)))
    assert received == [{"order_id": 42}]
    [told] = played.of(NUDGE)
    assert told.startswith("[InvalidArguments] refund was not run")
    assert "order_id" in told
    assert "integer" in told


async def test_arguments_that_are_no_json_object_are_told_to_the_model():
    received = []
    broken = ToolCall.parse("refund", '{"order_id": 42')
    played = await play([FETCH, broken, ToolCall("refund", {"order_id": 42}), SUBMIT], agent(refund_tool(received)))
    assert "must be a JSON object" in played.of(NUDGE)[0]
    assert played.client.calls[2].messages[-2]["tool_calls"][0]["function"]["arguments"] == '{"order_id": 42'
    assert received == [{"order_id": 42}]


async def test_wrong_arguments_once_too_often_end_the_run():
    played = await play(
        [ToolCall("refund", {})] * 2, agent(refund_tool([])), catch=ToolCallError, max_retries_per_step=1
    )
    assert "order_id" in str(played.error)


async def test_one_wrong_call_keeps_the_others_of_its_turn_from_running():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append("fetch"))
    played = await play([[FETCH, ToolCall("bad")], FETCH, SUBMIT], workflow)
    assert ran == ["fetch"]
    skipped, unknown = played.client.calls[1].messages[-2:]
    assert skipped["content"].startswith("[NotRun]")
    assert "bad" in skipped["content"]
    assert unknown["content"].startswith("[UnknownTool]")


@pytest.mark.parametrize(
    ("nudge", "said"),
    [("Wrap it in a tool.", "Wrap it in a tool."), (lambda raw: f"You said: {raw[:4]}", "You said: bare")],
)
async def test_the_nudge_can_be_replaced(nudge, said):
    played = await play(["bare text", FETCH, SUBMIT], retry_nudge=nudge)
    assert played.of(NUDGE) == [said]


async def test_the_nudge_is_a_text_or_a_function():
    assert WorkflowRunner(ScriptedClient([]), retry_nudge="Call a tool.")._retry_nudge_fn("anything") == "Call a tool."
