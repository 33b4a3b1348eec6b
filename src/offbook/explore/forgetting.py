"""Whether an agent has lost its conversation: it goes on after a failure with less than it had."""

from __future__ import annotations

from collections.abc import Sequence

from offbook.messages import JsonObject


def forgotten(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> int:
    """How many messages of the request `before` the one `now` lacks; 0 if it has anything that the other had not."""
    if len(now) >= len(before) or any(message not in before for message in now):
        return 0
    return len(before) - len(now)
