"""Running a workflow for a command: with progress, a summary and an exit code."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import typer
from msgspec import Struct

from offbook.cli.error_document import told_ending
from offbook.cli.exit_codes import FAILED, FINE, INTERRUPTED, MISMATCH, TERMINATED
from offbook.cli.fault_tally import FaultTally, tally
from offbook.cli.live_progress import LiveProgress
from offbook.cli.progress import PlainProgress, Progress
from offbook.cli.run_options import RunOptions
from offbook.cli.summary import print_summary, print_unstruck, print_unused
from offbook.cli.termination import Termination
from offbook.clock import SYSTEM_CLOCK, run
from offbook.events import NULL_SINK, Sink, Sinks
from offbook.observe.json_lines import JsonLinesSink
from offbook.recording.cursor import Unused
from offbook.session import Mock, Mode, Replay, open_session, settled_mode
from offbook.workflow.endpoints import endpoints_of
from offbook.workflow.engine import WorkflowEngine
from offbook.workflow.result import RunStatus, WorkflowResult
from offbook.workflow.schema import WorkflowDefinition


class Run(Struct, frozen=True):
    """What became of a run, what a replay left unused, and which faults struck."""

    result: WorkflowResult
    unused: list[Unused]
    faults: FaultTally


class Ending(Struct, frozen=True):
    """How a run ended: the exit code, and what became of the workflow, if it came to its end."""

    code: int
    status: RunStatus | None = None


def run_workflow(definition: WorkflowDefinition, options: RunOptions, *, folder: Path) -> Ending:
    """Run a workflow that was loaded, show what happens, and tell how it ended.

    Answers from a recording take no time, unless `is_real_time`. A planned fault that never struck is a failure.

    Raises:
        RecordingMismatchError: a strict replay has no answer.
        InputError: a key, a provider, a recording or a tool is missing, or the state has an unknown key.
    """
    progress = _progress(definition, options)
    termination = Termination()
    try:
        with termination, progress, _trace(options) as trace:
            work = _run(definition, options, folder, progress, Sinks(progress, trace))
            done = run(work, virtual_time=is_mocked(definition, options.mode) and not options.is_real_time)
    except KeyboardInterrupt:
        return _cut_off(progress, options, is_terminated=termination.has_come)
    if options.is_json:
        typer.echo(_document(done, options))
    else:
        print_summary(done.result, definition, progress, is_quiet=options.is_quiet)
    if isinstance(options.mode, Replay):
        print_unused(done.unused, options)
    print_unstruck(done.faults)
    return Ending(_exit_code(done, options), done.result.status)


def _document(done: Run, options: RunOptions) -> bytes:
    """The result as JSON, with the faults, and with what a replay left unused."""
    told = msgspec.to_builtins(done.result) | {"faults": msgspec.to_builtins(done.faults)}
    unused = {"unused": msgspec.to_builtins(done.unused)} if isinstance(options.mode, Replay) else {}
    return msgspec.json.encode(told | unused)


def _cut_off(progress: Progress, options: RunOptions, *, is_terminated: bool) -> Ending:
    """Tell how far a run came that was cut off."""
    told = f"{'terminated' if is_terminated else 'interrupted'}: {progress.told()}"
    code = TERMINATED if is_terminated else INTERRUPTED
    if options.is_json:
        typer.echo(told_ending("SIGTERM" if is_terminated else "SIGINT", told, exit_code=code))
    typer.echo(told, err=True)
    return Ending(code)


def is_mocked(definition: WorkflowDefinition, mode: Mode) -> bool:
    """Whether a workflow asks no model at all in this mode."""
    return isinstance(settled_mode(mode, definition.config, endpoints_of(definition)), Mock | Replay)


def _exit_code(done: Run, options: RunOptions) -> int:
    if not done.result.succeeded or done.faults.unstruck:
        return FAILED
    return MISMATCH if options.is_strict and done.unused else FINE


def _progress(definition: WorkflowDefinition, options: RunOptions) -> Progress:
    """Lines that change on a terminal, lines that stay elsewhere, nothing where nothing is wanted."""
    if options.is_json or options.is_quiet:
        return Progress()
    return LiveProgress(definition) if sys.stdout.isatty() else PlainProgress(definition)


def _trace(options: RunOptions) -> AbstractContextManager[Sink]:
    return nullcontext(NULL_SINK) if options.trace is None else JsonLinesSink(options.trace, clock=SYSTEM_CLOCK)


def folder_of(flow: str) -> Path:
    """What paths in a workflow file are relative to."""
    return Path(flow).parent


async def _run(
    definition: WorkflowDefinition, options: RunOptions, folder: Path, progress: Progress, sink: Sinks
) -> Run:
    session = open_session(
        definition.config,
        options.mode,
        folder=folder,
        models=endpoints_of(definition),
        faults=options.faults,
        sink=sink,
        calls=options.calls,
    )
    async with session as opened:
        engine = WorkflowEngine(
            definition,
            opened.gateway,
            wrap_tools=opened.wrap_tools,
            sink=sink,
            checkpoint=options.checkpoint,
            on_text=progress.on_text,
            folder=folder,
        )
        result = await engine.run(options.state)
        return Run(result, opened.unused(), tally(opened.struck, kept=progress.kept))
