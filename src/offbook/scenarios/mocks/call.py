"""A call that a mock answered: one step of a trajectory."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.tools.result_text import shown


class MockedCall(Struct, frozen=True):
    """A call of a tool, in one conversation, as it was made and answered.

    `error` is the message of what was raised instead of a `result`. A call that was given up, or still goes
    on, is not answered. `turn_index` and `call_index` are those of MockContext.
    """

    tool: str
    args: JsonObject
    result: Any = None
    error: str | None = None
    turn_index: int = 0
    call_index: int = 0
    is_answered: bool = False


def message_of(error: Exception) -> str:
    """What an agent is told of an error: its message, after its class where the message alone says too little."""
    message = shown(error)
    if isinstance(error, KeyError):
        return f"{type(error).__name__}: {message}"
    return message or type(error).__name__
