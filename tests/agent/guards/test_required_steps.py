"""The required steps come before the end."""

from offbook.agent import MessageType, StepEnforcementError, ToolCall, ToolResolutionError
from tests.agent.parts import FETCH, SUBMIT, agent, fails, play, tool

NUDGE = MessageType.STEP_NUDGE


async def test_a_terminal_tool_before_its_time_is_not_run():
    ran = []
    await play([SUBMIT, FETCH, SUBMIT], agent(submit=lambda **_: ran.append(1)))
    assert ran == [1]


async def test_the_model_is_told_which_steps_are_missing():
    played = await play([SUBMIT, FETCH, SUBMIT])
    told = played.client.calls[1].messages[-1]
    assert told["role"] == "tool"
    assert told["content"] == "[StepEnforcementError] You cannot call submit yet. Call these tools first: fetch."


async def test_nudges_get_firmer():
    first, second, third = (await play([SUBMIT, SUBMIT, SUBMIT, FETCH, SUBMIT])).of(NUDGE)
    assert "cannot call submit yet" in first
    assert "must call one of these tools now: fetch" in second
    assert "STOP" in third


async def test_a_model_that_will_not_listen_ends_the_run():
    played = await play([SUBMIT] * 4, catch=StepEnforcementError)
    error = played.error
    assert (error.terminal_tool, error.attempts, error.pending_steps) == ("submit", 4, ["fetch"])


async def test_progress_starts_the_count_afresh():
    workflow = agent(tool("more"), required=["fetch", "more"])
    await play([SUBMIT, SUBMIT, SUBMIT, FETCH, SUBMIT, SUBMIT, SUBMIT, ToolCall("more"), SUBMIT], workflow)


async def test_a_step_that_failed_is_not_done():
    for error in (ValueError("broken"), ToolResolutionError("no such file")):
        played = await play([FETCH, SUBMIT, FETCH, SUBMIT], agent(fetch=fails(error)))
        assert len(played.of(NUDGE)) == 1


async def test_every_terminal_tool_waits_for_the_steps():
    workflow = agent(tool("other"), terminal=["submit", "other"])
    played = await play([SUBMIT, ToolCall("other"), FETCH, ToolCall("other")], workflow)
    assert len(played.of(NUDGE)) == 2
    assert played.result == "other done"


async def test_a_step_in_the_same_turn_is_not_done_yet():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append("fetch"), submit=lambda **_: ran.append("submit"))
    await play([[FETCH, SUBMIT], FETCH, SUBMIT], workflow)
    assert ran == ["fetch", "submit"]


async def test_text_that_would_end_the_run_waits_for_the_steps_too():
    played = await play(["Done!", FETCH, "Done now."], agent(terminal=()))
    assert played.of(NUDGE) == ["[StepEnforcementError] You cannot answer yet. Call these tools first: fetch."]
    assert played.result == "Done now."
