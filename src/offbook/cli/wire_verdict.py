"""How a command ends whose calls of models came to a server of ours: its exit code, and why that is not its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from offbook.cli.child import ChildEnd
from offbook.cli.exit_codes import FAILED, FINE, MISMATCH, TIMED_OUT
from offbook.cli.wire_options import WireOptions
from offbook.cli.wire_tally import WireTally


class Verdict(Struct, frozen=True):
    """The exit code, and where there is more to say, what is wrong and what to do."""

    code: int
    reason: str = ""
    hint: str = ""


class Judge(Struct, frozen=True):
    """Says how a command ends.

    One that had to be ended is late, whatever it did before. A miss counts more than what the command made of it; that
    the recording is of something else is not said if a fault has struck before every miss. Where nothing was missed, a
    command that failed has the last word; one that did not is refused if it asked nothing (unless it
    `may_ask_nothing`), if a planned fault never struck, or, `is_strict`, if it left exchanges.
    """

    options: WireOptions
    command: Sequence[str]
    is_strict: bool = False
    may_ask_nothing: bool = False

    def verdict(self, end: ChildEnd, tally: WireTally) -> Verdict:
        """The verdict on the command, which has ended so."""
        if end.is_late:
            return Verdict(TIMED_OUT, "the command had not ended in time, and was ended", _IN_TIME)
        if tally.misses:
            return self._mismatch(tally)
        if end.code != FINE:
            return Verdict(end.code)
        if not tally.totals.tries and not self.may_ask_nothing:
            return Verdict(MISMATCH, "nothing was asked: the command did not reach the stand-in", _LED_HERE)
        if tally.faults.unstruck:
            return Verdict(FAILED)
        return Verdict(MISMATCH if self.is_strict and tally.unused else FINE)

    def _mismatch(self, tally: WireTally) -> Verdict:
        if all(miss.is_after_fault for miss in tally.misses):
            return Verdict(MISMATCH)
        return Verdict(MISMATCH, "the recording is not of what was asked", self._record_again())

    def _record_again(self) -> str:
        path = "PATH" if self.options.is_folder else shlex.quote(self.options.recording)
        again = f"offbook exec --record {path} --record-mode fresh -- {shlex.join(self.command)}"
        return f"record it again, or undo the change: {again}"


_LED_HERE = (
    "let its clients take their address from OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST"
    " or OFFBOOK_URL, as SDKs do that are given none; --allow-no-calls if there is nothing to ask"
)
_IN_TIME = (
    "a call that a timeout or a stall struck lasts as long as its client waits, with most SDKs ten minutes: let it wait"
    " for less, or give a longer --time-limit"
)
