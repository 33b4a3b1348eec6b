"""What is said of the calls that came to a server when it has ended."""

from __future__ import annotations

from msgspec import Struct

from understudy.cli.console import say
from understudy.cli.unused import told_unused
from understudy.cli.wire_tally import WireTally
from understudy.cli.wire_verdict import Verdict
from understudy.wire.log import Miss
from understudy.wording import counted

SHOWN_MISSES = 10
SHOWN_FAULTS = 5
_WORDS = {
    "served": "served",
    "recorded": "recorded",
    "passed": "passed on unrecorded",
    "default": "answered with the default",
    "made": "made up",
    "struck": "struck by a fault",
    "refused": "refused",
    "missed": "missed",
}


class Summary(Struct, frozen=True):
    """Prints what became of calls: if quiet, only what is wrong. What is wrong goes to the error output.

    `recording` is what answered or was made. Leftovers are wrong if `is_strict`. Where it `is_closing_log`, misses were
    told as they came, and what is not wrong goes to the standard output.
    """

    tally: WireTally
    recording: str
    is_quiet: bool = False
    is_strict: bool = False
    is_closing_log: bool = False

    def print(self, verdict: Verdict | None = None) -> None:
        """Print all of it, and what is to be done where the verdict says so."""
        if not self.is_quiet:
            self._say(f"{self._told_calls()} ({self.recording})")
            if self.tally.faults.struck:
                self._say(_told_struck(self.tally.faults.struck))
        if not self.is_closing_log:
            self._print_misses()
        for line in self.tally.faults.unstruck:
            self._say(f"the fault {line!r} never struck", is_wrong=True)
        if self.tally.unused and (self.is_strict or not self.is_quiet):
            self._say(told_unused(self.tally.unused), is_wrong=self.is_strict)
        if verdict is not None and verdict.reason:
            self._say(f"{verdict.reason}\n  hint: {verdict.hint}", is_wrong=True)

    def _print_misses(self) -> None:
        misses = self.tally.misses
        for miss in misses[:SHOWN_MISSES]:
            self._say(_told_miss(miss), is_wrong=True)
        if len(misses) > SHOWN_MISSES:
            self._say(f"{len(misses) - SHOWN_MISSES:,} more calls have no answer", is_wrong=True)

    def _told_calls(self) -> str:
        counts = self.tally.counts
        told = [f"{counts[outcome]:,} {word}" for outcome, word in _WORDS.items() if counts.get(outcome)]
        return ", ".join([counted(len(self.tally.calls), "call"), *told])

    def _say(self, text: str, *, is_wrong: bool = False) -> None:
        say("understudy: ", text, style="bold red" if is_wrong else "bold", is_err=is_wrong or not self.is_closing_log)


def _told_struck(struck: list[str]) -> str:
    more = ", …" if len(struck) > SHOWN_FAULTS else ""
    return f"{counted(len(struck), 'fault')} struck: {', '.join(struck[:SHOWN_FAULTS])}{more}"


def _told_miss(miss: Miss) -> str:
    session = f" of session {miss.session!r}" if miss.session else ""
    return f"call {miss.call}{session} has no answer: {miss.text}"
