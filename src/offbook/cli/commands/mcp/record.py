"""offbook mcp record: records an MCP server while a client uses it, over stdio or HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.commands.mcp.serve import McpPort
from offbook.cli.options import Faults, ProgramCommand, Quiet, RecordModeOption, program_args

SETTINGS = {"cls": ProgramCommand}


def record(
    ctx: typer.Context,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The recording to write.")],
    url: Annotated[str | None, typer.Option("--url", help="The URL of a server over HTTP.")] = None,
    port: McpPort = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the server in the recording; by default that of the file.")
    ] = None,
    record_mode: RecordModeOption = None,
    fault: Faults = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Record an MCP server while a client uses it.

    Give it to a client as the command of its server: the real server runs
    behind it, and every answer is recorded before the client gets it. Stdin,
    stdout, stderr and the exit code are those of the real server. A server over
    HTTP is recorded at --port until Ctrl-C or SIGTERM.

    [bold]Examples[/bold]

      offbook mcp record --output github.json -- npx -y some-mcp-server

      offbook mcp record --output web.json --url https://host/mcp --port 5555
    """
    from pathlib import Path

    from offbook.cli import FINE
    from offbook.cli.runners.mcp import RecordedServer, hub_to, record_at_stdio, serve_until_signal
    from offbook.errors import InputError

    command = program_args(ctx) or []
    if bool(command) == (url is not None):
        hint = "offbook mcp record --output PATH -- COMMAND …, or --url URL --port N"
        raise InputError("a command or --url is required, and not both", source="mcp record", hint=hint)
    if (url is None) != (port is None):
        raise InputError("--url and --port belong together", source="mcp record", hint="a command is served over stdio")
    recorded = RecordedServer(
        output=output,
        name=name or Path(output).stem,
        command=command,
        url=url,
        record_mode=record_mode or "append",
        faults=fault,
    )
    if url is None:
        raise typer.Exit(record_at_stdio(recorded))
    with recorded.recorder() as recorder:
        serve_until_signal(
            hub_to(recorded, recorder),
            recorded.wire_options(),
            port=port or 0,
            does=f"recording {url} to {output}",
            is_quiet=quiet,
        )
    raise typer.Exit(FINE)
