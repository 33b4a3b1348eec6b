"""What is shown of a run while it goes on."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import Self

import typer

from offbook.events import Event, FaultFired, StepEnded, StepStarted
from offbook.wording import counted, dollars, printable
from offbook.workflow.schema import STEP_TYPES, WorkflowDefinition

STAGES = ("kept", "done", "failed", "skipped")
TYPE_COLUMNS = max(map(len, STEP_TYPES))


class Progress:
    """Hears of a run's events and streamed texts, counts, and shows nothing."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        """The paths of steps that were done before."""
        self._started: set[str] = set()
        self._ended: Counter[str] = Counter()
        self._faults = self._tokens = 0
        self._cost_usd = 0.0

    def emit(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            self._started.add(event.step)
        elif isinstance(event, StepEnded):
            if event.status == "done" and event.step not in self._started:
                self.kept.add(event.step)
            self._ended[self.stage(event)] += 1
            self._tokens += event.prompt_tokens + event.completion_tokens
            self._cost_usd += event.cost_usd
        elif isinstance(event, FaultFired):
            self._faults += 1

    def stage(self, event: StepEnded) -> str:
        """What to call the way in which a step ended: `kept` if it was done before."""
        return "kept" if event.step in self.kept else event.status

    def on_text(self, step_id: str, text: str) -> None:
        """Hear a piece of a step's streamed answer."""

    def told(self) -> str:
        """How many steps have ended, and how; what struck them, and what they took."""
        ended = [f"{count:,} {status}" for status in STAGES if (count := self._ended[status])]
        struck = [f"{counted(self._faults, 'fault')} struck"] if self._faults else []
        told = ", ".join(ended) or "no step ended"
        return ", ".join([told, *struck, *taken(self._tokens, self._cost_usd)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None


class PlainProgress(Progress):
    """Prints a line for each step when it ends."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        super().__init__()
        self._columns = max(len(step.id) for step in definition.steps)

    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, StepEnded):
            step = f"{printable(event.step):<{self._columns}}"
            cells = [f"{self.stage(event):<7}", step, f"{event.type:<{TYPE_COLUMNS}}", *figures(event)]
            with suppress(BrokenPipeError):  # a reader that has gone ends the command when the run has ended
                typer.echo("  ".join(cells).rstrip())


def figures(event: StepEnded) -> list[str]:
    """What a step took, as far as it took anything, or why it failed."""
    error = [event.error] if event.error else []
    calls = [counted(event.calls, "call")] if event.calls > 1 else []
    attempts = [counted(event.attempts, "attempt")] if event.attempts > event.calls else []
    latency = [] if event.status == "skipped" else [f"{event.latency_s:.2f} s"]
    return [*error, *calls, *attempts, *taken(event.prompt_tokens + event.completion_tokens, event.cost_usd), *latency]


def taken(tokens: int, cost_usd: float) -> list[str]:
    """Tokens and cost, where there are any."""
    return [*([counted(tokens, "token")] if tokens else []), *([f"{dollars(cost_usd)} $"] if cost_usd else [])]
