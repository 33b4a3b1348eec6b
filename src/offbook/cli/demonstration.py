"""What `offbook demo` shows: a workflow replayed, broken on purpose, and changed; and an agent explored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from offbook.cli.console import say
from offbook.cli.refund_exploration import RefundExploration, leave_report
from offbook.cli.run_options import RunOptions
from offbook.cli.workflow_run import run_workflow
from offbook.clock import run
from offbook.errors import RecordingMismatchError
from offbook.faults import FaultPlan, PlannedFault, parse_fault
from offbook.session import NO_FAULTS, Replay, open_session
from offbook.wording import counted
from offbook.workflow.engine import WorkflowEngine
from offbook.workflow.load import load_workflow, parse_workflow
from offbook.workflow.result import WorkflowResult
from offbook.workflow.schema import WorkflowDefinition

FAULTS = (
    "step=classify attempt=1: http_error 429 headers.Retry-After=30",
    "step=answer call=2 attempt=1: timeout 5000",
    "step=answer call=1 attempt=1: connection_reset",
)
CHANGE = ("Classify the message as question, complaint or request.", "Is the message a question or a complaint?")
NEXT = """\
  offbook init my-agent                  a project of your own, with tests that pass at once
  offbook graph my-agent/flow.yaml       a picture of its workflow
  offbook explore my-agent/flow.yaml --recording my-agent/recordings/flow.json
  offbook replay my-agent/flow.yaml --recording my-agent/recordings/flow.json --fault 'call=2 attempt=1: timeout'"""


class Demonstration:
    """Shows the support workflow and the refund agents in `folder`. Nothing is asked but their recordings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flow = folder / "support.yaml"
        self._refund = folder / "recordings" / "refund.json"
        self._mode = Replay(str(folder / "recordings" / "support.json"))

    def show(self) -> None:
        """Print all parts, the same every time, and leave a report in the working directory."""
        definition = load_workflow(self._flow)
        say("1  Replay", ": a workflow runs on its recording, without network, key or cost")
        run_workflow(definition, RunOptions(mode=self._mode), folder=self._folder)
        say("\n2  Break it", ": one fault at a time; the waits pass in virtual time, so they take no time")
        self._show_recoveries(definition)
        say("\n3  Change a prompt", ": the replay refuses to answer what was never asked")
        self._show_refusal()
        say("\n4  Explore", ": every fault at every call of an agent that starts over when something fails\n")
        leave_report(RefundExploration(self._refund).show())
        typer.echo(f"Both agents are short enough to read: {self._folder / 'refund_naive.py'} and refund_fixed.py")
        say("\nWhat to try next", "")
        typer.echo(NEXT)

    def show_again(self, lines: Sequence[PlannedFault]) -> bool:
        """Print what becomes of the last part's agents with these faults alone; gives back whether all is well."""
        return not RefundExploration(self._refund, lines).show().findings

    def _show_recoveries(self, definition: WorkflowDefinition) -> None:
        clean = self._replayed(definition)
        for line in FAULTS:
            broken = self._replayed(definition, FaultPlan([parse_fault(line)]))
            typer.echo(f"  --fault '{line}'\n    {_recovery(broken, clean)}")

    def _show_refusal(self) -> None:
        changed = parse_workflow(self._flow.read_text(encoding="utf-8").replace(*CHANGE), source=self._flow.name)
        try:
            self._replayed(changed)
        except RecordingMismatchError as error:
            told = str(error).removeprefix(f"{self._mode.path}: ")
            typer.echo("  " + told.replace("\n", "\n  "))

    def _replayed(self, definition: WorkflowDefinition, faults: FaultPlan = NO_FAULTS) -> WorkflowResult:
        """What becomes of a strict replay."""
        return run(self._replay(definition, faults), virtual_time=True)

    async def _replay(self, definition: WorkflowDefinition, faults: FaultPlan) -> WorkflowResult:
        async with open_session(definition.config, self._mode, folder=self._folder, faults=faults) as session:
            engine = WorkflowEngine(definition, session.gateway, wrap_tools=session.wrap_tools, folder=self._folder)
            return await engine.run()


def _recovery(broken: WorkflowResult, clean: WorkflowResult) -> str:
    """What it took to get over a fault, and whether that changed the result."""
    outcome = "the same result" if broken.state == clean.state else "another result"
    attempts = f"{counted(broken.attempts, 'attempt')} instead of {clean.attempts}"
    return f"{broken.status}: {attempts}, waited {broken.latency_s - clean.latency_s:.1f} s, {outcome}"
