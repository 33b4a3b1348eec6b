"""How a command ends whose calls of models came to a server of ours: its exit code, and why that is not its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from understudy.cli.exit_codes import FAILED, FINE, MISMATCH
from understudy.cli.wire_options import WireOptions
from understudy.cli.wire_tally import WireTally


class Verdict(Struct, frozen=True):
    """The exit code, and where there is more to say, what is wrong and what to do."""

    code: int
    reason: str = ""
    hint: str = ""


class Judge(Struct, frozen=True):
    """Says how a command ends.

    A miss counts more than what the command made of it. Where nothing was missed, a command that failed has the last
    word; one that did not is refused if it asked nothing of a replay (unless it `may_ask_nothing`), if a planned fault
    never struck, or, `is_strict`, if it left exchanges.
    """

    options: WireOptions
    command: Sequence[str]
    is_strict: bool = False
    may_ask_nothing: bool = False

    def verdict(self, code: int, tally: WireTally) -> Verdict:
        """The verdict on the command, which has ended with `code`."""
        if tally.misses:
            return Verdict(MISMATCH, "the recording is not of what was asked", self._record_again())
        if code != FINE:
            return Verdict(code)
        if self.options.replay is not None and not tally.calls and not self.may_ask_nothing:
            return Verdict(MISMATCH, "nothing was asked: the command did not reach the stand-in", _LED_HERE)
        if tally.faults.unstruck:
            return Verdict(FAILED)
        return Verdict(MISMATCH if self.is_strict and tally.unused else FINE)

    def _record_again(self) -> str:
        path = "PATH" if self.options.is_folder else shlex.quote(self.options.recording)
        again = f"understudy exec --record {path} --record-mode all -- {shlex.join(self.command)}"
        return f"record it again, or undo the change: {again}"


_LED_HERE = (
    "let its clients take their address from OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST"
    " or UNDERSTUDY_URL, as SDKs do that are given none; --allow-no-calls if there is nothing to ask"
)
