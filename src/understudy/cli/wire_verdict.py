"""How a command that was answered over the wire ends, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from understudy.cli.exit_codes import FAILED, MISMATCH
from understudy.cli.wire_options import WireOptions
from understudy.cli.wire_tally import WireTally


class Verdict(Struct, frozen=True):
    """The exit code of a run, and a hint where the code is not the command's own."""

    code: int
    hint: str = ""


def verdict_on(
    code: int, tally: WireTally, options: WireOptions, *, is_strict: bool, allows_no_calls: bool, command: Sequence[str]
) -> Verdict:
    """The verdict on a command that ended with `code`.

    A miss counts more than what the command makes of it. Where nothing was missed, a command that failed has the last
    word; one that did not is refused if it asked nothing of a replay, if a fault never struck, or (strict) if it left
    something.
    """
    if tally.misses:
        return Verdict(MISMATCH, _record_again(options, command))
    if code:
        return Verdict(code)
    if options.replay is not None and not tally.calls and not allows_no_calls:
        return Verdict(MISMATCH, _LOST)
    if tally.faults.unstruck:
        return Verdict(FAILED)
    return Verdict(MISMATCH if is_strict and tally.unused else 0)
