"""What is said of the calls that came to a server when it has ended."""

from __future__ import annotations

from msgspec import Struct

from offbook.cli.console import say
from offbook.cli.wire_tally import WireTally
from offbook.cli.wire_unused import told_unused
from offbook.cli.wire_verdict import Verdict
from offbook.faults import parse_fault
from offbook.wire.call_count import STEP_HEADER
from offbook.wire.log import Miss, Outcome
from offbook.wording import counted

SHOWN_MISSES = 10
SHOWN_FAULTS = 5
SHOWN_FAILURES = 3
_WORDS: dict[Outcome, str] = {
    "served": "served",
    "passed": "passed on unrecorded",
    "default": "answered with the default",
    "made": "made up",
    "struck": "struck by a fault",
    "refused": "refused",
    "missed": "missed",
    "recorded": "recorded",
}


class Summary(Struct, frozen=True):
    """Prints what became of calls: if quiet, only what is wrong. What is wrong goes to the error output.

    `recording` is what answered or was made; it may be a folder. Leftovers are wrong if `is_strict`. Where it
    `is_closing_log`, misses were told as they came, and what is not wrong goes to the standard output.
    """

    tally: WireTally
    recording: str
    is_folder: bool = False
    is_quiet: bool = False
    is_strict: bool = False
    is_closing_log: bool = False

    def print(self, verdict: Verdict | None = None) -> None:
        """Print all of it, and what is to be done where the verdict says so."""
        struck = self.tally.faults.struck
        if self.tally.failed or not self.is_quiet:
            self._say(f"{self._told_calls()} ({self.recording})", is_wrong=bool(self.tally.failed))
        if struck and not self.is_quiet:
            self._say(_told_struck(struck))
        if not self.is_closing_log:
            self._print_misses()
        for line in self.tally.faults.unstruck:
            self._say(_told_unstruck(line), is_wrong=True)
        if self.tally.unused and (self.is_strict or not self.is_quiet):
            told = told_unused(
                self.tally.unused, self.recording, is_folder=self.is_folder, has_struck=bool(self.tally.faults.struck)
            )
            self._say(told, is_wrong=self.is_strict)
        if verdict is not None and verdict.reason:
            self._say(f"{verdict.reason}\n  hint: {verdict.hint}", is_wrong=True)

    def _print_misses(self) -> None:
        misses = self.tally.misses
        for miss in misses[:SHOWN_MISSES]:
            self._say(_told_miss(miss), is_wrong=True)
        if len(misses) > SHOWN_MISSES:
            self._say(f"{len(misses) - SHOWN_MISSES:,} more calls have no answer", is_wrong=True)

    def _told_calls(self) -> str:
        totals = self.tally.totals
        calls = counted(totals.calls, "call")
        calls += "" if totals.calls == totals.tries else f" in {counted(totals.tries, 'try', 'tries')}"
        told = [f"{totals.outcomes[outcome]:,} {word}" for outcome, word in _WORDS.items() if totals.outcomes[outcome]]
        return ", ".join([calls, *told, *self._told_failures()])

    def _told_failures(self) -> list[str]:
        if not self.tally.failed:
            return []
        reasons = list(self.tally.totals.failures)
        more = "; …" if len(reasons) > SHOWN_FAILURES else ""
        return [f"of which {self.tally.failed:,} failed: {'; '.join(reasons[:SHOWN_FAILURES])}{more}"]

    def _say(self, text: str, *, is_wrong: bool = False) -> None:
        say("offbook: ", text, style="bold red" if is_wrong else "bold", is_err=is_wrong or not self.is_closing_log)


def _told_struck(struck: list[str]) -> str:
    more = ", …" if len(struck) > SHOWN_FAULTS else ""
    return f"{counted(len(struck), 'fault')} struck: {', '.join(struck[:SHOWN_FAULTS])}{more}"


def _told_unstruck(line: str) -> str:
    told = f"the fault {line!r} never struck"
    if parse_fault(line).at.step_id is None:
        return told
    return (
        f"{told}\n  hint: over the wire, a call names its step in the header {STEP_HEADER}; leave step out for others"
    )


def _told_miss(miss: Miss) -> str:
    call = f"call {miss.call}" if miss.call else f"{miss.method} {miss.place}"
    attempt = f", attempt {miss.attempt}," if miss.attempt > 1 else ""
    session = f" of session {miss.session!r}" if miss.session else ""
    return f"{call}{session}{attempt} has no answer: {miss.text}"
