"""A heatmap that fills while an exploration goes on."""

from __future__ import annotations

from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from offbook.explore.exploration import Exploration, Explored
from offbook.explore.run import Run
from offbook.report.exploration.drawing import Drawing
from offbook.report.exploration.heatmap import heatmap_of
from offbook.report.exploration.totals import tally_told
from offbook.wording import counted

BAR_COLUMNS = 30
LINES_BESIDE = 4


class LiveHeatmap:
    """On a terminal, shows the heatmap so far, how far the exploration is, and how many cases have which verdict.

    Where the terminal has too few lines for the heatmap, it shows the rest. Elsewhere than on a terminal it prints
    a line whenever a tenth more has ended.
    """

    def __init__(self, console: Console, drawing: Drawing) -> None:
        self._console, self._drawing = console, drawing
        self._begun, self._cases = Exploration("", Run()), 0
        self._told: list[Explored] = []
        self._printed = 0
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def begin(self, exploration: Exploration, cases: int) -> None:
        """Start to show, with nothing explored."""
        self._begun, self._cases, self._told = exploration, cases, []
        self._printed = 0
        if self._console.is_terminal:
            self._live.start(refresh=True)

    def told(self, explored: Explored) -> None:
        """A case has ended."""
        self._told.append(explored)
        further, tenth = len(self._told) - self._printed, max(self._cases, self._printed) // 10
        if not self._console.is_terminal and further >= max(1, tenth):
            self._printed = len(self._told)
            self._console.print(self._counts(self._so_far()), soft_wrap=True)

    def stop(self) -> None:
        """Show no more; what was shown is gone from the terminal."""
        self._live.stop()

    def __rich__(self) -> Group:
        so_far = self._so_far()
        lines = list(self._drawing.heatmap(heatmap_of(so_far)))
        has_room = len(lines) + LINES_BESIDE <= self._console.height
        ended = len(so_far.explored)
        bar = ProgressBar(total=max(1, self._cases, ended), completed=ended, width=BAR_COLUMNS)
        below = Table.grid(padding=(0, 1))
        below.add_row(bar, self._counts(so_far))
        return Group(*(lines if has_room else ()), Text(), below)

    def _so_far(self) -> Exploration:
        return replace(self._begun, explored=tuple(self._told))

    def _counts(self, so_far: Exploration) -> Text:
        ended, told = len(so_far.explored), tally_told(so_far)
        expected = f"{ended:,} of " if ended < self._cases else ""
        return Text(f"{expected}{counted(max(self._cases, ended), 'case')}{told and f': {told}'}", style="dim")
