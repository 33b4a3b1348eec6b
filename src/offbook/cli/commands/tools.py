"""offbook tools: runs a program once, and proposes where its tools live."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import AsJson

SETTINGS = {"context_settings": {"allow_interspersed_args": False}}


def tools(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", "--recording", metavar="PATH", help="Answer the models from this recording."),
    ] = None,
    record: Annotated[
        str | None, typer.Option("--record", metavar="PATH", help="Keep the recording of the run here.")
    ] = None,
    intercept: Annotated[
        bool,
        typer.Option("--intercept", help="Act as an HTTPS proxy for programs that ignore base-URL variables."),
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Add the tables to offbook.toml.")] = False,
    as_json: AsJson = False,
) -> None:
    """Propose the tools of offbook.toml for a hand-written agent.

    Runs a Python program once, with its models and its tools for real, and finds each tool's function by the arguments
    that the model requests. Prints a table for each tool; offbook exec and offbook explore take over these functions.
    With --replay no model is called, but the tools still run for real. The program's output goes to stderr.

    Exits with 1 if a tool was not found or the program failed, with 3 if it made no
    model call or the recording had no answer, and with 2 on bad input.

    [bold]Examples[/bold]

      offbook tools -- python my_agent.py

      offbook tools --write -- python my_agent.py

      offbook tools --replay run.json -- python -m my_agent
    """
    from offbook.cli.runners.tools import ToolsRun

    run = ToolsRun(command or [], replay=replay, record=record, intercept=intercept)
    raise typer.Exit(run.propose(is_written=write, as_json=as_json))
