"""offbook mcp: records and verifies MCP servers, stands in for them or mocks them, checks and compares recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from offbook.cli.options import (
    AsJson,
    Faults,
    LatencyModelOption,
    LatencyMs,
    Plan,
    ProgramCommand,
    Quiet,
    Recording,
    Recordings,
    RecordModeOption,
    program_args,
)
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.mcp.verify import McpVerification


PROGRAM_SETTINGS = {"cls": ProgramCommand}

ServerName = Annotated[str | None, typer.Option("--name", help="The name of the server, if there are several.")]
McpPort = Annotated[
    int | None,
    typer.Option("--port", metavar="N", min=0, max=65535, help="Serve HTTP on this port; 0 is any free port."),
]
Stdio = Annotated[bool, typer.Option("--stdio", help="Serve one client over stdin and stdout.")]


def record(
    ctx: typer.Context,
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="The recording to write.")],
    url: Annotated[str | None, typer.Option("--url", help="The URL of a server over HTTP.")] = None,
    port: McpPort = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The server's name in the recording; by default the file's name.")
    ] = None,
    record_mode: RecordModeOption = None,
    fault: Faults = [],  # noqa: B006
    quiet: Quiet = False,
) -> None:
    """Record an MCP server while a client uses it.

    Use it as the server command in a client's config: the real server runs behind it, and every answer is recorded
    before the client gets it. Stdin, stdout, stderr and the exit code are the real server's. A server over HTTP is
    recorded at --port until Ctrl-C or SIGTERM.

    [bold]Examples[/bold]

      offbook mcp record --output github.json -- npx -y some-mcp-server

      offbook mcp record --output web.json --url https://host/mcp --port 5555
    """
    from pathlib import Path

    from offbook.cli import FINE
    from offbook.cli.options import note_recorded
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
    if not quiet:
        note_recorded(output, record_mode)
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
    run_tools: Annotated[bool, typer.Option("--run-tools", help="Also call tools that are not read-only.")] = False,
    ignore: Annotated[
        list[str], typer.Option("--ignore", metavar="PATH", help="Ignore this path: result.updated_at. Repeatable.")
    ] = [],  # noqa: B006
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", min=0.001, help="The time limit for an answer.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Repeat the recorded requests at a live MCP server, and compare.

    Compares discovery and lists as diff does, and answers as a replay matches them. Tools are called only if the server
    declares them read-only, or with --run-tools; skipped calls are reported. Exits with 1 if something differs.

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


def _print_verification(found: McpVerification, *, as_json: bool) -> None:
    import msgspec

    from offbook.cli.output.console import echo, echo_json, print_message

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

    Answers clients of both eras of the protocol, over stdio and HTTP. An unrecorded request gets an error that names
    the nearest one. Over stdio it ends with its input, over HTTP with Ctrl-C or SIGTERM. Exits with 3 if a request was
    not recorded; over stdio with 1 if a planned fault never fired.

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
    name: Annotated[str | None, typer.Option("--name", help="The server's name; by default the file's name.")] = None,
    fault: Faults = [],  # noqa: B006
    plan: Plan = None,
    quiet: Quiet = False,
) -> None:
    """Serve tools over MCP without a recording.

    The tools are the functions or Mocks of a Python file, or the schemas of a JSON file. Invalid arguments give a
    result with isError. Over stdio it ends with its input, over HTTP with Ctrl-C or SIGTERM.

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


def check(
    files: Recordings,
    pattern: Annotated[
        list[str], typer.Option("--pattern", help="Another regular expression for suspicious text. Repeatable.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Check the MCP servers of recordings, and their texts.

    Checks that schemas and names are valid, that recorded arguments and results fit them, and that texts hold neither
    secrets nor instructions to a model. Exits with 1 if there is a problem, with 2 if a file cannot be read.

    [bold]Examples[/bold]

      offbook mcp check github.json

      offbook mcp check runs/*.json --pattern '(?i)as an ai' --json
    """
    import orjson

    from offbook.cli.output.console import echo, echo_json
    from offbook.errors import InputError
    from offbook.mcp.check import check_recording
    from offbook.mcp.surface import surfaces_of
    from offbook.recording.format.document import each_exchange
    from offbook.recording.stores.locate import open_store
    from offbook.text import compile_pattern

    patterns = [compile_pattern(each, source="--pattern") for each in pattern]
    rows: list[dict[str, str]] = []
    for file in files:
        document = open_store(file).load()
        if not surfaces_of(each_exchange(document.tools)):
            hint = "record one with 'offbook mcp record'"
            raise InputError("the recording has no MCP server", source=file, hint=hint)
        found = check_recording(document, patterns=patterns)
        rows += [{"file": file, "place": each.place, "kind": each.kind, "problem": each.problem} for each in found]
    if as_json:
        echo_json(orjson.dumps({"files": len(files), "findings": rows}))
    else:
        for row in rows:
            echo(": ".join((row["file"], row["place"], row["problem"])))
        counted = pluralize(len(rows), "problem") if rows else "no problems"
        echo(f"{pluralize(len(files), 'recording')} checked: {counted}")
    if rows:
        raise typer.Exit(1)


def diff(
    old: Recording,
    new: Recording,
    fail_on: Annotated[
        Literal["breaking", "dangerous", "any"],
        typer.Option(
            "--fail-on", help="Exit with 1 for breaking changes, for breaking and dangerous ones, or for any."
        ),
    ] = "dangerous",
    as_json: AsJson = False,
) -> None:
    """Compare what the MCP servers of two recordings offer.

    Compares the listed servers, tools, prompts and resources. A change
    is breaking, dangerous or harmless, with the reason. Exits with 1 if one is
    breaking or dangerous.

    [bold]Examples[/bold]

      offbook mcp diff old.json new.json

      offbook mcp diff old.json new.json --fail-on breaking --json
    """
    import msgspec

    from offbook.cli.output.console import echo, echo_json, print_message
    from offbook.cli.runners.mcp import recorded_surfaces
    from offbook.mcp.surface import LEVELS, compare_servers, uncompared

    before, after = recorded_surfaces(old), recorded_surfaces(new)
    changes = compare_servers(before, after)
    skipped = {name: uncompared(before[name], after[name]) for name in before if name in after}
    skipped = {name: methods for name, methods in skipped.items() if methods}
    if as_json:
        echo_json(msgspec.json.encode({"changes": changes, "not_compared": skipped}))
    else:
        for change in sorted(changes, key=lambda change: LEVELS.index(change.level)):
            print_message(f"{change.level}: ", f"{change.place}: {change.reason}")
        for name, methods in skipped.items():
            echo(f"not compared: {name}: {', '.join(methods)} is in one of the recordings only")
        echo(pluralize(len(changes), "change") if changes else "no changes")
    failing = LEVELS if fail_on == "any" else LEVELS[: LEVELS.index(fail_on) + 1]
    if any(change.level in failing for change in changes):
        raise typer.Exit(1)
