"""The parts of `offbook demo`: a workflow replayed, broken and changed, and two refund agents explored."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from itertools import chain, count
from pathlib import Path

import typer

from offbook import __version__
from offbook.cli.demo.refund_fixed import answer as answer_with_care
from offbook.cli.demo.refund_naive import answer as answer_naively
from offbook.cli.demo.refund_tools import TOOLS, GaveUpError
from offbook.cli.output.console import print_message
from offbook.cli.runners.workflow import WorkflowOptions, run_workflow
from offbook.clock import run
from offbook.errors import InputError, RecordingMismatchError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Exploration, Explorer
from offbook.explore.harness import Harness
from offbook.explore.options import ExploreOptions, select_variants
from offbook.faults import FaultPlan, PlannedFault, parse_fault
from offbook.pipeline import NO_FAULTS, Replay, open_pipeline
from offbook.report.exploration import exploration_reporter_of
from offbook.report.exploration.report_input import ReportOrigin, verdict_counts
from offbook.subjects.executors import executor_of
from offbook.subjects.function import FunctionSubject
from offbook.text import pluralize
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.engine.result import WorkflowResult
from offbook.workflow.file.load import load_workflow, parse_workflow
from offbook.workflow.file.schema import WorkflowDefinition

_DEMO_MARK = b'"reproduce":"offbook demo --fault'
"""The command that runs a case of the demo again: only reports of the demo have it."""


def demo_report_path() -> Path:
    """Return `report.html`, or `report-2.html` and so on if that is not a report of the demo.

    Raises:
        OSError: an existing file cannot be read.
    """
    names = chain(["report.html"], (f"report-{number}.html" for number in count(2)))
    return next(path for path in map(Path, names) if _is_free(path))


def _is_free(path: Path) -> bool:
    if path.is_symlink():
        return False
    return not path.exists() or (path.is_file() and _DEMO_MARK in path.read_bytes())


async def refund_naive(harness: Harness) -> str:
    """The agent that starts over."""
    return await answer_naively(harness.provider, harness.tools(TOOLS))


async def refund_fixed(harness: Harness) -> str:
    """The agent that keeps its progress."""
    return await answer_with_care(harness.gateway, harness.tools(TOOLS))


SHOWN_FAULTS = (
    "connection_reset,http_error 500,http_error 401,empty_response,partial_response,tool_error,tool_lost,tool_garbled"
)
"""The faults that the agents meet: as many as a screen has room for."""


class RefundExploration:
    """Explores both refund agents on their recording, with some faults, or only with `lines` if given."""

    def __init__(self, recording: Path, lines: Sequence[PlannedFault] = ()) -> None:
        self._recording, self._lines = recording, tuple(lines)

    def show(self) -> Exploration:
        """Print the findings of both, and return the exploration of the naive one."""
        naive, fixed = self._explore(refund_naive), self._explore(refund_fixed)
        exploration_reporter_of("console", reproduce=_reproduce).finish(naive)
        found, cases = pluralize(len(fixed.findings), "finding"), pluralize(len(fixed.results), "case")
        print_message("\nThe same agent, fixed", f": {found} in {cases}: {verdict_counts(fixed)}")
        return naive

    def _explore(self, agent: Callable[[Harness], Coroutine[None, None, str]]) -> Exploration:
        with closing(FunctionSubject(agent, self._recording, declared=[GaveUpError])) as subject:
            options = ExploreOptions(variants=select_variants(SHOWN_FAULTS))
            explorer = Explorer(subject, options, executor=executor_of(subject, "auto"))
            return explorer.explore([self._case(explorer)] if self._lines else None)

    def _case(self, explorer: Explorer) -> FaultCase:
        """Return the case of the given faults, with its cell of the heatmap if it has one."""
        known = (case for case in explorer.cases if case.lines == self._lines)
        return next(known, FaultCase("0000", self._lines, ()))


def write_demo_report(exploration: Exploration) -> None:
    """Write the page to the working directory, and print how to open it, or the error."""
    try:
        path = demo_report_path()
        origin = ReportOrigin(version=__version__, command="offbook demo")
        exploration_reporter_of(f"html={path}", reproduce=_reproduce, origin=origin).finish(exploration)
    except (InputError, OSError) as error:
        typer.echo(f"No report was written here: {error}")
        return
    typer.echo(f"{path} shows the naive agent run by run. Open it: xdg-open {path}, or on macOS: open {path}")


def _reproduce(case: FaultCase) -> str:
    """Return the command that runs a case again."""
    return shlex.join(["offbook", "demo", *(word for line in case.lines for word in ("--fault", str(line)))])


FAULTS = (
    "step=classify attempt=1: http_error 429 headers.Retry-After=30",
    "step=answer call=2 attempt=1: timeout 5000",
    "step=answer call=1 attempt=1: connection_reset",
)
RECORD_HINT = "undo the change, or record it again: offbook run support.yaml --record PATH --record-mode all"
PROMPT_CHANGE = ("Classify the message as question, complaint or request.", "Is the message a question or a complaint?")
NEXT_COMMANDS = """\
  offbook init my-agent --sdk yaml       a project of your own, with tests that pass at once
  offbook graph my-agent/flow.yaml       a drawing of its workflow
  offbook explore my-agent/flow.yaml --recording my-agent/recordings/flow.json
  offbook replay my-agent/flow.yaml --recording my-agent/recordings/flow.json --fault 'call=2 attempt=1: timeout'"""


class Demonstration:
    """Shows the support workflow and the refund agents in `folder`, from their recordings alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flow = folder / "support.yaml"
        self._refund = folder / "recordings" / "refund.json"
        self._mode = Replay(str(folder / "recordings" / "support.json"))

    def show(self) -> None:
        """Print all parts, with the same output every time, and write a report to the working directory."""
        definition = load_workflow(self._flow)
        print_message("1  Replay", ": a workflow runs from its recording, without network, key or cost")
        run_workflow(definition, WorkflowOptions(mode=self._mode), folder=self._folder)
        print_message("\n2  Break it", ": one fault at a time; waits pass in virtual time, so they take no time")
        self._show_recoveries(definition)
        print_message("\n3  Change a prompt", ": the replay refuses a request that was never recorded")
        self._show_refusal()
        print_message("\n4  Explore", ": faults at every call of an agent that starts over when something fails\n")
        write_demo_report(RefundExploration(self._refund).show())
        typer.echo(f"Both agents are short enough to read: {self._folder / 'refund_naive.py'} and refund_fixed.py")
        print_message("\nWhat to try next", "")
        typer.echo(NEXT_COMMANDS)

    def show_again(self, lines: Sequence[PlannedFault]) -> bool:
        """Explore the refund agents with these faults only, and return whether there is no finding."""
        return not RefundExploration(self._refund, lines).show().findings

    def _show_recoveries(self, definition: WorkflowDefinition) -> None:
        clean = self._replay(definition)
        for line in FAULTS:
            broken = self._replay(definition, FaultPlan([parse_fault(line)]))
            typer.echo(f"  --fault '{line}'\n    {_recovery(broken, clean)}")

    def _show_refusal(self) -> None:
        changed = parse_workflow(self._flow.read_text(encoding="utf-8").replace(*PROMPT_CHANGE), source=self._flow.name)
        try:
            self._replay(changed)
        except RecordingMismatchError as error:
            message = str(error.replace(hint=RECORD_HINT)).removeprefix(f"{self._mode.path}: ")
            typer.echo("  " + message.replace("\n", "\n  "))

    def _replay(self, definition: WorkflowDefinition, faults: FaultPlan = NO_FAULTS) -> WorkflowResult:
        """Return the result of a strict replay."""
        return run(self._run(definition, faults), virtual_time=True)

    async def _run(self, definition: WorkflowDefinition, faults: FaultPlan) -> WorkflowResult:
        async with open_pipeline(definition.config, self._mode, folder=self._folder, faults=faults) as pipeline:
            engine = WorkflowEngine(definition, pipeline.gateway, wrap_tools=pipeline.wrap_tools, folder=self._folder)
            return await engine.run()


def _recovery(broken: WorkflowResult, clean: WorkflowResult) -> str:
    """Return the attempts and the wait that a recovery took, and whether the result changed."""
    outcome = "the same result" if broken.state == clean.state else "another result"
    attempts = f"{pluralize(broken.attempts, 'attempt')} instead of {clean.attempts}"
    return f"{broken.status}: {attempts}, waited {broken.latency_s - clean.latency_s:.1f} s, {outcome}"
