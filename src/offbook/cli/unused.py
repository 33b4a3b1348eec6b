"""What is said of the exchanges that a replay has left."""

from __future__ import annotations

from offbook.recording.cursor import Unused
from offbook.wording import printable

SHOWN_UNUSED = 5


def told_unused(unused: list[Unused]) -> str:
    """How many exchanges a replay has left, and the first of them."""
    names = [f"{printable(left.key)}[{left.position}]" for left in unused[:SHOWN_UNUSED]]
    more = ", …" if len(unused) > SHOWN_UNUSED else ""
    said = "exchange of the recording was" if len(unused) == 1 else "exchanges of the recording were"
    return f"{len(unused):,} {said} not used: {', '.join(names)}{more}"
