"""offbook serve: serves the vendors' APIs from a recording, or records them, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from offbook.cli.options import AsJson, Port, Quiet, StrictUsage, with_wire_options

if TYPE_CHECKING:
    from offbook.cli.runners.wire import WireArguments, WireTally


class ListenAddress(NamedTuple):
    """Where a server listens, and the key that it requires."""

    host: str
    port: int
    api_key: str


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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve the model APIs from a recording, or record them.

    Serves the APIs of OpenAI, Anthropic, Gemini and Ollama until Ctrl-C or
    SIGTERM, and writes a line for each call to stderr. A call that the recording
    has no answer for gets an error response. Exits with 0; with 1 if a call could
    not be recorded; with 3 if --strict-unused is given and an exchange was not
    used, or more often than it was recorded; with 2 on bad input.

    [bold]Examples[/bold]

      offbook serve --replay runs/ --port 4010

      offbook serve --record run.json --upstream openai=http://127.0.0.1:80/v1

      offbook serve --replay run.json --host 0.0.0.0 --api-key "$KEY"
    """
    import msgspec
    from msgspec.structs import replace

    from offbook.cli import FAILED, FINE, MISMATCH
    from offbook.cli.output.console import echo_json
    from offbook.cli.output.wire import WireSummary

    options = replace(options, mcp=mcp, allow_hosts=allow_host, allow_origins=allow_origin)
    tally = _serve(options, ListenAddress(host, port, api_key), is_json=as_json, is_quiet=quiet)
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
    if tally.unrecorded:
        raise typer.Exit(FAILED)
    raise typer.Exit(MISMATCH if strict_unused and (tally.unused or tally.overused) else FINE)


def _serve(options: WireArguments, place: ListenAddress, *, is_json: bool, is_quiet: bool) -> WireTally:
    """Serve until a signal comes, and return the tally of the calls.

    Raises:
        InputError: MCP servers are to be recorded behind a key.
    """
    import os
    from signal import SIGHUP, SIGINT, SIGTERM

    from offbook.cli.output.wire import ServingNotice, WireCallLog
    from offbook.cli.run_program import SignalPipe
    from offbook.cli.runners.mcp import McpServers
    from offbook.cli.runners.wire import discard_empty_recording, tally_wire_calls
    from offbook.wire.server.wire_server import WireServer

    log = WireCallLog(is_quiet=is_quiet)
    wire_options = options.wire_options(os.environ, has_own_key=bool(place.api_key), on_call=log.on_call)
    with (
        discard_empty_recording(options.record),
        McpServers(options, os.environ, has_own_key=bool(place.api_key)) as mcp,
    ):
        server = WireServer(wire_options, host=place.host, port=place.port, api_key=place.api_key, mount=mcp.hub)
        with SignalPipe(SIGINT, SIGTERM, SIGHUP) as signals, log, server:
            variables, urls = mcp.point_to(server), mcp.urls(server)
            notice = ServingNotice(server=server, options=options, variables=variables, mcp_urls=urls)
            notice.print(api_key=place.api_key, is_json=is_json)
            next(iter(signals))
            signals.restore()
            usage = [*server.unused_exchanges(), *mcp.unused(server)], server.overused_exchanges()
    return tally_wire_calls(server, usage, options.fault_plan())
