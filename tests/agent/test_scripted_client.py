"""A model whose lines are written beforehand."""

import pytest

from tests.agent.parts import FETCH, SUBMIT, agent, play
from understudy import Response, UnderstudyError
from understudy.agent import ScriptedClient, ScriptError, TextResponse, ToolCall, WorkflowRunner


async def test_lines_come_in_many_shapes():
    lines = [
        "text",
        TextResponse("text"),
        Response("text"),
        FETCH,
        [FETCH, FETCH],
        lambda messages, tools: ToolCall(tools[1].name, {"after": len(messages)}),
    ]
    played = await play(lines, agent(submit=lambda after: after), max_iterations=9)
    assert played.result == 13


async def test_a_script_that_runs_out_says_so():
    played = await play([FETCH], catch=ScriptError)
    assert "asked a 2. time, but the script has 1 line" in str(played.error)


async def test_an_error_in_the_script_is_raised():
    await play([KeyError("x")], catch=KeyError)


async def test_lines_left_over_are_complained_about():
    with pytest.raises(ScriptError, match="1 of 3 lines"), ScriptedClient([FETCH, SUBMIT, "never said"]) as client:
        await WorkflowRunner(client).run(agent(), "go", prompt_vars={"role": "tester"})
    assert client.left == ["never said"]


async def test_a_test_that_failed_is_not_complained_about():
    with pytest.raises(ZeroDivisionError), ScriptedClient(["never said"]):
        raise ZeroDivisionError


async def test_a_script_that_was_played_to_its_end_is_fine():
    with ScriptedClient([FETCH, SUBMIT]) as client:
        await WorkflowRunner(client).run(agent(), "go", prompt_vars={"role": "tester"})
    client.assert_used_up()


def test_a_script_error_is_one_of_ours():
    assert issubclass(ScriptError, UnderstudyError)
