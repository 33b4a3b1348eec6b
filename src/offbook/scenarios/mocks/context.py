"""What a mock is told about the call that it answers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class MockContext(Struct, frozen=True):
    """The call that is being answered.

    `call_index` is how often this tool was called in this conversation before, `turn_index` the turn under
    way; both count from 0. `state` lives for one conversation and is shared by all its mocks.
    """

    tool: str
    call_index: int
    conversation_id: str
    turn_index: int
    state: dict[str, Any]
