"""offbook replay: runs a workflow from a recording alone. A program is run by `exec`; see `cli/app.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import (
    AsJson,
    Declared,
    Faults,
    Metrics,
    Otel,
    Plan,
    Quiet,
    RealTime,
    Settings,
    Spans,
    StateFile,
    StrictUnused,
    Trace,
)


def replay(
    flow: Annotated[
        str | None,
        typer.Argument(help="A workflow file; omitted with a --plan written by explore.", show_default=False),
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(
            "--recording", "--replay", help="The recording that answers: path.json, sqlite:///path.db, or redis://…."
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    state: StateFile = None,
    allow_default_fallback: Annotated[
        bool,
        typer.Option("--allow-default-fallback", help="Answer unmatched requests with a default, and warn."),
    ] = False,
    strict_unused: StrictUnused = False,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    declared: Declared = "",
    assignments: Annotated[list[str], typer.Option("-o", metavar="declared=NAMES", hidden=True)] = [],  # noqa: B006
    trace: Trace = None,
    metrics: Metrics = None,
    spans: Spans = None,
    otel: Otel = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    real_time: RealTime = False,
) -> None:
    """Run a program or a workflow from a recording, offline.

    With a recording and a program after --, this is offbook exec --replay, and takes its options; see offbook exec -h.

    A replay is instant and gives the same result every time. A request that the recording lacks ends the run with exit
    code 3; the message names the step and the difference. Exits with 1 if a step failed, with 2 on bad input.

    A --plan written by `explore -o regress=FOLDER` replays that finding: exits with 1 if it still fails. --declared
    adds errors to those stored with the finding.

    [bold]Examples[/bold]

      offbook replay recordings/run.json -- python my_agent.py

      offbook replay flow.yaml --recording recordings/run.json

      offbook replay flow.yaml --recording recordings/run.json --fault 'call=2: http_error 500' --json

      offbook replay --plan regress/0007.json
    """
    import shlex
    from pathlib import Path

    from offbook.cli.parse import check_models, parse_faults, parse_state
    from offbook.cli.runners.events import EventOptions
    from offbook.cli.runners.workflow import WorkflowOptions, replay_workflow
    from offbook.errors import InputError
    from offbook.pipeline import Replay
    from offbook.text import did_you_mean_file
    from offbook.workflow.file.load import load_workflow

    if plan is not None and _is_regression(plan):
        from offbook.cli.parse import parse_names
        from offbook.cli.runners.exploration import replay_regression
        from offbook.explore.settings import RegressionOptions
        from offbook.settings import assigned

        if flow is not None:
            reason, hint = "this plan names its own workflow", f"offbook replay --plan {plan}"
            raise InputError(reason, source=plan, hint=hint)
        names = (*parse_names(declared), *assigned(RegressionOptions, assignments).get("declared", ()))
        raise typer.Exit(replay_regression(plan, declared=names, is_json=as_json, is_quiet=quiet))
    if declared or assignments:
        reason, hint = "--declared requires a --plan that explore has written", "leave it out"
        raise InputError(reason, source="replay", hint=hint)
    if plan is not None and not Path(plan).is_file():
        raise InputError("there is no such file", source=plan, hint=did_you_mean_file(plan))
    if flow is None or recording is None:
        missing = "workflow" if flow is None else "recording"
        hint = "offbook replay FLOW --recording PATH" + (f" --plan {shlex.quote(plan)}" if plan is not None else "")
        if flow is not None and flow.endswith(".json"):
            missing = "program"
            hint = f"{flow} is not a workflow; to replay a program: offbook replay {shlex.quote(flow)} -- COMMAND …"
        raise InputError(f"a {missing} is missing", source="replay", hint=hint)
    definition = load_workflow(flow)
    check_models(definition, flow)
    options = WorkflowOptions(
        mode=Replay(recording, allow_default_fallback),
        state=parse_state(definition.state, settings=settings, file=state),
        faults=parse_faults(fault, file=plan, definition=definition),
        is_json=as_json,
        is_quiet=quiet,
        is_real_time=real_time,
        is_strict=strict_unused,
        events=EventOptions(trace=trace, metrics=metrics, spans=spans, otel=otel),
    )
    raise typer.Exit(replay_workflow(definition, options, flow, settings=settings, state=state))


def _is_regression(plan: str) -> bool:
    """Return whether a plan is a finding that `explore` has written, which names its own workflow."""
    from offbook.subjects import is_regression

    return is_regression(plan)
