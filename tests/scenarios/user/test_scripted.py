"""The scripted user: its lines in order, and its end."""

from offbook.scenarios.result import TurnRecord
from offbook.scenarios.scenario import turn
from offbook.scenarios.user import ScriptedUser, UserMove

TURNS = (TurnRecord(0, "Hello", "Hi"), TurnRecord(1, "Refund it", "Done"))


async def test_a_script_is_said_line_by_line_and_ends_with_the_last():
    user = ScriptedUser([turn("Hello"), "Refund it"])
    assert await user.next(()) == UserMove("Hello", is_scripted=True)
    assert await user.next(TURNS[:1]) == UserMove(
        "Refund it", is_done=True, reason="the script ends here", is_scripted=True
    )


async def test_after_the_last_line_nothing_is_said():
    move = await ScriptedUser(["Hello"]).next(TURNS)
    assert (move.says, move.is_done, move.goal_reached) == (None, True, False)
