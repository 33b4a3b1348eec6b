"""offbook run: runs a workflow, live, recorded or mocked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import (
    RUNS_DIR,
    AsJson,
    Faults,
    Flow,
    Metrics,
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
from offbook.vendors import MockableProviderName

if TYPE_CHECKING:
    from offbook.pipeline import Mode
    from offbook.workflow.file.schema import WorkflowDefinition


def run(
    flow: Flow,
    settings: Settings = [],  # noqa: B006
    state: StateFile = None,
    record: Annotated[str | None, typer.Option(help="Record every model and tool call in this file.")] = None,
    record_mode: Annotated[
        RecordMode,
        typer.Option(
            help="Add every call, replay what is there, add what is missing, replace what is called, or start anew."
        ),
    ] = "append",
    mock_responses: Annotated[
        str | None, typer.Option(help="Answer from this recording, and warn about missing answers.")
    ] = None,
    provider: Annotated[
        MockableProviderName | None, typer.Option(help="The provider, instead of that of the config.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, instead of that of the config.")] = None,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    recording: Annotated[str | None, typer.Option(hidden=True)] = None,
    trace: Trace = None,
    metrics: Metrics = None,
    spans: Spans = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    real_time: RealTime = False,
    runs_dir: RunsDir = RUNS_DIR,
    no_checkpoint: Annotated[
        bool, typer.Option("--no-checkpoint", help="Do not store the run; it cannot be resumed.")
    ] = False,
) -> None:
    """Run a workflow: live, recorded or mocked.

    Exits with 1 if a step failed, with 2 on bad input, with 130 if interrupted. API keys come from OPENAI_API_KEY,
    ANTHROPIC_API_KEY, and GOOGLE_API_KEY or GEMINI_API_KEY.

    [bold]Examples[/bold]

      offbook run flow.yaml --set user_input='Where is my order?'

      offbook run flow.yaml --record recordings/run.json

      offbook run flow.yaml --mock-responses recordings/run.json --fault 'step=answer attempt=1: timeout'
    """
    from offbook.cli.parse import check_models, parse_faults, parse_state
    from offbook.cli.runners.resume import resume_options, start_resumable
    from offbook.cli.runners.workflow import (
        EventOptions,
        RunOptions,
        folder_of,
        is_mocked,
        run_workflow,
        warn_if_recorded,
    )
    from offbook.workflow.file.load import load_workflow

    _refuse_recording(recording, flow)
    mode = _mode(record, record_mode, mock_responses)
    definition = override_config(load_workflow(flow), provider, model)
    check_models(definition, flow)
    options = RunOptions(
        mode=mode,
        state=parse_state(definition.state, settings=settings, file=state),
        faults=parse_faults(fault, file=plan, definition=definition),
        is_json=as_json,
        is_quiet=quiet,
        is_real_time=real_time,
        events=EventOptions(trace=trace, metrics=metrics, spans=spans),
    )
    warn_if_recorded(definition, mode)
    if no_checkpoint or is_mocked(definition, mode):
        raise typer.Exit(run_workflow(definition, options, folder=folder_of(flow)).code)
    stored = resume_options(mode, options.faults, provider=provider, model=model)
    raise typer.Exit(start_resumable(definition, flow, options, stored, runs_dir))


def _refuse_recording(recording: str | None, flow: str) -> None:
    """Refuse --recording, and name the command that takes it."""
    from offbook.errors import InputError

    if recording is not None:
        hint = f"did you mean `offbook replay {flow} --recording {recording}`?"
        raise InputError("run has no such option", source="--recording", hint=hint)


def _mode(record: str | None, record_mode: RecordMode, mock_responses: str | None) -> Mode:
    from offbook.errors import InputError
    from offbook.pipeline import Live, Mock, Record

    if record is not None and mock_responses is not None:
        raise InputError("--record and --mock-responses exclude each other", hint="leave one of them out")
    if record is None and record_mode != "append":
        raise InputError("--record-mode requires --record", hint="add --record PATH")
    if mock_responses is not None:
        return Mock(mock_responses)
    return Live() if record is None else Record(record, record_mode)


def override_config(
    definition: WorkflowDefinition, provider: MockableProviderName | None, model: str | None
) -> WorkflowDefinition:
    """Return the workflow with another provider and model in its config. Those of steps stay."""
    from msgspec.structs import replace

    from offbook.errors import InputError
    from offbook.workflow.file.schema import ConfigDefinition

    if model == "":
        raise InputError("expected the name of a model", source="--model")
    config = ConfigDefinition(provider=provider, model=model)
    return replace(definition, config=config.inside(definition.config))
