"""offbook explore: replays a recorded run with each fault at each call."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from offbook.cli.options import AsJson, ProgramCommand, Quiet, Settings, StateFile, program_args

SETTINGS = {"cls": ProgramCommand}


def explore(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="A workflow, or a file of scenarios; a program comes after --.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option("--recording", "--replay", help="The recorded run; for scenarios, by default next to the file."),
    ] = None,
    faults: Annotated[str, typer.Option("--faults", help="Which faults to try: all, or names: timeout,tool_lost.")] = (
        "all"
    ),
    pairs: Annotated[bool, typer.Option("--pairs", help="Also try a second fault after each.")] = False,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Run at most this many cases, the most informative ones.")
    ] = None,
    fault: Annotated[
        list[str],
        typer.Option(
            help="Run only the case of this fault: 'call=2: timeout'. Repeat it for a case of several faults."
        ),
    ] = [],  # noqa: B006
    only: Annotated[list[str], typer.Option(help="Run only the case with this id. Repeatable.")] = [],  # noqa: B006
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    on_divergence: Annotated[
        Literal["stop", "default", "live"],
        typer.Option(
            help="On a request that was never recorded: stop the run, use a default answer, or call the model."
        ),
    ] = "stop",
    default_response: Annotated[
        str | None, typer.Option(help="The default answer. Implies --on-divergence default.")
    ] = None,
    invariants: Annotated[
        str | None, typer.Option(help="A Python file whose functions invariant_… must hold for every run.")
    ] = None,
    declared: Annotated[
        str, typer.Option(help="Errors that the agent may raise: NAME,…; for a program, exit codes.")
    ] = "",
    side_effects: Annotated[str, typer.Option(help="Tools that must not run twice: NAME,…")] = "",
    run_tools: Annotated[
        bool, typer.Option("--run-tools", help="Run tools with side effects for real if none are recorded.")
    ] = False,
    deadline: Annotated[
        float | None, typer.Option(min=0.001, help="How long a run may take, in seconds of its virtual clock.")
    ] = None,
    workers: Annotated[str, typer.Option(help="How many cases run at once: a number, or auto.")] = "auto",
    report: Annotated[str | None, typer.Option(metavar="PATH", help="Write a page with the heatmap and all runs.")] = (
        None
    ),
    reporter: Annotated[
        list[str], typer.Option(help="Another report: html=PATH, json=PATH, junit=PATH or github. Repeatable.")
    ] = [],  # noqa: B006
    fail_on: Annotated[
        str | None, typer.Option(help="Exit with 1 on these verdicts only: wrong,repeated-side-effect,hung.")
    ] = None,
    compare: Annotated[str | None, typer.Option(metavar="PATH", help="Compare with an earlier json=PATH report.")] = (
        None
    ),
    regress: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Write each finding to this folder, as a file that pytest runs."),
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="The scenario of the file.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent of the config.")] = None,
    config: Annotated[str | None, typer.Option(help="The config, instead of the nearest offbook.toml.")] = None,
    settings: Settings = [],  # noqa: B006
    state: StateFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Replay a recorded run with each fault at each call.

    Each fault is tried at each call, attempt and stream position. Exits with 1 on a finding (hung, wrong, crashed,
    undetected, or a repeated side effect), or if a verdict is worse than in the report of --compare; with 2 on bad
    input, or if the run fails without a fault; with 130 if interrupted, and reports then hold the cases that ended.

    [bold]Examples[/bold]

      offbook explore flow.yaml --recording runs/today.json --report report.html

      offbook explore sim_refund.py

      offbook explore --replay runs/today.json -- python my_agent.py
    """
    from offbook.cli.runners.exploration import (
        ExploreArguments,
        SubjectArguments,
        parse_names,
        parse_verdicts,
        parse_workers,
        run_exploration,
    )
    from offbook.subjects.specs import DEFAULT_SETTINGS, ExploreSettings

    if default_response is not None and on_divergence == "stop":
        on_divergence = "default"
    explore_settings = ExploreSettings(
        on_divergence=on_divergence,
        default_response=DEFAULT_SETTINGS.default_response if default_response is None else default_response,
        declared=parse_names(declared),
        deadline_s=deadline,
        side_effects=parse_names(side_effects),
        runs_tools=run_tools,
    )
    subject = SubjectArguments(
        file=file,
        command=program_args(ctx),
        recording=recording,
        scenario=scenario,
        agent=agent,
        config=config,
        settings=settings,
        state=state,
    )
    options = ExploreArguments(
        faults=faults,
        has_pairs=pairs,
        budget=budget,
        lines=fault,
        only=only,
        is_list=list_cases,
        invariants=invariants,
        workers=parse_workers(workers),
        reporters=[*reporter, *([] if report is None else [f"html={report}"])],
        fail_on=parse_verdicts(fail_on),
        compare=compare,
        regress=regress,
        is_json=as_json,
        is_quiet=quiet,
    )
    raise typer.Exit(run_exploration(subject.spec(), explore_settings, options))
