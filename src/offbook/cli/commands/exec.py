"""offbook exec: runs any program, with its model calls answered from a recording, or recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.options import (
    BaseUrlVars,
    BlockNetwork,
    Intercept,
    InterceptHosts,
    Port,
    Quiet,
    StrictUsage,
    with_wire_options,
)

if TYPE_CHECKING:
    from offbook.cli.output.wire import WireReportFile
    from offbook.cli.run_program import ChildExit
    from offbook.cli.runners.golden import GoldenCheck
    from offbook.cli.runners.wire import WireArguments, WireTally


SETTINGS = {"context_settings": {"allow_interspersed_args": False}}


@with_wire_options
def execute(
    options: WireArguments,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ] = None,
    mcp: Annotated[
        str | None,
        typer.Option(
            "--mcp",
            metavar="CONFIG",
            help="Record or replay the MCP servers of this config, too; {mcp} in the command is the config to use.",
        ),
    ] = None,
    live_from: Annotated[
        str | None,
        typer.Option(
            "--live-from",
            metavar="call=N",
            help="Answer from the recording until this call, then by the real APIs, and record the run anew.",
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="With --live-from: the model that is asked instead.")
    ] = "",
    golden: Annotated[
        str | None,
        typer.Option(
            "--golden", metavar="PATH", help="Exit with 1 if the tool calls are not as approved in this file."
        ),
    ] = None,
    base_url_var: BaseUrlVars = [],  # noqa: B006
    intercept: Intercept = False,
    intercept_host: InterceptHosts = [],  # noqa: B006
    block_network: BlockNetwork = False,
    strict_unused: StrictUsage = False,
    allow_no_calls: Annotated[
        bool, typer.Option("--allow-no-calls", help="Do not exit with 3 if there was no call.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", metavar="SECONDS", help="Stop the program after this time, and exit with 124."),
    ] = None,
    port: Port = 0,
    report: Annotated[
        str | None, typer.Option("--report", metavar="PATH", help="Write the outcome of each call to this JSON file.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run any program, and record or replay its model calls.

    Its calls to OpenAI, Anthropic, Gemini, Ollama, Bedrock, Azure and Vertex AI
    go to a local server. The program keeps its input, output, signals and exit
    code; offbook writes to stderr.

    Exits with 3 if the recording had no answer for a call, even if the program
    succeeded, and if the program made no call; with 1 if a planned fault never
    fired, a call could not be recorded, no recorded call got an answer, or the
    tool calls are not those of --golden; with
    124 at the time limit; with 2 on bad input; with 126 or 127 if the program
    cannot be started.

    [bold]Examples[/bold]

      offbook exec --record run.json -- python my_agent.py

      offbook exec --replay run.json -- python my_agent.py

      offbook exec --replay run.json --fault 'call=3: timeout' -- node x.mjs

      offbook exec --replay run.json --live-from call=4 --model gpt-5-mini -- python my_agent.py

      offbook exec --replay run.json --mcp .mcp.json -- node x.mjs {mcp}

      offbook exec --intercept --record run.json -- some-agent-cli
    """
    from msgspec.structs import replace

    from offbook.cli.output.wire import WireReportFile, WireSummary
    from offbook.cli.runners.fork import print_fork, print_fork_outcome, with_fork
    from offbook.cli.runners.wire import ExitPolicy, print_notes
    from offbook.errors import InputError
    from offbook.vendors import agent_variables, named_base_urls
    from offbook.wire.intercept.program_network import NetworkOptions

    if not command:
        raise InputError("a command is missing", source="exec", hint="offbook exec --replay PATH -- COMMAND …")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"{time_limit:g} is not a time limit", source="--time-limit", hint="use a number above 0")
    network = NetworkOptions(intercepts=intercept, hosts=intercept_host, blocks=block_network)
    variables = [*agent_variables(command), *base_url_var]
    options = replace(options, mcp=mcp, base_url_vars=variables, network=network)
    options = with_fork(options, live_from, model)
    options.check()
    options = options.with_record_mode()
    policy = ExitPolicy(options, command, is_strict=strict_unused, may_ask_nothing=allow_no_calls)
    file = WireReportFile(report, options, command)
    check = _golden_check(golden)
    options.fault_plan()
    named_base_urls(base_url_var, "")
    _check_command(command[0])
    if not quiet:
        print_notes(options)
        print_fork(options)
    end, tally = _run(command, options, port=port, report=file, time_limit_s=time_limit)
    decision = policy.decide(end, tally)
    decision = decision if check is None else check.decide(decision, tally, options)
    file.finish(tally, exit_code=decision.code, command_exit_code=end.code)
    summary = WireSummary(
        tally, options.recording, is_folder=options.is_folder, is_quiet=quiet, is_strict=strict_unused
    )
    summary.print(decision)
    if options.record is not None and (tally.failed or not (tally.totals.tries or end.code == 0)):
        _print_key_advice(tally, options)
    if not quiet:
        print_fork_outcome(options, tally)
    raise typer.Exit(decision.code)


def _golden_check(path: str | None) -> GoldenCheck | None:
    if path is None:
        return None
    from offbook.cli.runners.golden import GoldenCheck

    return GoldenCheck.load(path)


def _print_key_advice(tally: WireTally, options: WireArguments) -> None:
    """Print which key is not set, if live calls have failed that need one, or if the program failed before any."""
    import os

    from offbook.cli.output.console import print_message
    from offbook.vendors import VENDORS, missing_keys
    from offbook.wire.proxy.upstream import missing_key_advice

    moved = [line.partition("=")[0] for line in options.upstreams]
    advice = missing_key_advice(tally.calls, os.environ, moved=moved)
    keyed = [name for name, vendor in VENDORS.items() if vendor.needs_key and not vendor.is_opt_in]
    if not tally.totals.tries and len(missing := missing_keys(keyed, os.environ)) == len(keyed):
        advice = f"it failed before its first call; SDKs want a key, and none is set: {', '.join(missing)}"
    if advice:
        print_message("  hint: ", advice, is_err=True)


def _run(
    command: list[str], options: WireArguments, *, port: int, report: WireReportFile, time_limit_s: float | None
) -> tuple[ChildExit, WireTally]:
    """Run the command next to a server, and return how it ended and the tally of its calls."""
    import os

    from msgspec.structs import replace

    from offbook.cli import SIGNALLED
    from offbook.cli.run_program import run_child
    from offbook.cli.runners.mcp_servers import McpServers
    from offbook.cli.runners.wire import (
        EffectReports,
        child_environment,
        discard_empty_recording,
        keep_recording_of_failure,
        tally_wire_calls,
    )
    from offbook.wire.intercept.program_network import ProgramNetwork
    from offbook.wire.server.wire_server import WireServer

    wire_options = options.wire_options(os.environ)
    with (
        options.events.open() as sink,
        discard_empty_recording(options.record),
        _muted_misses(),
        EffectReports(os.environ) as effects,
        McpServers(options, os.environ) as mcp,
        ProgramNetwork(options.network, os.environ) as network,
        WireServer(
            replace(wire_options, sink=sink), port=port, mount=mcp.hub, interception=network.interception
        ) as server,
    ):
        report.begin()
        try:
            environment = child_environment(os.environ, server, network, options.base_url_vars)
            environment |= effects.variables | mcp.point_to(server)
            end = run_child(mcp.command(command), environment, time_limit_s=time_limit_s)
        except OSError as error:
            raise typer.Exit(_print_not_started(command[0], error)) from None
        usage = [*server.unused_exchanges(), *mcp.unused(server)], server.overused_exchanges()
        keep_recording_of_failure(end, options)
        reported = effects.read(server, is_cut_off=end.is_late or end.code > SIGNALLED)
    tally = tally_wire_calls(server, usage, options.fault_plan(), reported)
    return end, replace(tally, network=network.tally)


def _check_command(name: str) -> None:
    """Exit if there is no such program, before anything is said about it."""
    import shutil
    from pathlib import Path

    if shutil.which(name) is None and not Path(name).exists():
        raise typer.Exit(_print_not_started(name, FileNotFoundError()))


def _print_not_started(name: str, error: OSError) -> int:
    """Print why the command could not be started, and return the exit code that shells use for it."""
    from offbook.cli import NOT_EXECUTABLE, NOT_FOUND
    from offbook.cli.output.console import print_message
    from offbook.tools.child_process import interpreter_hint

    is_missing = isinstance(error, FileNotFoundError)
    print_message(
        "error: ", f"{name}: {'command not found' if is_missing else error.strerror}", style="bold red", is_err=True
    )
    if hint := interpreter_hint(name):
        print_message("  hint: ", hint, is_err=True)
    return NOT_FOUND if is_missing else NOT_EXECUTABLE


@contextmanager
def _muted_misses() -> Iterator[None]:
    """Keep the server from logging misses: they are printed when the command has ended."""
    import logging

    logger = logging.getLogger("offbook.wire")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
