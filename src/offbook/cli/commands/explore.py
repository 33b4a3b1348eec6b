"""offbook explore: replays a recorded run with each fault at each call."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import ProgramCommand, check_placeholder, program_args, with_options
from offbook.errors import InputError
from offbook.explore.settings import DEFAULT_RESPONSE, ExploreArguments

SETTINGS = {"cls": ProgramCommand}


@with_options(ExploreArguments)
def explore(
    options: ExploreArguments,
    given: ExploreArguments,
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(help="A workflow, or a file of scenarios; a program comes after --.")
    ] = None,
) -> None:
    """Replay a recorded run with each fault at each call.

    Tries each fault at each call, attempt and stream position. Exits with 1 on a finding, such as a repeated effect, an
    accepted broken result or a run that hangs (--fail-on chooses); with -o compare=PATH, only if a verdict is worse
    than in that earlier report; with 2 on bad input, or if the run fails without a fault; with 130 if interrupted, with
    the ended cases in the reports.

    A program's tools are answered from the recording, and do not run. Tools without a recorded result need --run-tools,
    unless they only read or belong to the MCP servers of --mcp. offbook.toml declares tools, and sets options that
    seldom change: offbook settings lists them.

    [bold]Examples[/bold]

      offbook explore flow.yaml --recording runs/today.json --report report.html

      offbook explore sim_refund.py

      offbook explore --replay runs/today.json -- python my_agent.py

      offbook explore --replay runs/today.json --mcp .mcp.json -- python my_agent.py {mcp}

      offbook explore --replay runs/today.json --crash --keep state/ -- python my_agent.py
    """
    from msgspec.structs import replace

    from offbook.cli.parse import report_lines
    from offbook.cli.runners.exploration import run_exploration, subject_of

    for flag, is_given in {"--faults": given.faults != ExploreArguments().faults, "--only": bool(given.only)}.items():
        if given.fault and is_given:
            hint = "--fault runs only this case: use one of them"
            raise InputError(f"{flag} cannot be used with --fault", hint=hint)
    options = options.fitting(given, file=file)
    report_lines(options.report)
    command = program_args(ctx)
    check_placeholder(command or (), options.mcp)
    if options.default_response != DEFAULT_RESPONSE and options.on_divergence == "explore":
        options = replace(options, on_divergence="default")
    raise typer.Exit(run_exploration(subject_of(options, file, command), options))
