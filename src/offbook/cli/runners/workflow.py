"""Runs a workflow for a command: options, event sinks, progress, summary and exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.cli import FAILED, FINE, INTERRUPTED, MISMATCH, TERMINATED
from offbook.cli.output.console import (
    FaultTally,
    describe_unused,
    echo,
    echo_json,
    ending_document,
    print_message,
    print_no_answer,
    tally_faults,
)
from offbook.cli.output.progress import LiveProgress, PlainProgress, RunProgress
from offbook.cli.run_program import InterruptNotice, Termination
from offbook.cli.runners.events import EventOptions
from offbook.clock import run
from offbook.errors import RecordingMismatchError
from offbook.events import RecordedCallCounter, Sinks
from offbook.faults import FaultPlan
from offbook.messages import JsonObject
from offbook.pipeline import NO_FAULTS, Mock, Mode, Record, Replay, open_pipeline, resolve_mode
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import keep_recording
from offbook.settings import configured_tools, find_project
from offbook.tools.dispatch import running_tool
from offbook.tools.effects import declared_tools
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.engine.result import NO_CHECKPOINT, RunStatus, StepCheckpoint, WorkflowResult
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.file.tree import endpoints_of, writes_of

if TYPE_CHECKING:
    from offbook.workflow.runs.calls import RunCalls


class WorkflowOptions(Struct, frozen=True, kw_only=True):
    """The options of a workflow run, and of its output.

    `is_strict` makes unused exchanges of a replay a mismatch. `events` are the destinations of events. `checkpoint` has
    the completed steps; `calls` stores model and tool calls, and answers those of an earlier run.
    """

    mode: Mode
    state: JsonObject = field(default_factory=dict)
    faults: FaultPlan = NO_FAULTS
    is_json: bool = False
    is_quiet: bool = False
    is_real_time: bool = False
    is_strict: bool = False
    events: EventOptions = EventOptions()
    checkpoint: StepCheckpoint = NO_CHECKPOINT
    calls: RunCalls | None = None


def print_summary(
    result: WorkflowResult, definition: WorkflowDefinition, progress: RunProgress, *, is_quiet: bool
) -> None:
    """Print the values that steps wrote, the failures and the totals; if quiet, only the failures."""
    if not is_quiet:
        _print_written(result, definition)
    _print_failures(result)
    if not is_quiet:
        figures = [progress.summary(), f"{result.latency_s:.2f} s"]
        print_message(f"{result.workflow} {result.status}: ", ", ".join(figures))


def print_unused(unused: list[UnusedEntry], options: WorkflowOptions) -> None:
    """Print the exchanges that a replay did not use."""
    if not unused or (options.is_quiet and not options.is_strict):
        return
    echo(describe_unused(unused), err=options.is_json or options.is_strict)


def print_unfired(faults: FaultTally) -> None:
    """Print the planned faults that did not fire."""
    for line in faults.describe_unfired():
        print_message("fault ", line, style="bold red", is_err=True)


def _print_written(result: WorkflowResult, definition: WorkflowDefinition) -> None:
    """Print the values that steps wrote, in file order."""
    paths = dict.fromkeys(written.text for step in definition.steps for written in writes_of(step))
    for path in paths:
        found, value = _value_at(result.state, path.split("."))
        if found:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            print_message(f"{path}: ", text.replace("\n", "\n  "))


def _value_at(state: Any, keys: list[str]) -> tuple[bool, Any]:
    """Return whether the state has a value at the path, and the value."""
    for key in keys:
        if not isinstance(state, dict) or key not in state:
            return False, None
        state = state[key]
    return True, state


def _print_failures(result: WorkflowResult) -> None:
    """Print why steps failed; for a loop or sub-workflow, only its failed steps."""
    failed = [path for path, step in result.steps.items() if step.status == "failed"]
    for path in failed:
        if not any(other.startswith((f"{path}.", f"{path}[")) for other in failed):
            step = result.steps[path]
            print_message(f"{path} failed: ", f"{step.error_type}: {step.error}", style="bold red", is_err=True)


class WorkflowOutcome(Struct, frozen=True):
    """The outcome of a run, a replay's unused exchanges, the fired faults, and the reason for an empty recording."""

    result: WorkflowResult
    unused: list[UnusedEntry]
    faults: FaultTally
    no_answer: str = ""


class WorkflowExit(Struct, frozen=True):
    """The exit code of a run, and the status of the workflow unless it was interrupted."""

    code: int
    status: RunStatus | None = None


def run_workflow(
    definition: WorkflowDefinition,
    options: WorkflowOptions,
    *,
    folder: Path,
    recorded: RecordedCallCounter | None = None,
) -> WorkflowExit:
    """Run a workflow, print its progress and its summary, and return its outcome. `recorded` counts its calls.

    Recorded answers take no time, unless `is_real_time`. A planned fault that never fired is a failure, and so is a
    recording run without a successful call.

    Raises:
        RecordingMismatchError: a strict replay has no answer.
        InputError: a key, a provider, a recording or a tool is missing, or the state has an unknown key.
    """
    progress = _progress(definition, options)
    termination, recorded = Termination(), recorded or RecordedCallCounter()
    try:
        with termination, progress, options.events.open() as sink:
            work = _run(definition, options, folder, progress, Sinks(progress, sink, recorded))
            done = run(work, virtual_time=is_mocked(definition, options.mode) and not options.is_real_time)
            done = replace(done, no_answer=recorded.describe_failure())
    except KeyboardInterrupt:
        return _end_interrupted(progress, options, is_terminated=termination.has_come)
    if options.is_json:
        echo_json(_document(done, options), is_own=True)
    else:
        print_summary(done.result, definition, progress, is_quiet=options.is_quiet)
    if isinstance(options.mode, Replay):
        print_unused(done.unused, options)
    print_unfired(done.faults)
    code = _exit_code(done, options)
    if code == FINE and done.no_answer:
        code = print_no_answer(done.no_answer)
    return WorkflowExit(code, done.result.status)


def replay_workflow(
    definition: WorkflowDefinition, options: WorkflowOptions, flow: str, *, settings: Sequence[str], state: str | None
) -> int:
    """Run a workflow only from the recording of its mode, like `run_workflow`, and return the exit code.

    A mismatch shows how to record it again, with these `settings` and this file of `state`.
    """
    assert isinstance(options.mode, Replay)
    recorded = RecordedCallCounter()
    try:
        return run_workflow(definition, options, folder=folder_of(flow), recorded=recorded).code
    except RecordingMismatchError as error:
        given = [word for setting in settings for word in ("--set", setting)]
        given += [] if state is None else ["--state", state]
        again = shlex.join(["offbook", "run", flow, *given, "--record", options.mode.path, "--record-mode", "all"])
        hint = f"record it again, or undo the change: {again}"
        if error.kind == "missing" and not recorded.has_replayed:
            hint = f"is {options.mode.path} the recording of this workflow? If it is, {hint}"
        raise error.replace(hint=hint) from None


def _document(done: WorkflowOutcome, options: WorkflowOptions) -> bytes:
    """Return the result as JSON, with the faults, and the unused exchanges of a replay."""
    document = msgspec.to_builtins(done.result) | {"faults": msgspec.to_builtins(done.faults)}
    unused = {"unused": msgspec.to_builtins(done.unused)} if isinstance(options.mode, Replay) else {}
    return msgspec.json.encode(document | unused)


def _end_interrupted(progress: RunProgress, options: WorkflowOptions, *, is_terminated: bool) -> WorkflowExit:
    """Print the progress of an interrupted run."""
    message = f"{'terminated' if is_terminated else 'interrupted'}: {progress.summary()}"
    code = TERMINATED if is_terminated else INTERRUPTED
    if options.is_json:
        echo_json(ending_document("SIGTERM" if is_terminated else "SIGINT", message, exit_code=code))
    echo(message, err=True)
    return WorkflowExit(code)


def is_mocked(definition: WorkflowDefinition, mode: Mode) -> bool:
    """Return whether a workflow calls no real model in this mode."""
    return isinstance(resolve_mode(mode, definition.config, endpoints_of(definition)), Mock | Replay)


def _exit_code(done: WorkflowOutcome, options: WorkflowOptions) -> int:
    if not done.result.succeeded or done.faults.unfired:
        return FAILED
    return MISMATCH if options.is_strict and done.unused else FINE


def _progress(definition: WorkflowDefinition, options: WorkflowOptions) -> RunProgress:
    """Return live progress on a terminal, plain progress elsewhere, and none for --json and --quiet."""
    if options.is_json or options.is_quiet:
        return RunProgress()
    return LiveProgress(definition) if sys.stdout.isatty() else PlainProgress(definition)


def folder_of(flow: str) -> Path:
    """Return the folder that paths in a workflow file are relative to."""
    return Path(flow).parent


async def _run(
    definition: WorkflowDefinition, options: WorkflowOptions, folder: Path, progress: RunProgress, sink: Sinks
) -> WorkflowOutcome:
    pipeline = open_pipeline(
        definition.config,
        options.mode,
        folder=folder,
        models=endpoints_of(definition),
        faults=options.faults,
        sink=sink,
        calls=options.calls,
    )
    async with pipeline as opened:
        is_replay = isinstance(options.mode, Replay | Mock) and options.mode.path is not None
        if is_replay and definition.tools and not opened.replays_tools and not options.is_quiet:
            names = ", ".join(definition.tools)
            print_message("note: ", f"the recording has no tool calls, so tools run for real: {names}", is_err=True)
        engine = WorkflowEngine(
            definition,
            opened.gateway,
            wrap_tools=opened.wrap_tools,
            sink=sink,
            checkpoint=options.checkpoint,
            on_text=progress.on_text,
            folder=folder,
            declarations=declared_tools(configured_tools(find_project())),
        )
        waiting = InterruptNotice(running_tool, progress.note)
        with _keep_recording_of_failure(options.mode) as run_ended, waiting:
            result = await engine.run(options.state)
            run_ended(result)
        return WorkflowOutcome(
            result, opened.unused(), tally_faults(opened.log, completed_before=progress.completed_before)
        )


@contextmanager
def _keep_recording_of_failure(mode: Mode) -> Iterator[Callable[[WorkflowResult], None]]:
    """Keep a recording unchanged unless the run is reported as successful before the block ends."""
    store = open_store(mode.path) if isinstance(mode, Record) else None
    succeeded: list[bool] = []
    try:
        yield lambda result: succeeded.append(result.succeeded)
    finally:
        if store is not None and not any(succeeded):
            keep_recording(store)
