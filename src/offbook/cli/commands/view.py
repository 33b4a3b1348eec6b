"""offbook view, mcp-server: show the runs of a folder in the browser, or to a coding agent."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import AsJson


def view(
    places: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER|FILE", help="Folders and files of recordings and reports.", show_default=False),
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Listen on this port; 0 is any free port.")
    ] = 0,
    opens: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open the browser; by default, from a terminal.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show recordings, explorations and scenario runs in the browser.

    Serves one page over all recordings, JSON reports of explorations and scenarios, and stored workflow runs below the
    folders, on loopback only, until Ctrl-C or SIGTERM. It changes nothing, and shows new runs as they arrive.

    [bold]Examples[/bold]

      offbook view runs/

      offbook view recordings/agent.json

      offbook view . --port 8000 --no-open
    """
    import sys
    import webbrowser
    from signal import SIGHUP, SIGINT, SIGTERM

    import msgspec

    from offbook.cli.output.console import echo_json, print_message
    from offbook.cli.run_program import SignalPipe
    from offbook.text import pluralize
    from offbook.view.library import RunLibrary
    from offbook.view.server import ViewServer

    library = RunLibrary(places)
    server = ViewServer(library, port=port)
    with SignalPipe(SIGINT, SIGTERM, SIGHUP) as signals, server:
        count = sum(not run.part_of for run in library.find())
        if as_json:
            echo_json(msgspec.json.encode({"url": server.url, "runs": count}).decode())
        else:
            print_message(server.url, f"  {pluralize(count, 'run')}; Ctrl-C stops")
        if sys.stdout.isatty() if opens is None else opens:
            webbrowser.open(server.opening_url)
        next(iter(signals))
        signals.restore()


def mcp_server(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The folder of recordings and reports.", show_default=False)
    ] = ".",
    allow_explore: Annotated[
        bool,
        typer.Option("--allow-explore", help="Let the agent run explorations, which run programs and their tools."),
    ] = False,
) -> None:
    """Let a coding agent read recordings and findings, over MCP.

    Serves tools over stdio: list_runs, show_recording, list_findings and explain_finding for the folder's files; with
    --allow-explore also explore. Nothing outside the folder is read. It ends with its input.

    [bold]Examples[/bold]

      claude mcp add offbook -- offbook mcp-server runs/

      offbook mcp-server . --allow-explore
    """
    from pathlib import Path

    from offbook.cli.runners.mcp import serve_tools_at_stdio
    from offbook.errors import InputError
    from offbook.view.agent_tools import LibraryTools

    if not Path(folder).is_dir():
        raise InputError("there is no such folder", source=folder, hint="name a folder of recordings and reports")
    raise typer.Exit(serve_tools_at_stdio("offbook", LibraryTools(Path(folder), explores=allow_explore).tools()))
