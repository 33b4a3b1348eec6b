"""offbook mcp record and mcp verify: record a real MCP server, and compare it with its recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.commands.mcp.serve import McpPort, ServerName
from offbook.cli.options import AsJson, Faults, ProgramCommand, Quiet, Recording, RecordModeOption, program_args

if TYPE_CHECKING:
    from offbook.mcp.verify import Verification

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


def verify(
    ctx: typer.Context,
    recording: Recording,
    url: Annotated[str | None, typer.Option("--url", help="The URL of a server over HTTP.")] = None,
    header: Annotated[
        list[str], typer.Option("--header", metavar="NAME=VALUE", help="A header for --url. Repeatable.")
    ] = [],  # noqa: B006
    name: ServerName = None,
    run_tools: Annotated[bool, typer.Option("--run-tools", help="Call tools that are not read-only, too.")] = False,
    ignore: Annotated[
        list[str], typer.Option("--ignore", metavar="PATH", help="Not compared: result.updated_at. Repeatable.")
    ] = [],  # noqa: B006
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", min=0.001, help="How long an answer may take.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Ask a live MCP server what was recorded, and compare.

    Compares discovery and lists by what moved, and answers as matching does. Tools
    are called only if the server says that they are read-only, unless --run-tools
    is given; what was left out is reported. Exits with 1 if something differs.

    [bold]Examples[/bold]

      offbook mcp verify github.json -- npx -y some-mcp-server

      offbook mcp verify web.json --url https://host/mcp --ignore result.updated_at
    """
    from offbook.cli.runners.mcp import VerifiedServer, verify_server
    from offbook.errors import InputError

    command = program_args(ctx) or []
    if bool(command) == (url is not None):
        hint = "offbook mcp verify PATH -- COMMAND …, or --url URL"
        raise InputError("a command or --url is required, and not both", source="mcp verify", hint=hint)
    found = verify_server(
        VerifiedServer(
            recording=recording,
            name=name,
            command=command,
            url=url,
            headers=header,
            ignore=ignore,
            runs_tools=run_tools,
            limit_s=time_limit,
        )
    )
    _print_verification(found, as_json=as_json)
    if not found.is_same:
        raise typer.Exit(1)


def _print_verification(found: Verification, *, as_json: bool) -> None:
    import msgspec

    from offbook.cli.output.console import echo, echo_json, print_message
    from offbook.text import pluralize

    if as_json:
        echo_json(msgspec.json.encode({"is_same": found.is_same} | msgspec.structs.asdict(found)))
        return
    for change in found.changes:
        print_message(f"{change.level}: ", f"{change.place}: {change.reason}")
    for each in found.differences:
        print_message(f"{each.place}: ", "another answer")
        echo(each.difference)
    for left in found.left_out:
        echo(f"left out: {pluralize(left.calls, 'call')} of {left.tool}: {left.reason}")
    counts = [pluralize(len(found.differences), "other answer"), pluralize(len(found.changes), "change")]
    echo(f"{pluralize(found.compared, 'answer')} compared: {'the same' if found.is_same else ', '.join(counts)}")
