"""How a test is recorded again."""

from __future__ import annotations

import shlex


def record_again(node_id: str) -> str:
    """The hint to whoever changed what a test asks."""
    return f"record the test again, or undo the change: pytest {shlex.quote(node_id)} --offbook-record=fresh"
