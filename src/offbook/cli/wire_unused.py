"""What is said of the exchanges that nobody asked for over the wire."""

from __future__ import annotations

from collections.abc import Sequence

from offbook.recording.keys import short
from offbook.wire.leftover import Leftover
from offbook.wording import printable

SHOWN_UNUSED = 10


def told_unused(unused: Sequence[Leftover], recording: str, *, is_folder: bool, has_struck: bool) -> str:
    """How many exchanges of a recording were left, and the first of them, a line each.

    In a folder each line names its file. If a fault `has_struck`, that may be why.
    """
    said = "exchange of {} was" if len(unused) == 1 else "exchanges of {} were"
    lines = [f"{len(unused):,} {said.format(recording)} not used:"]
    lines += [f"  {_line(left, is_folder=is_folder)}" for left in unused[:SHOWN_UNUSED]]
    if len(unused) > SHOWN_UNUSED:
        lines.append(f"  and {len(unused) - SHOWN_UNUSED:,} more")
    if has_struck:
        lines.append("  hint: a fault struck, which may be why")
    return "\n".join(lines)


def _line(left: Leftover, *, is_folder: bool) -> str:
    where = [left.recording if is_folder else "", f"session {left.session}" if left.session else ""]
    told = ", ".join(filter(None, where))
    line = f"{short(left.key)}[{left.position}]  {left.about}{f'  ({told})' if told else ''}"
    return printable(line).replace("\n", " ")
