"""offbook serve: serves the vendors' APIs from a recording, or records them, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import AsJson, Port, Quiet, StrictUsage, with_wire_options

if TYPE_CHECKING:
    from offbook.cli.runners.wire import WireArguments


@with_wire_options
def serve(
    options: WireArguments,
    mcp: Annotated[
        str | None,
        typer.Option(
            "--mcp",
            metavar="CONFIG",
            show_default=False,
            help="Serve the MCP servers of this config, too, at /mcp/NAME and over stdio.",
        ),
    ] = None,
    strict_unused: StrictUsage = False,
    host: Annotated[
        str, typer.Option(help="Listen on this address; other than loopback requires --api-key.")
    ] = "127.0.0.1",
    port: Port = 0,
    api_key: Annotated[
        str, typer.Option(envvar="OFFBOOK_API_KEY", show_default=False, help="The key that clients must send.")
    ] = "",
    allow_host: Annotated[
        list[str], typer.Option(help="A name of this server besides localhost: agent.test, *.test. Repeatable.")
    ] = [],  # noqa: B006
    allow_origin: Annotated[
        list[str], typer.Option(help="Let pages of this site use the server: https://app.test. Repeatable.")
    ] = [],  # noqa: B006
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Serve in so many processes on one port, for load tests.")
    ] = 1,
    session_group: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Answer sessions as one with all servers of this name; with --replay redis://….",
        ),
    ] = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve the model APIs from a recording, or record them.

    Serves the APIs of OpenAI, Anthropic, Gemini and Ollama until Ctrl-C or
    SIGTERM, and writes a line for each call to stderr. A call that the recording
    has no answer for gets an error response. Exits with 0; with 1 if a call could
    not be recorded, or one of its processes died; with 3 if --strict-unused is given and an exchange was not
    used, or more often than it was recorded; with 2 on bad input.

    [bold]Examples[/bold]

      offbook serve --replay runs/ --port 4010

      offbook serve --record run.json --upstream openai=http://127.0.0.1:80/v1

      offbook serve --replay run.json --host 0.0.0.0 --api-key "$KEY"

      offbook serve --replay run.json --processes 4

      offbook serve --replay redis://cache/0 --session-group load
    """
    import msgspec
    from msgspec.structs import replace

    from offbook.cli import FAILED, FINE, MISMATCH
    from offbook.cli.output.console import echo_json, print_message
    from offbook.cli.output.wire import WireSummary
    from offbook.cli.runners.serve import ListenAddress, serve_here, serve_in_processes
    from offbook.errors import InputError

    if session_group and not (options.replay or "").startswith(("redis://", "rediss://")):
        hint = "add --replay redis://HOST, or leave it out"
        raise InputError("servers share sessions through a recording in Redis", source="--session-group", hint=hint)
    if (processes > 1 or session_group) and strict_unused:
        hint = "leave it out, or use one process"
        raise InputError("each process counts what it has served", source="--strict-unused", hint=hint)
    options = replace(options, mcp=mcp, allow_hosts=allow_host, allow_origins=allow_origin)
    options.check()
    options = options.with_record_mode()
    place = ListenAddress(host, port, api_key)
    if processes == 1:
        served = serve_here(options, place, session_group=session_group, is_json=as_json, is_quiet=quiet)
    else:
        served = serve_in_processes(
            options, place, count=processes, session_group=session_group, is_json=as_json, is_quiet=quiet
        )
    tally = served.tally
    summary = WireSummary(
        tally,
        options.recording,
        is_folder=options.is_folder,
        is_quiet=quiet,
        is_strict=strict_unused,
        is_closing_log=True,
    )
    if as_json:
        echo_json(msgspec.json.encode(tally.document(with_calls=False)).decode())
        summary.print_unrecorded()
    else:
        summary.print()
    for text in served.died:
        print_message("error: ", f"{text}; its calls are not counted", style="bold red", is_err=True)
    if tally.unrecorded or served.died:
        raise typer.Exit(FAILED)
    raise typer.Exit(MISMATCH if strict_unused and (tally.unused or tally.overused) else FINE)
