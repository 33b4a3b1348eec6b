"""Some tools come before others."""

from tests.agent.parts import SUBMIT, agent, fails, play, tool
from understudy.agent import MessageType, PrerequisiteError, ToolCall, Workflow

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
