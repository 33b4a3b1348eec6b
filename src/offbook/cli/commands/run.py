"""offbook run, runs and resume: runs a workflow, live, recorded or mocked; lists, prunes and resumes stored runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import (
    RUNS_DIR,
    AsJson,
    Faults,
    Flow,
    Metrics,
    Otel,
    Plan,
    Quiet,
    RealTime,
    RecordMode,
    RunsDir,
    Settings,
    Spans,
    StateFile,
    Trace,
)
from offbook.decoding import convert
from offbook.text import format_usd, pluralize
from offbook.vendors import MockableProviderName

if TYPE_CHECKING:
    from offbook.pipeline import Mode
    from offbook.workflow.file.schema import WorkflowDefinition
    from offbook.workflow.runs.store import RunStore, RunSummary


def run(
    flow: Flow,
    settings: Settings = [],  # noqa: B006
    state: StateFile = None,
    record: Annotated[str | None, typer.Option(help="Record every model and tool call in this file.")] = None,
    record_mode: Annotated[
        RecordMode | None,
        typer.Option(
            help="Add every call, record only if empty, add missing calls, replace repeated calls, or replace all."
        ),
    ] = None,
    mock_responses: Annotated[
        str | None, typer.Option(help="Answer from this recording, and warn about missing answers.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", "--recording", help="Answer only from this recording, like offbook replay."),
    ] = None,
    provider: Annotated[
        MockableProviderName | None, typer.Option(help="The provider, instead of the config's.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, instead of the config's.")] = None,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    trace: Trace = None,
    metrics: Metrics = None,
    spans: Spans = None,
    otel: Otel = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    real_time: RealTime = False,
    runs_dir: RunsDir = RUNS_DIR,
    no_checkpoint: Annotated[
        bool, typer.Option("--no-checkpoint", help="Do not store the run; it cannot be resumed.")
    ] = False,
) -> None:
    """Run a workflow: live, recorded or mocked.

    Exits with 1 if a step failed or no recorded call got an answer, with 2 on bad input, with 130 if interrupted. API
    keys come from OPENAI_API_KEY, ANTHROPIC_API_KEY, and GOOGLE_API_KEY or GEMINI_API_KEY.

    [bold]Examples[/bold]

      offbook run flow.yaml --set user_input='Where is my order?'

      offbook run flow.yaml --record recordings/run.json

      offbook run flow.yaml --mock-responses recordings/run.json --fault 'step=answer attempt=1: timeout'
    """
    from offbook.cli.parse import check_models, parse_faults, parse_state
    from offbook.cli.runners.events import EventOptions
    from offbook.cli.runners.resume import resume_options, start_resumable
    from offbook.cli.runners.workflow import (
        WorkflowOptions,
        folder_of,
        is_mocked,
        replay_workflow,
        run_workflow,
    )
    from offbook.pipeline import Replay
    from offbook.workflow.file.load import load_workflow

    mode = _mode(record, record_mode, mock_responses, replay)
    definition = override_config(load_workflow(flow), provider, model)
    check_models(definition, flow)
    options = WorkflowOptions(
        mode=mode,
        state=parse_state(definition.state, settings=settings, file=state),
        faults=parse_faults(fault, file=plan, definition=definition),
        is_json=as_json,
        is_quiet=quiet,
        is_real_time=real_time,
        events=EventOptions(trace=trace, metrics=metrics, spans=spans, otel=otel),
    )
    if isinstance(mode, Replay):
        raise typer.Exit(replay_workflow(definition, options, flow, settings=settings, state=state))
    if no_checkpoint or is_mocked(definition, mode):
        raise typer.Exit(run_workflow(definition, options, folder=folder_of(flow)).code)
    stored = resume_options(mode, options.faults, provider=provider, model=model)
    raise typer.Exit(start_resumable(definition, flow, options, stored, runs_dir))


def _mode(record: str | None, record_mode: RecordMode | None, mock_responses: str | None, replay: str | None) -> Mode:
    from offbook.cli.options import note_recorded
    from offbook.errors import InputError
    from offbook.pipeline import Live, Mock, Record, Replay

    given = {"--record": record, "--mock-responses": mock_responses, "--replay": replay}
    chosen = [option for option, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} exclude each other", hint="use only one of them")
    if record is None and record_mode is not None:
        raise InputError("--record-mode requires --record", hint="add --record PATH")
    if replay is not None:
        return Replay(replay)
    if mock_responses is not None:
        return Mock(mock_responses)
    if record is None:
        return Live()
    note_recorded(record, record_mode)
    return Record(record, record_mode or "append")


def override_config(
    definition: WorkflowDefinition, provider: MockableProviderName | None, model: str | None
) -> WorkflowDefinition:
    """Return the workflow with another provider and model in its config. Those of steps do not change."""
    from msgspec.structs import replace

    from offbook.errors import InputError
    from offbook.workflow.file.schema import ConfigDefinition

    if model == "":
        raise InputError("expected the name of a model", source="--model")
    config = ConfigDefinition(provider=provider, model=model)
    return replace(definition, config=config.inside(definition.config))


COLUMNS = ("run", "workflow", "status", "steps", "cost $", "started (UTC)", "resume with")


def runs(
    prune: Annotated[str | None, typer.Option(help="Remove older runs: 30d, 12h or 2w.")] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Remove all but the latest N runs.")] = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """List the stored runs, or prune them.

    The latest run is last. Runs are removed only with --prune or --keep, and never while they are in progress.

    [bold]Examples[/bold]

      offbook runs

      offbook runs --prune 30d

      offbook runs --keep 20 --json
    """
    import msgspec

    from offbook.cli.output.console import echo, echo_json
    from offbook.workflow.runs.store import RunStore

    store = RunStore(runs_dir)
    removed = _prune(store, prune, keep)
    summaries = store.summaries()
    if as_json:
        echo_json(msgspec.json.encode({"runs": summaries, "removed": removed}))
        return
    if removed:
        echo(f"removed {pluralize(len(removed), 'run')}")
    if summaries:
        _print(summaries, runs_dir)
    else:
        echo(f"no runs in {runs_dir}")


def _prune(store: RunStore, age: str | None, keep: int | None) -> list[str]:
    from offbook.errors import InputError
    from offbook.recording.edit import parse_age

    try:
        older_than = None if age is None else parse_age(age)
    except InputError as error:
        raise InputError(error.reason, source="--prune", hint=error.hint) from None
    return store.prune(older_than=older_than, keep=keep)


def _print(summaries: list[RunSummary], runs_dir: str) -> None:
    from offbook.cli.output.console import print_table

    print_table(COLUMNS, [_cells(summary, runs_dir) for summary in summaries], numbers=(3, 4))


def _cells(summary: RunSummary, runs_dir: str) -> tuple[str, ...]:
    from offbook.cli.runners.resume import resume_command

    if summary.problem:
        return summary.id, "", summary.status, "", "", "", summary.problem.splitlines()[0]
    return (
        summary.id,
        summary.workflow,
        summary.status,
        f"{summary.settled_steps}/{summary.steps}",
        format_usd(summary.cost_usd),
        summary.started_at[:19].replace("T", " "),
        resume_command(summary.id, runs_dir) if summary.can_be_resumed else "",
    )


def resume(
    run_id: Annotated[str, typer.Argument(help="The id of a run, a unique part of it, or 'last'.")] = "",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Resume although files have changed; completed steps are kept.")
    ] = False,
    runs_dir: RunsDir = RUNS_DIR,
    trace: Trace = None,
    metrics: Metrics = None,
    spans: Spans = None,
    otel: Otel = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Resume an interrupted or failed run.

    Completed steps do not run again, and an interrupted step repeats no completed model or tool call. Failed steps run
    again. The run continues in its original folder, and exits like `offbook run`.

    [bold]Examples[/bold]

      offbook resume last

      offbook resume 20261115-233012-001 --force
    """
    from contextlib import chdir
    from pathlib import Path

    from offbook.cli.commands.run import override_config
    from offbook.cli.runners.events import EventOptions
    from offbook.cli.runners.resume import ResumeOptions, resume_run
    from offbook.cli.runners.workflow import WorkflowOptions
    from offbook.errors import InputError, RunError
    from offbook.workflow.file.load import load_workflow
    from offbook.workflow.runs.store import RunStore

    if not run_id:
        raise InputError("the run is missing", source="resume", hint="offbook resume last; offbook runs lists all")
    with RunStore(Path(runs_dir).resolve()).resume(run_id, force=force) as run:
        manifest = run.manifest
        if not Path(manifest.started_in).is_dir():
            raise RunError("the folder where it was started is gone", source=manifest.id, place=manifest.started_in)
        with chdir(manifest.started_in):
            stored = convert(manifest.options, ResumeOptions)
            definition = override_config(load_workflow(manifest.given_path), stored.provider, stored.model)
            options = WorkflowOptions(
                mode=stored.mode,
                state=manifest.state,
                faults=stored.plan,
                is_json=as_json,
                is_quiet=quiet,
                events=EventOptions(trace=trace, metrics=metrics, spans=spans, otel=otel),
            )
            raise typer.Exit(resume_run(run, definition, options, runs_dir=runs_dir))
