"""What is shown of a run on a terminal: a line a step, which changes as the step goes on."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from types import TracebackType
from typing import Self

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from offbook.cli.progress import Progress, figures
from offbook.events import Event, StepEnded, StepStarted
from offbook.wording import printable
from offbook.workflow.schema import WorkflowDefinition

MARKS = {"waiting": "·", "kept": "✓", "done": "✓", "failed": "✗", "skipped": "–", "cut off": "–"}
ASCII_MARKS = {"waiting": ".", "kept": "+", "done": "+", "failed": "x", "skipped": "-", "cut off": "-"}
STYLES = {"done": "green", "failed": "bold red"}
SHOWN_TEXT_CHARS = 60
LINES_BESIDE = 2


class StepLine(Struct):
    """What is shown of a step: how far it is, what it took, and the last line of its streamed answer."""

    step: str
    type: str
    stage: str = "waiting"
    figures: str = ""
    text: str = ""


class LiveProgress(Progress):
    """Shows the steps of the workflow in the order of its file, and those inside them while they run or if they fail.

    Where there are more lines than the terminal has, only those that run or have failed are shown until the end.
    """

    def __init__(self, definition: WorkflowDefinition, *, console: Console | None = None) -> None:
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
                if line.stage == "running" and (line.step == step_id or line.step.endswith(f".{step_id}")):
                    line.text = (line.text + text).rsplit("\n", 1)[-1][-SHOWN_TEXT_CHARS:]

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._has_ended = True
            for line in self._all():
                if line.stage == "running":
                    line.stage, line.text = "cut off", ""
        self._live.stop()

    def _end(self, event: StepEnded) -> None:
        if event.step in self._lines or event.status == "failed":
            self._put(StepLine(event.step, event.type, self.stage(event), "  ".join(figures(event))))
        else:
            self._inner.pop(event.step, None)

    def _put(self, line: StepLine) -> None:
        lines = self._lines if line.step in self._lines else self._inner
        lines[line.step] = line

    def _all(self) -> Iterator[StepLine]:
        """The lines of the workflow's steps, each with those of the steps inside it behind it."""
        for step, line in self._lines.items():
            yield line
            yield from (inner for path, inner in self._inner.items() if path.startswith((f"{step}.", f"{step}[")))

    def __rich__(self) -> RenderableType:
        with self._lock:
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True)
            table.add_column(no_wrap=True, overflow="ellipsis")
            table.add_column(no_wrap=True)
            table.add_column(no_wrap=True, overflow="ellipsis")
            for line in self._shown():
                table.add_row(*self._cells(line))
            return table if self._has_ended else Group(table, Text(self.told(), style="dim"))

    def _shown(self) -> list[StepLine]:
        lines = list(self._all())
        if self._has_ended or len(lines) <= self._console.height - LINES_BESIDE:
            return lines
        return [line for line in lines if line.stage in ("running", "failed")]

    def _cells(self, line: StepLine) -> tuple[RenderableType, ...]:
        style = STYLES.get(line.stage, "" if line.stage == "running" else "dim")
        mark = self._spinner if line.stage == "running" else Text(self._marks[line.stage], style=style)
        name = Text(printable(line.step), style="dim" if style == "dim" else "")
        told = Text(line.figures) if line.figures else Text(printable(line.text), style="dim italic")
        return mark, name, Text(line.type, style="dim"), told
