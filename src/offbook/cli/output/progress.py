"""Progress of a workflow run: a line for each step, plain, or live on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer
from msgspec import Struct

from offbook.cli.output.console import shown
from offbook.events import Event, FaultFired, StepEnded, StepStarted
from offbook.text import format_usd, pluralize, printable
from offbook.workflow.file.schema import STEP_TYPES, WorkflowDefinition

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STEP_ENDINGS = ("kept", "done", "failed", "skipped")
TYPE_COLUMNS = max(map(len, STEP_TYPES))


class RunProgress:
    """Counts the events of a run, and shows nothing."""

    def __init__(self) -> None:
        self.completed_before: set[str] = set()
        """The paths of steps that an earlier run had completed."""
        self._started: set[str] = set()
        self._ended: Counter[str] = Counter()
        self._faults = self._tokens = 0
        self._cost_usd = 0.0

    def emit(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            self._started.add(event.step)
        elif isinstance(event, StepEnded):
            if event.status == "done" and event.step not in self._started:
                self.completed_before.add(event.step)
            self._ended[self.status(event)] += 1
            self._tokens += event.prompt_tokens + event.completion_tokens
            self._cost_usd += event.cost_usd
        elif isinstance(event, FaultFired):
            self._faults += 1

    def status(self, event: StepEnded) -> str:
        """Return the status of an ended step: `kept` if an earlier run completed it."""
        return "kept" if event.step in self.completed_before else event.status

    def on_text(self, step_id: str, text: str) -> None:
        """Handle a piece of a streamed answer."""

    def note(self, text: str) -> None:
        """Print a line on stderr. Thread-safe."""
        typer.echo(shown(text), err=True)

    def summary(self) -> str:
        """Return the numbers of steps by status, of fired faults, and the tokens and cost."""
        ended = [f"{count:,} {status}" for status in STEP_ENDINGS if (count := self._ended[status])]
        fired = [f"{pluralize(self._faults, 'fault')} fired"] if self._faults else []
        steps = ", ".join(ended) or "no step ended"
        return ", ".join([steps, *fired, *usage_figures(self._tokens, self._cost_usd)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None


class PlainProgress(RunProgress):
    """Prints a line for each step when it ends."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        super().__init__()
        self._columns = max(len(step.id) for step in definition.steps)

    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, StepEnded):
            step = f"{printable(event.step):<{self._columns}}"
            cells = [f"{self.status(event):<7}", step, f"{event.type:<{TYPE_COLUMNS}}", *step_figures(event)]
            with suppress(BrokenPipeError):  # a closed pipe ends the command after the run
                typer.echo(shown("  ".join(cells).rstrip()))


def step_figures(event: StepEnded) -> list[str]:
    """Return the error, calls, attempts, tokens, cost and latency of a step, without zeros."""
    error = [event.error] if event.error else []
    calls = [pluralize(event.calls, "call")] if event.calls > 1 else []
    attempts = [pluralize(event.attempts, "attempt")] if event.attempts > event.calls else []
    latency = [] if event.status == "skipped" else [f"{event.latency_s:.2f} s"]
    return [
        *error,
        *calls,
        *attempts,
        *usage_figures(event.prompt_tokens + event.completion_tokens, event.cost_usd),
        *latency,
    ]


def usage_figures(tokens: int, cost_usd: float) -> list[str]:
    """Return tokens and cost, without zeros."""
    return [*([pluralize(tokens, "token")] if tokens else []), *([f"{format_usd(cost_usd)} $"] if cost_usd else [])]


MARKS = {"waiting": "·", "kept": "✓", "done": "✓", "failed": "✗", "skipped": "–", "cut off": "–"}
ASCII_MARKS = {"waiting": ".", "kept": "+", "done": "+", "failed": "x", "skipped": "-", "cut off": "-"}
STYLES = {"done": "green", "failed": "bold red"}
SHOWN_TEXT_CHARS = 60
LINES_BESIDE = 2


class StepLine(Struct):
    """The line of a step: its status, its figures, and the last line of its streamed answer."""

    step: str
    type: str
    status: str = "waiting"
    figures: str = ""
    text: str = ""


class LiveProgress(RunProgress):
    """Shows a line for each step, in the order of the file, and for inner steps that are running or failed.

    If the terminal is too small, it shows only running and failed steps until the run ends.
    """

    def __init__(self, definition: WorkflowDefinition, *, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__()
        self._lock, self._has_ended = Lock(), False
        self._lines = {step.id: StepLine(step.id, step.type) for step in definition.steps}
        self._inner: dict[str, StepLine] = {}
        self._console = console or Console(highlight=False)
        is_wide = self._console.encoding.startswith("utf")
        self._marks, self._spinner = (MARKS, Spinner("dots")) if is_wide else (ASCII_MARKS, Spinner("line"))
        self._live = Live(self, console=self._console, refresh_per_second=10)

    def emit(self, event: Event) -> None:
        with self._lock:
            super().emit(event)
            if isinstance(event, StepStarted):
                self._put(StepLine(event.step, event.type, "running"))
            elif isinstance(event, StepEnded):
                self._end(event)

    def on_text(self, step_id: str, text: str) -> None:
        with self._lock:
            for line in self._all():
                if line.status == "running" and (line.step == step_id or line.step.endswith(f".{step_id}")):
                    line.text = (line.text + text).rsplit("\n", 1)[-1][-SHOWN_TEXT_CHARS:]

    def note(self, text: str) -> None:
        """Print a line above the steps."""
        self._console.print(printable(text), markup=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._has_ended = True
            for line in self._all():
                if line.status == "running":
                    line.status, line.text = "cut off", ""
        self._live.stop()

    def _end(self, event: StepEnded) -> None:
        if event.step in self._lines or event.status == "failed":
            self._put(StepLine(event.step, event.type, self.status(event), "  ".join(step_figures(event))))
        else:
            self._inner.pop(event.step, None)

    def _put(self, line: StepLine) -> None:
        lines = self._lines if line.step in self._lines else self._inner
        lines[line.step] = line

    def _all(self) -> Iterator[StepLine]:
        """Yield the line of each step, followed by its inner steps."""
        for step, line in self._lines.items():
            yield line
            yield from (inner for path, inner in self._inner.items() if path.startswith((f"{step}.", f"{step}[")))

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True)
            table.add_column(no_wrap=True, overflow="ellipsis")
            table.add_column(no_wrap=True)
            table.add_column(no_wrap=True, overflow="ellipsis")
            for line in self._shown():
                table.add_row(*self._cells(line))
            return table if self._has_ended else Group(table, Text(self.summary(), style="dim"))

    def _shown(self) -> list[StepLine]:
        lines = list(self._all())
        if self._has_ended or len(lines) <= self._console.height - LINES_BESIDE:
            return lines
        return [line for line in lines if line.status in ("running", "failed")]

    def _cells(self, line: StepLine) -> tuple[RenderableType, ...]:
        from rich.text import Text

        style = STYLES.get(line.status, "" if line.status == "running" else "dim")
        mark = self._spinner if line.status == "running" else Text(self._marks[line.status], style=style)
        name = Text(printable(line.step), style="dim" if style == "dim" else "")
        details = Text(line.figures) if line.figures else Text(printable(line.text), style="dim italic")
        return mark, name, Text(line.type, style="dim"), details
