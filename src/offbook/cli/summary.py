"""What is said of a run when it has ended."""

from __future__ import annotations

from typing import Any

import orjson
import typer

from offbook.cli.console import say
from offbook.cli.fault_tally import FaultTally
from offbook.cli.progress import Progress
from offbook.cli.run_options import RunOptions
from offbook.cli.unused import told_unused
from offbook.recording.cursor import Unused
from offbook.workflow.references import writes_of
from offbook.workflow.result import WorkflowResult
from offbook.workflow.schema import WorkflowDefinition


def print_summary(
    result: WorkflowResult, definition: WorkflowDefinition, progress: Progress, *, is_quiet: bool
) -> None:
    """Print what steps wrote to the state, what failed, and the totals; if quiet, what failed alone."""
    if not is_quiet:
        _print_written(result, definition)
    _print_failures(result)
    if not is_quiet:
        figures = [progress.told(), f"{result.latency_s:.2f} s"]
        say(f"{result.workflow} {result.status}: ", ", ".join(figures))


def print_unused(unused: list[Unused], options: RunOptions) -> None:
    """Say which exchanges a replay has left."""
    if not unused or (options.is_quiet and not options.is_strict):
        return
    typer.echo(told_unused(unused), err=options.is_json or options.is_strict)


def print_unstruck(faults: FaultTally) -> None:
    """Say which planned faults struck nothing."""
    for line in faults.unstruck:
        say("fault ", f"{line!r} never struck", style="bold red", is_err=True)


def _print_written(result: WorkflowResult, definition: WorkflowDefinition) -> None:
    """Print the values that steps wrote, in the order of the file."""
    paths = dict.fromkeys(written.text for step in definition.steps for written in writes_of(step))
    for path in paths:
        found, value = _found(result.state, path.split("."))
        if found:
            say(f"{path}: ", _text(value))


def _found(state: Any, keys: list[str]) -> tuple[bool, Any]:
    """Whether there is something at the path in the state, and what."""
    for key in keys:
        if not isinstance(state, dict) or key not in state:
            return False, None
        state = state[key]
    return True, state


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text.replace("\n", "\n  ")


def _print_failures(result: WorkflowResult) -> None:
    """Print why steps failed: of a loop or sub-workflow, only the steps inside that did."""
    failed = [path for path, step in result.steps.items() if step.status == "failed"]
    for path in failed:
        if not any(other.startswith((f"{path}.", f"{path}[")) for other in failed):
            step = result.steps[path]
            say(f"{path} failed: ", f"{step.error_type}: {step.error}", style="bold red", is_err=True)
