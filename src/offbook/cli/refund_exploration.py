"""The last part of `offbook demo`: a refund agent explored, as it is often written and as it should be."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path

import typer

from offbook.cli.console import say
from offbook.cli.demo_report import report_path
from offbook.errors import InputError
from offbook.explore.case import Case
from offbook.explore.exploration import Exploration, Explorer, Wish
from offbook.explore.function_subject import FunctionSubject
from offbook.explore.menu import chosen
from offbook.explore.stage import Stage
from offbook.faults import PlannedFault
from offbook.report.exploration import exploration_reporter_of
from offbook.report.exploration.totals import tally_told
from offbook.templates.demo.refund_fixed import answer as answer_with_care
from offbook.templates.demo.refund_naive import answer as answer_naively
from offbook.templates.demo.refund_tools import TOOLS, GaveUpError
from offbook.wording import counted


async def refund_naive(stage: Stage) -> str:
    """The agent that starts over."""
    return await answer_naively(stage.provider, stage.tools(TOOLS))


async def refund_fixed(stage: Stage) -> str:
    """The agent that keeps what it has."""
    return await answer_with_care(stage.gateway, stage.tools(TOOLS))


class RefundExploration:
    """Explores both refund agents on their recording, with every fault or, where there are some, with `lines` alone."""

    def __init__(self, recording: Path, lines: Sequence[PlannedFault] = ()) -> None:
        self._recording, self._lines = recording, tuple(lines)

    def show(self) -> Exploration:
        """Print what became of both, and give back the exploration of the naive one."""
        naive, fixed = self._explored(refund_naive), self._explored(refund_fixed)
        exploration_reporter_of("console", reproduce=_reproduce).finish(naive)
        found, cases = counted(len(fixed.findings), "finding"), counted(len(fixed.explored), "case")
        say("\nThe same agent, mended", f": {found} in {cases}: {tally_told(fixed)}")
        return naive

    def _explored(self, agent: Callable[[Stage], Coroutine[None, None, str]]) -> Exploration:
        with closing(FunctionSubject(agent, self._recording, declared=[GaveUpError])) as subject:
            explorer = Explorer(subject, Wish(dishes=chosen("all")))
            return explorer.explore([self._case(explorer)] if self._lines else None)

    def _case(self, explorer: Explorer) -> Case:
        """The case of the given faults, with its place in the picture if it has one."""
        known = (case for case in explorer.cases if case.lines == self._lines)
        return next(known, Case("0000", self._lines, ()))


def leave_report(exploration: Exploration) -> None:
    """Write the page into the working directory and tell how to open it, or why it is not there."""
    try:
        path = report_path()
        exploration_reporter_of(f"html={path}", reproduce=_reproduce).finish(exploration)
    except (InputError, OSError) as error:
        typer.echo(f"No report was written here: {error}")
        return
    typer.echo(f"{path} shows the naive one run by run. Open it: xdg-open {path}, or on a Mac: open {path}")


def _reproduce(case: Case) -> str:
    """The command that runs a case again."""
    return shlex.join(["offbook", "demo", *(word for line in case.lines for word in ("--fault", str(line)))])
