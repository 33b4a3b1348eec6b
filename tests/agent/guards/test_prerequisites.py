"""Some tools come before others."""

import pytest
from pydantic import BaseModel

from offbook import InputError
from offbook.agent import MessageType, PrerequisiteError, ToolCall, ToolDef, ToolSpec, Workflow, tool_of
from tests.agent.parts import SUBMIT, agent, fails, play, tool

NUDGE = MessageType.PREREQUISITE_NUDGE
SAME_PATH = {"tool": "read", "match_arg": "path"}


def editor(prerequisite, read=None):
    return agent(tool("read", read), tool("edit", prerequisites=[prerequisite]), required=())


def read(path):
    return ToolCall("read", {"path": path})


def edit(path):
    return ToolCall("edit", {"path": path})


async def test_a_tool_waits_for_what_it_needs():
    played = await play([ToolCall("edit"), ToolCall("read"), ToolCall("edit"), SUBMIT], editor("read"))
    assert played.of(NUDGE) == ["[PrerequisiteError] edit was not run: call read before it."]
    assert played.run.completed_steps == {"read": 1, "edit": 1, "submit": 1}


async def test_an_argument_can_have_to_be_the_same():
    played = await play([read("a.py"), edit("b.py"), read("b.py"), edit("b.py"), SUBMIT], editor(SAME_PATH))
    assert played.of(NUDGE) == ["[PrerequisiteError] edit was not run: call read(path='b.py') before it."]


async def test_values_are_compared_whatever_the_order_of_their_keys():
    first, second = {"a": 1, "b": [2]}, {"b": [2], "a": 1}
    assert not (await play([read(first), edit(second), SUBMIT], editor(SAME_PATH))).of(NUDGE)


async def test_what_failed_does_not_count():
    workflow = editor("read", fails(OSError("no such file")))
    played = await play([read("a"), edit("a"), read("a"), edit("a"), SUBMIT], workflow)
    assert len(played.of(NUDGE)) == 1


async def test_nudges_get_firmer_until_the_run_ends():
    played = await play([ToolCall("edit")] * 4, editor("read"), catch=PrerequisiteError)
    told = played.of(NUDGE)
    assert "You must call read now" in told[1]
    assert "STOP" in told[2]
    error = played.error
    assert (error.tool_name, error.attempts, error.missing) == ("edit", 4, ["read"])


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
    await play(calls, workflow)
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
    ("function", "argument", "told"),
    [
        (edit_file, "pth", "edit_file has no argument 'pth'\n  hint: did you mean 'path'?"),
        (edit_file, "text", "read_file has no argument 'text'\n  hint: arguments of read_file: path"),
        (delete_file, "path", "delete_file has no argument 'path'\n  hint: arguments of delete_file: name"),
    ],
)
def test_an_argument_that_one_of_the_two_tools_does_not_have_is_refused_at_once(function, argument, told):
    with pytest.raises(InputError) as caught:
        file_agent(read_file, needing("read_file", argument, function))
    assert str(caught.value) == f"{function.__name__}: prerequisites[0]: match_arg: {told}"


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
    played = await play([ToolCall("read"), ToolCall("edit"), read("a"), edit("a"), SUBMIT], editor(SAME_PATH))
    assert played.of(NUDGE) == ["[PrerequisiteError] edit was not run: call read with the same path before it."]


async def test_no_value_is_not_the_value_null():
    played = await play([ToolCall("read"), edit(None), read(None), edit(None), SUBMIT], editor(SAME_PATH))
    assert played.of(NUDGE) == ["[PrerequisiteError] edit was not run: call read(path=None) before it."]


@pytest.mark.parametrize("declared", [7, {}, {"tool": 7}, {"tool": "read", "match_arg": 7}, {"tool": "read", "x": 1}])
def test_a_prerequisite_that_cannot_be_read_is_refused(declared):
    with pytest.raises(InputError, match="cannot read") as caught:
        editor(declared)
    assert (caught.value.source, caught.value.place) == ("edit", "prerequisites[0]")


def test_a_tool_that_is_not_there_is_refused_with_the_one_that_was_meant():
    with pytest.raises(InputError, match=r"there is no tool 'raed'\n  hint: did you mean 'read'\?"):
        editor("raed")
