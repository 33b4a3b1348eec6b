"""offbook mcp serve and mcp mock: stand in for MCP servers, from a recording or by mocked tools, over stdio or HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import Faults, LatencyModelOption, LatencyMs, Plan, Quiet, Recording

ServerName = Annotated[str | None, typer.Option("--name", help="The name of the server, if there are several.")]
McpPort = Annotated[
    int | None,
    typer.Option("--port", metavar="N", min=0, max=65535, help="Serve HTTP on this port; 0 is any free port."),
]


Stdio = Annotated[bool, typer.Option("--stdio", help="Serve one client over stdin and stdout.")]


def serve(
    recording: Recording,
    stdio: Stdio = False,
    port: McpPort = None,
    name: ServerName = None,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    latency_model: LatencyModelOption = "constant",
    latency_ms: LatencyMs = 0.0,
    quiet: Quiet = False,
) -> None:
    """Stand in for MCP servers from a recording.

    Answers clients of both eras of the protocol, over stdio or HTTP, whichever
    the recording was made with. A request that is not recorded gets an error
    that names the nearest one. Over stdio it ends with its input, over HTTP with
    Ctrl-C or SIGTERM. Exits with 3 if a request was not recorded; over stdio
    with 1 if a planned fault never fired.

    [bold]Examples[/bold]

      offbook mcp serve github.json --stdio

      offbook mcp serve github.json --port 5555

      offbook mcp serve github.json --stdio --fault 'tool=github.search: tool_lost'
    """
    from offbook.cli import FINE, MISMATCH
    from offbook.cli.runners.mcp import ServedRecording, hub_of, serve_recording_at_stdio, serve_until_signal
    from offbook.errors import InputError

    if stdio == (port is not None):
        raise InputError("--stdio or --port is required, and not both", source="mcp serve", hint="add --stdio")
    served = ServedRecording(
        location=recording, name=name, faults=fault, plan=plan, latency_model=latency_model, latency_ms=latency_ms
    )
    if stdio:
        raise typer.Exit(serve_recording_at_stdio(served))
    has_missed = serve_until_signal(
        hub_of(served), served.wire_options(), port=port or 0, does=f"answering from {recording}", is_quiet=quiet
    )
    raise typer.Exit(MISMATCH if has_missed else FINE)


def mock(
    tools: Annotated[str, typer.Argument(help="A Python file with functions or mocks, or a JSON file with schemas.")],
    stdio: Stdio = False,
    port: McpPort = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the server; by default that of the file.")
    ] = None,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    quiet: Quiet = False,
) -> None:
    """Serve tools over MCP without a recording.

    The tools are the functions of a Python file, its Mocks, or those of a JSON
    file with schemas. Arguments are checked; what is wrong is a result with
    isError. Over stdio it ends with its input, over HTTP with Ctrl-C or SIGTERM.

    [bold]Examples[/bold]

      offbook mcp mock tools.py --stdio

      offbook mcp mock tools.py --port 5555 --name github

      offbook mcp mock tools.json --stdio --fault 'tool=tools.search: tool_lost'
    """
    from offbook.cli import FINE, MISMATCH
    from offbook.cli.runners.mcp import MockedServer, serve_mocks_at_stdio, serve_until_signal
    from offbook.errors import InputError

    if stdio == (port is not None):
        raise InputError("--stdio or --port is required, and not both", source="mcp mock", hint="add --stdio")
    mocked = MockedServer(path=tools, given_name=name, faults=fault, plan=plan)
    if stdio:
        raise typer.Exit(serve_mocks_at_stdio(mocked))
    with mocked.hub() as hub:
        has_missed = serve_until_signal(
            hub, mocked.wire_options(), port=port or 0, does=f"answering by {tools}", is_quiet=quiet
        )
    raise typer.Exit(MISMATCH if has_missed else FINE)
