"""The same call again and again."""

from itertools import count

from offbook.agent import MessageType, RepeatedCallError, ToolCall
from tests.agent.parts import FETCH, SUBMIT, agent, fails, play, tool

NUDGE = MessageType.REPETITION_NUDGE


async def test_a_call_with_the_same_outcome_is_refused_after_a_while():
    ran = []
    workflow = agent(fetch=lambda **_: ran.append(1))
    played = await play([FETCH] * 4 + [SUBMIT], workflow, policy={"max_same_calls": 3})
    assert len(ran) == 3
    [told] = played.of(NUDGE)
    assert told.startswith("[RepeatedCall] fetch was not run: you have called it 3 times")


async def test_a_model_that_goes_on_ends_the_run():
    call = ToolCall("fetch", {"page": 1})
    limits = {"max_same_calls": 2, "max_repetition_refusals": 1}
    played = await play([call] * 4, policy=limits, catch=RepeatedCallError)
    error = played.error
    assert (error.tool_name, error.arguments, error.times) == ("fetch", {"page": 1}, 2)


async def test_calls_in_turns_are_found_too():
    other = ToolCall("other")
    played = await play([FETCH, other] * 3 + [SUBMIT], agent(tool("other")), policy={"max_same_calls": 2})
    assert len(played.of(NUDGE)) == 2


async def test_other_arguments_make_another_call():
    calls = [ToolCall("fetch", {"page": page}) for page in range(6)]
    assert not (await play([*calls, SUBMIT], policy={"max_same_calls": 2})).of(NUDGE)


async def test_the_order_of_arguments_does_not_make_another_call():
    calls = [ToolCall("fetch", {"a": 1, "b": 2}), ToolCall("fetch", {"b": 2, "a": 1})] * 2
    assert (await play([*calls, SUBMIT], policy={"max_same_calls": 2})).of(NUDGE)


async def test_polling_may_go_on_while_something_changes():
    states = count()
    workflow = agent(fetch=lambda **_: next(states))
    assert not (await play([FETCH] * 6 + [SUBMIT], workflow, policy={"max_same_calls": 2})).of(NUDGE)


async def test_a_repeatable_tool_may_be_called_as_often_as_one_likes():
    wait = ToolCall("wait")
    played = await play(
        [FETCH, *[wait] * 8, SUBMIT], agent(tool("wait", repeatable=True)), policy={"max_same_calls": 2}
    )
    assert not played.of(NUDGE)


async def test_the_same_failure_again_counts_as_well():
    limits = {"max_same_calls": 2, "max_tool_errors": 9}
    assert (
        await play([FETCH] * 3 + [SUBMIT], agent(required=(), fetch=fails(*[OSError("down")] * 9)), policy=limits)
    ).of(NUDGE)
