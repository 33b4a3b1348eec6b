"""The remarks on a program's tools at the end of a run: those not taken over, and different results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from msgspec import Struct

from offbook.messages import result_text
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.redact.rules import redactor_in_force
from offbook.text import shorten

MAX_OUTCOME_CHARS = 300
MAX_HOSTS = 10


class ToolNote(Struct, frozen=True, omit_defaults=True):
    """A process's note on a framework or a tool: taken over, or the reason why not. Or on a `host` that it reached.

    A tool that `is_steering` runs another agent, steers this one, or passes its calls on, and is not taken over.
    """

    framework: str = ""
    version: str = ""
    tool: str = ""
    function: str = ""
    problem: str = ""
    host: str = ""
    is_steering: bool = False

    def __str__(self) -> str:
        if self.framework:
            name = f"{self.framework} {self.version}".strip()
            return f"the tools of {name} cannot be taken over ({self.problem}): they run for real, and are not recorded"
        problem = f"{self.function}: {self.problem}" if self.function else self.problem
        return f"the tool {self.tool} cannot be taken over ({problem}): it runs for real, and is not recorded"


class ToolRemarks:
    """Collects the remarks on the tools of one run. `effects` are the tools that change something."""

    def __init__(self, *, effects: Set[str]) -> None:
        self._effects = effects
        self._notes: dict[ToolNote, None] = {}
        self._opaque: dict[str, str] = {}
        self._differing: list[str] = []

    def note(self, notes: Iterable[ToolNote]) -> None:
        """Add the note of a process."""
        self._notes |= dict.fromkeys(notes)

    def note_result(self, tool: str, did: ToolExchange) -> None:
        """Note a result that cannot be rebuilt."""
        if did.is_opaque:
            self._opaque[tool] = did.result_type or ""

    def note_difference(self, text: str) -> None:
        """Note a call whose outcome differs from the recorded one."""
        self._differing.append(text)

    def lines(self, *, is_live: bool) -> list[str]:
        """Return the remarks on a run: recorded if it `is_live`, else replayed."""
        opaque = [
            f"{tool} returned a {kind}, which cannot be rebuilt: in a replay, {tool} "
            f"{'is refused, as it has an effect' if tool in self._effects else 'runs for real'}"
            if is_live
            else f"{tool} ran for real: it returned a {kind}, which cannot be rebuilt from a recording"
            for tool, kind in self._opaque.items()
        ]
        problems = [str(note) for note in self._notes if note.problem]
        return [*problems, *opaque, *self._differing, *([] if is_live else self._network())]

    def _network(self) -> Iterator[str]:
        """Yield which other hosts a replayed program wanted to reach, if any."""
        hosts = [note.host for note in self._notes if note.host]
        if hosts:
            more = f" and {len(hosts) - MAX_HOSTS} more" if len(hosts) > MAX_HOSTS else ""
            listed = ", ".join(sorted(hosts)[:MAX_HOSTS]) + more
            yield f"the program also connects to {listed}, which is not replayed; -o block_network=true refuses it"


def difference_of(recorded: ToolExchange, did: ToolExchange) -> str:
    """Return the difference between a result and the recorded one, which has no secrets, or ""."""
    if did.is_opaque and did.result_type == recorded.result_type:  # their texts may differ by order, or an address
        return ""
    today, before = (_outcome_text(each) for each in (redactor_in_force().redact_tool(did), recorded))
    return "" if today == before else f"{today} today; recorded: it {before}"


def _outcome_text(exchange: ToolExchange) -> str:
    if exchange.error is not None:
        return shorten(f"raised {exchange.error.type}: {exchange.error.message}", MAX_OUTCOME_CHARS)
    return shorten(f"returned {result_text(exchange.answer)}", MAX_OUTCOME_CHARS)
