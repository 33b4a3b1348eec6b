"""What a user does when it is their turn."""

from __future__ import annotations

from msgspec import Struct


class UserMove(Struct, frozen=True):
    """What a user says next, or None if they say nothing more.

    `is_done` says that the conversation ends here: at once, or after the answer if something is said.
    `goal_reached` is a simulated user's own view of it, and `reason` why they do what they do.
    `is_scripted` says that a script made the move.
    """

    says: str | None
    is_done: bool = False
    goal_reached: bool = False
    reason: str = ""
    is_scripted: bool = False
