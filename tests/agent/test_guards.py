"""Answers must be valid tool calls."""

from itertools import count

import pytest
from pydantic import BaseModel

from offbook import InputError
from offbook.agent import (
    MaxIterationsError,
    MessageType,
    PrerequisiteError,
    RepeatedCallError,
    ScriptedClient,
    StepEnforcementError,
    TextResponse,
    ToolCall,
    ToolCallError,
    ToolDef,
    ToolResolutionError,
    ToolSpec,
    Workflow,
    WorkflowRunner,
    tool_of,
)
from tests.agent.small_agents import FETCH, SUBMIT, agent, fails, run_script, tool

NUDGE = MessageType.RETRY_NUDGE


class Order(BaseModel):
    order_id: int


def refund_tool(received):
    return ToolDef(ToolSpec("refund", "Refunds an order.", Order), lambda **args: received.append(args))


async def test_text_is_answered_with_a_nudge_and_another_try():
    end = await run_script([TextResponse("I am not sure"), FETCH, SUBMIT])
    assert [message["role"] for message in end.client.calls[1].messages][2:] == ["assistant", "user"]
    assert end.of(MessageType.TEXT_RESPONSE) == ["I am not sure"]
    assert "not a valid tool call" in end.of(NUDGE)[0]
    assert "fetch, submit" in end.of(NUDGE)[0]


async def test_a_call_that_a_fault_makes_fail_fails_whatever_its_arguments():
    received = []
    broken = ToolCall("refund", {}, error="the till is shut")
    end = await run_script([broken, SUBMIT], agent(refund_tool(received), required=()))
    assert end.of(NUDGE) == []
    assert "the till is shut" in end.of(MessageType.TOOL_RESULT)[0]
    assert received == []


async def test_text_once_too_often_ends_the_run_with_the_last_of_it():
    end = await run_script(["one", "two", "three", "four"], catch=ToolCallError)
    assert end.error.raw_response == "four"
    assert "Retries exhausted" in str(end.error)


async def test_a_valid_call_starts_the_count_afresh():
    await run_script(["a", "b", FETCH, "c", "d", SUBMIT], max_retries_per_step=2)


async def test_a_call_that_comes_too_early_is_still_a_valid_one():
    await run_script(["a", "b", SUBMIT, "c", "d", FETCH, SUBMIT], max_retries_per_step=2)


async def test_nudges_use_up_iterations():
    end = await run_script(["a", "b", FETCH, SUBMIT], catch=MaxIterationsError, max_iterations=3)
    assert end.error.iterations == 3


async def test_an_empty_answer_is_not_sent_back():
    end = await run_script([TextResponse("  "), FETCH, SUBMIT])
    assert [message["role"] for message in end.client.calls[1].messages] == ["system", "user", "user"]


async def test_an_empty_list_of_calls_is_an_empty_answer():
    assert len((await run_script([[], FETCH, SUBMIT])).of(NUDGE)) == 1


async def test_an_unknown_tool_is_answered_with_those_that_there_are():
    end = await run_script([ToolCall("nonexistent", {"x": 1}), FETCH, SUBMIT])
    call, reply = end.client.calls[1].messages[2:]
    assert call["tool_calls"][0]["function"] == {"name": "nonexistent", "arguments": {"x": 1}}
    assert reply["role"] == "tool"
    assert reply["tool_call_id"] == call["tool_calls"][0]["id"]
    assert reply["content"].startswith("[UnknownTool] Tool 'nonexistent' does not exist.")
    assert "fetch, submit" in reply["content"]


async def test_unknown_tools_and_text_use_up_the_same_patience():
    lines = ["text", ToolCall("bad"), "text", ToolCall("worse", {"x": 1})]
    end = await run_script(lines, catch=ToolCallError)
    assert end.error.raw_response == 'worse({"x":1})'


async def test_arguments_that_do_not_fit_are_reported_to_the_model_and_the_tool_is_not_run():
    received = []
    calls = [ToolCall("refund", {"order_id": "forty-two"}), ToolCall("refund", {"order_id": 42})]
    end = await run_script([FETCH, *calls, SUBMIT], agent(refund_tool(received)))
    assert received == [{"order_id": 42}]
    [reply] = end.of(NUDGE)
    assert reply.startswith("[InvalidArguments] refund was not run")
    assert "order_id" in reply
    assert "integer" in reply


async def test_arguments_that_are_no_json_object_are_reported_to_the_model():
    received = []
    broken = ToolCall.parse("refund", '{"order_id": 42')
    end = await run_script([FETCH, broken, ToolCall("refund", {"order_id": 42}), SUBMIT], agent(refund_tool(received)))
    assert "must be a JSON object" in end.of(NUDGE)[0]
    assert end.client.calls[2].messages[-2]["tool_calls"][0]["function"]["arguments"] == '{"order_id": 42'
    assert received == [{"order_id": 42}]


async def test_wrong_arguments_once_too_often_end_the_run():
    end = await run_script(
        [ToolCall("refund", {})] * 2, agent(refund_tool([])), catch=ToolCallError, max_retries_per_step=1
    )
    assert "order_id" in str(end.error)


async def test_one_wrong_call_keeps_the_others_of_its_turn_from_running():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append("fetch"))
    end = await run_script([[FETCH, ToolCall("bad")], FETCH, SUBMIT], workflow)
    assert ran == ["fetch"]
    skipped, unknown = end.client.calls[1].messages[-2:]
    assert skipped["content"].startswith("[NotRun]")
    assert "bad" in skipped["content"]
    assert unknown["content"].startswith("[UnknownTool]")


@pytest.mark.parametrize(
    ("nudge", "expected"),
    [("Wrap it in a tool.", "Wrap it in a tool."), (lambda raw: f"You said: {raw[:4]}", "You said: bare")],
)
async def test_the_nudge_can_be_replaced(nudge, expected):
    end = await run_script(["bare text", FETCH, SUBMIT], retry_nudge=nudge)
    assert end.of(NUDGE) == [expected]


async def test_the_nudge_is_a_text_or_a_function():
    assert WorkflowRunner(ScriptedClient([]), retry_nudge="Call a tool.")._retry_nudge_fn("anything") == "Call a tool."


NUDGE_required_steps = MessageType.STEP_NUDGE


async def test_a_terminal_tool_before_its_time_is_not_run():
    ran = []
    await run_script([SUBMIT, FETCH, SUBMIT], agent(submit=lambda **_: ran.append(1)))
    assert ran == [1]


async def test_the_model_is_told_which_steps_are_missing():
    end = await run_script([SUBMIT, FETCH, SUBMIT])
    reply = end.client.calls[1].messages[-1]
    assert reply["role"] == "tool"
    assert reply["content"] == "[StepEnforcementError] You cannot call submit yet. Call these tools first: fetch."


async def test_nudges_get_firmer():
    first, second, third = (await run_script([SUBMIT, SUBMIT, SUBMIT, FETCH, SUBMIT])).of(NUDGE_required_steps)
    assert "cannot call submit yet" in first
    assert "must call one of these tools now: fetch" in second
    assert "STOP" in third


async def test_a_model_that_will_not_listen_ends_the_run():
    end = await run_script([SUBMIT] * 4, catch=StepEnforcementError)
    error = end.error
    assert error.terminal_tool == "submit"
    assert error.attempts == 4
    assert error.pending_steps == ["fetch"]


async def test_progress_starts_the_count_afresh():
    workflow = agent(tool("more"), required=["fetch", "more"])
    await run_script([SUBMIT, SUBMIT, SUBMIT, FETCH, SUBMIT, SUBMIT, SUBMIT, ToolCall("more"), SUBMIT], workflow)


async def test_a_step_that_failed_is_not_done():
    for error in (ValueError("broken"), ToolResolutionError("no such file")):
        end = await run_script([FETCH, SUBMIT, FETCH, SUBMIT], agent(fetch=fails(error)))
        assert len(end.of(NUDGE_required_steps)) == 1


async def test_every_terminal_tool_waits_for_the_steps():
    workflow = agent(tool("other"), terminal=["submit", "other"])
    end = await run_script([SUBMIT, ToolCall("other"), FETCH, ToolCall("other")], workflow)
    assert len(end.of(NUDGE_required_steps)) == 2
    assert end.result == "other done"


async def test_a_step_in_the_same_turn_is_not_done_yet():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append("fetch"), submit=lambda **_: ran.append("submit"))
    await run_script([[FETCH, SUBMIT], FETCH, SUBMIT], workflow)
    assert ran == ["fetch", "submit"]


async def test_text_that_would_end_the_run_waits_for_the_steps_too():
    end = await run_script(["Done!", FETCH, "Done now."], agent(terminal=()))
    assert end.of(NUDGE_required_steps) == [
        "[StepEnforcementError] You cannot answer yet. Call these tools first: fetch."
    ]
    assert end.result == "Done now."


NUDGE_prerequisites = MessageType.PREREQUISITE_NUDGE
SAME_PATH = {"tool": "read", "match_arg": "path"}


def editor(prerequisite, read=None):
    return agent(tool("read", read), tool("edit", prerequisites=[prerequisite]), required=())


def read(path):
    return ToolCall("read", {"path": path})


def edit(path):
    return ToolCall("edit", {"path": path})


async def test_a_tool_waits_for_what_it_needs():
    end = await run_script([ToolCall("edit"), ToolCall("read"), ToolCall("edit"), SUBMIT], editor("read"))
    assert end.of(NUDGE_prerequisites) == ["[PrerequisiteError] edit was not run: call read before it."]
    assert end.run.completed_steps == {"read": 1, "edit": 1, "submit": 1}


async def test_an_argument_can_have_to_be_the_same():
    end = await run_script([read("a.py"), edit("b.py"), read("b.py"), edit("b.py"), SUBMIT], editor(SAME_PATH))
    assert end.of(NUDGE_prerequisites) == ["[PrerequisiteError] edit was not run: call read(path='b.py') before it."]


async def test_values_are_compared_whatever_the_order_of_their_keys():
    first, second = {"a": 1, "b": [2]}, {"b": [2], "a": 1}
    assert not (await run_script([read(first), edit(second), SUBMIT], editor(SAME_PATH))).of(NUDGE_prerequisites)


async def test_what_failed_does_not_count():
    workflow = editor("read", fails(OSError("no such file")))
    end = await run_script([read("a"), edit("a"), read("a"), edit("a"), SUBMIT], workflow)
    assert len(end.of(NUDGE_prerequisites)) == 1


async def test_nudges_get_firmer_until_the_run_ends():
    end = await run_script([ToolCall("edit")] * 4, editor("read"), catch=PrerequisiteError)
    reply = end.of(NUDGE_prerequisites)
    assert "You must call read now" in reply[1]
    assert "STOP" in reply[2]
    error = end.error
    assert error.tool_name == "edit"
    assert error.attempts == 4
    assert error.missing == ["read"]


async def test_a_refund_needs_the_order_that_it_refunds():
    refunded = []
    workflow = Workflow(
        "refund",
        tools={
            "find_order": tool("find_order"),
            "refund": tool(
                "refund",
                lambda order_id: refunded.append(order_id) or "refunded",
                prerequisites=[{"tool": "find_order", "match_arg": "order_id"}],
            ),
        },
        required_steps=["find_order"],
        terminal_tool="refund",
    )
    calls = [
        ToolCall("find_order", {"order_id": 42}),
        ToolCall("refund", {"order_id": 24}),
        ToolCall("refund", {"order_id": 42}),
    ]
    await run_script(calls, workflow)
    assert refunded == [42]


def read_file(path: str) -> str:
    return path


def edit_file(path: str, text: str = "") -> str:
    return path


def delete_file(name: str) -> str:
    return name


def file_agent(*tools):
    return Workflow("files", tools=tools)


def needing(needed, argument, function=edit_file):
    return tool_of(function, prerequisites=[{"tool": needed, "match_arg": argument}])


@pytest.mark.parametrize(
    ("function", "argument", "reply"),
    [
        (edit_file, "pth", "edit_file has no argument 'pth'\n  hint: did you mean 'path'?"),
        (edit_file, "text", "read_file has no argument 'text'\n  hint: arguments of read_file: path"),
        (delete_file, "path", "delete_file has no argument 'path'\n  hint: arguments of delete_file: name"),
    ],
)
def test_an_argument_that_one_of_the_two_tools_does_not_have_is_refused_at_once(function, argument, reply):
    with pytest.raises(InputError) as caught:
        file_agent(read_file, needing("read_file", argument, function))
    assert str(caught.value) == f"{function.__name__}: prerequisites[0]: match_arg: {reply}"


def test_a_tool_that_takes_nothing_has_no_argument_to_match():
    def look() -> str:
        return "looked"

    with pytest.raises(InputError, match="look has no argument 'path'\n  hint: arguments of look: none"):
        file_agent(look, needing("look", "path"))


class Reading(BaseModel):
    path: str


@pytest.mark.parametrize("parameters", [Reading, {"properties": {"path": {}}}])
def test_the_arguments_of_models_and_schemas_are_known_too(parameters):
    declared = ToolDef(ToolSpec("read", "", parameters), lambda **_: "read")
    file_agent(declared, needing("read", "path"))
    with pytest.raises(InputError, match="read has no argument 'text'"):
        file_agent(declared, needing("read", "text"))


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {"properties": {"name": {}}, "additionalProperties": True},
        {"properties": {"name": {}}, "additionalProperties": {}},
        {"properties": {"name": {}}, "patternProperties": {"^p": {}}},
        {"properties": {"name": {}}, "anyOf": [{"properties": {"path": {}}}]},
    ],
)
def test_a_tool_that_may_take_more_than_it_names_is_not_judged_beforehand(parameters):
    assert file_agent(ToolDef(ToolSpec("read", "", parameters), lambda **_: ""), needing("read", "path"))


async def test_a_call_without_the_argument_to_match_is_refused():
    end = await run_script([ToolCall("read"), ToolCall("edit"), read("a"), edit("a"), SUBMIT], editor(SAME_PATH))
    assert end.of(NUDGE_prerequisites) == [
        "[PrerequisiteError] edit was not run: call read with the same path before it."
    ]


async def test_no_value_is_not_the_value_null():
    end = await run_script([ToolCall("read"), edit(None), read(None), edit(None), SUBMIT], editor(SAME_PATH))
    assert end.of(NUDGE_prerequisites) == ["[PrerequisiteError] edit was not run: call read(path=None) before it."]


@pytest.mark.parametrize("declared", [7, {}, {"tool": 7}, {"tool": "read", "match_arg": 7}, {"tool": "read", "x": 1}])
def test_a_prerequisite_that_cannot_be_read_is_refused(declared):
    with pytest.raises(InputError, match="cannot read") as caught:
        editor(declared)
    assert caught.value.source == "edit"
    assert caught.value.place == "prerequisites[0]"


def test_a_tool_that_is_not_there_is_refused_with_the_one_that_was_meant():
    with pytest.raises(InputError, match=r"there is no tool 'raed'\n  hint: did you mean 'read'\?"):
        editor("raed")


NUDGE_repetition = MessageType.REPETITION_NUDGE


async def test_a_call_with_the_same_outcome_is_refused_after_a_while():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append(1))
    end = await run_script([FETCH] * 4 + [SUBMIT], workflow, policy={"max_same_calls": 3})
    assert len(ran) == 3
    [reply] = end.of(NUDGE_repetition)
    assert reply.startswith("[RepeatedCall] fetch was not run: you have called it 3 times")


async def test_a_model_that_goes_on_ends_the_run():
    call = ToolCall("fetch", {"page": 1})
    limits = {"max_same_calls": 2, "max_repetition_refusals": 1}
    end = await run_script([call] * 4, policy=limits, catch=RepeatedCallError)
    error = end.error
    assert error.tool_name == "fetch"
    assert error.arguments == {"page": 1}
    assert error.times == 2


async def test_calls_in_turns_are_found_too():
    other = ToolCall("other")
    end = await run_script([FETCH, other] * 3 + [SUBMIT], agent(tool("other")), policy={"max_same_calls": 2})
    assert len(end.of(NUDGE_repetition)) == 2


async def test_other_arguments_make_another_call():
    calls = [ToolCall("fetch", {"page": page}) for page in range(6)]
    assert not (await run_script([*calls, SUBMIT], policy={"max_same_calls": 2})).of(NUDGE_repetition)


async def test_the_order_of_arguments_does_not_make_another_call():
    calls = [ToolCall("fetch", {"a": 1, "b": 2}), ToolCall("fetch", {"b": 2, "a": 1})] * 2
    assert (await run_script([*calls, SUBMIT], policy={"max_same_calls": 2})).of(NUDGE_repetition)


async def test_polling_may_go_on_while_something_changes():
    states = count()
    workflow = agent(fetch=lambda **_: next(states))
    assert not (await run_script([FETCH] * 6 + [SUBMIT], workflow, policy={"max_same_calls": 2})).of(NUDGE_repetition)


async def test_a_repeatable_tool_may_be_called_as_often_as_one_likes():
    wait = ToolCall("wait")
    end = await run_script(
        [FETCH, *[wait] * 8, SUBMIT], agent(tool("wait", repeatable=True)), policy={"max_same_calls": 2}
    )
    assert not end.of(NUDGE_repetition)


async def test_the_same_failure_again_counts_as_well():
    limits = {"max_same_calls": 2, "max_tool_errors": 9}
    assert (
        await run_script([FETCH] * 3 + [SUBMIT], agent(required=(), fetch=fails(*[OSError("down")] * 9)), policy=limits)
    ).of(NUDGE_repetition)
