"""offbook exec: runs any program, with its model calls answered from a recording, or recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from offbook.cli.declared import with_options
from offbook.cli.options import check_placeholder
from offbook.wire.settings import ExecArguments

if TYPE_CHECKING:
    from offbook.cli.output.wire import WireReportFile
    from offbook.cli.run_program import ChildExit
    from offbook.cli.runners.wire import ExitDecision, WireTally
    from offbook.scenarios.trajectory.golden import GoldenFile


SETTINGS = {"context_settings": {"allow_interspersed_args": False}}


@with_options(ExecArguments)
def execute(
    options: ExecArguments,
    given: ExecArguments,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ] = None,
) -> None:
    """Run any program, and record or replay its model calls.

    Its calls to OpenAI, Anthropic, Gemini, Ollama, Bedrock, Azure and Vertex AI
    go to a local server. The program keeps its input, output, signals and exit
    code; offbook writes to stderr.

    Exits with 3 if the recording had no answer for a call, even if the program
    succeeded, and if the program made no call, or reached none of its recorded
    MCP servers here; with 1 if a planned fault never
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
    from offbook.cli.runners.wire import ExitPolicy, print_notes, with_record_mode
    from offbook.errors import InputError
    from offbook.vendors import agent_variables, named_base_urls

    if given.replay is given.record is None:
        _refuse_misplaced(command or [])
    if not command:
        raise InputError("a command is missing", source="exec", hint="offbook exec --replay PATH -- COMMAND …")
    check_placeholder(command, options.mcp)
    if options.time_limit is not None and not options.time_limit > 0:
        reason = f"{options.time_limit:g} is not a time limit"
        raise InputError(reason, source="--time-limit", hint="use a number above 0")
    given.check_together()
    named_base_urls(options.base_url_vars, "")
    options = replace(options.fitting(), base_url_vars=(*agent_variables(command), *options.base_url_vars))
    options = with_record_mode(_with_fork(options))
    file = WireReportFile(options.report, options, command)
    approved = _load_golden(options.golden)
    options.fault_plan()
    _check_command(command[0])
    if not options.quiet:
        print_notes(options)
        _print_fork(options)
    end, tally = _run(command, options, report=file)
    decision = ExitPolicy(options, command).decide(end, tally)
    if approved is not None:
        decision = _golden_decision(decision, tally, options, approved)
    file.finish(tally, exit_code=decision.code, command_exit_code=end.code)
    summary = WireSummary(
        tally,
        options.recording,
        recorded_in=_kept_beside(options),
        is_folder=options.is_folder,
        is_quiet=options.quiet,
        is_strict=options.strict_unused,
    )
    summary.print(decision)
    if options.record is not None and (tally.failed or not (tally.totals.tries or end.code == 0)):
        _print_key_advice(tally, options)
    if not options.quiet:
        _print_fork_outcome(options, tally)
    raise typer.Exit(decision.code)


def _refuse_misplaced(words: list[str]) -> None:
    """Raise InputError if a recording comes in the place of the command, or its option after it."""
    import shlex

    from offbook.errors import InputError

    option = next((word for word in words[:-1] if word in ("--replay", "--recording", "--record")), "")
    is_first = bool(words) and words[0].endswith(".json")
    if not option and not is_first:
        return
    place = words.index(option) if option else 0
    recording = words[place + 1] if option else words[0]
    rest = [*words[:place], *words[place + 2 :]] if option else [word for word in words[1:] if word != "--"]
    hint = f"type: {shlex.join(['offbook', 'exec', option or '--replay', recording, '--', *rest])}"
    raise InputError("the recording comes before the command", source=recording, hint=hint)


def _with_fork(options: ExecArguments) -> ExecArguments:
    """Return the options of a run that leaves its recording at the call of --live-from, if there is one.

    The new recording is `today.live-from-4.json` beside `today.json`, unless the options name another.

    Raises:
        InputError: the new recording has exchanges already, or is the one that is left.
    """
    from msgspec.structs import replace

    number = options.live_from_call
    if number is None or options.replay is None:
        return options
    forked = replace(options, record=options.record or _fork_recording(options.replay, number))
    _check_fork_recording(forked)
    return forked


def _fork_recording(recording: str, number: int) -> str:
    from pathlib import Path

    from offbook.errors import InputError

    if "://" in recording:
        raise InputError("a fork needs a new recording", source="--live-from", hint="add --record PATH")
    return str(Path(recording).with_suffix(f".live-from-{number}.json"))


def _check_fork_recording(options: ExecArguments) -> None:
    from offbook.errors import InputError
    from offbook.recording.stores.locate import open_store

    store = open_store(options.record or "")
    if store.identity == open_store(options.replay or "").identity:
        raise InputError(
            "a fork does not write to the recording that it follows", source="--record", hint="name another"
        )
    if options.record_mode is None and store.exists() and store.load().size:
        hint = "--record-mode fresh replaces it, and --record PATH writes another"
        raise InputError("the recording of the fork is there already", source=store.location, hint=hint)


def _print_fork(options: ExecArguments) -> None:
    """Say on stderr which calls are about to be live, if some are."""
    from offbook.cli.output.console import print_message

    if options.live_from_call is not None:
        model = f" with {options.model}" if options.model else ""
        message = f"live from call {options.live_from_call} on{model}; the whole run is recorded in {options.record}"
        print_message("offbook: ", message, is_err=True)


def _print_fork_outcome(options: ExecArguments, tally: WireTally) -> None:
    """Say on stderr what was replayed, what was live, and what that has cost."""
    from offbook.cli.output.console import print_message
    from offbook.text import format_usd, pluralize

    if options.live_from_call is not None:
        served, live = tally.totals.outcomes["served"], tally.totals.outcomes["recorded"]
        parts = [f"{served:,} from {options.replay}", f"{live:,} live for ${format_usd(tally.totals.cost_usd) or '0'}"]
        recording = _kept_beside(options) or options.record
        message = f"{pluralize(served + live, 'answer')}: {', '.join(parts)}; recorded in {recording}"
        print_message("offbook: ", message, is_err=True)


def _kept_beside(options: ExecArguments) -> str:
    """Return where the recorded calls are if the recording stays as it was, because the run failed; empty if not."""
    from offbook.recording.replace_on_close import kept_beside
    from offbook.recording.stores.locate import open_store

    return "" if options.record is None else kept_beside(open_store(options.record))


def _load_golden(path: str | None) -> tuple[str, GoldenFile] | None:
    if path is None:
        return None
    from offbook.scenarios.trajectory.golden import load_golden

    return path, load_golden(path)


def _golden_decision(
    decision: ExitDecision, tally: WireTally, options: ExecArguments, approved: tuple[str, GoldenFile]
) -> ExitDecision:
    """Return the decision about a run; one that succeeded is a failure if its tool calls are not those approved."""
    import shlex

    from offbook.cli import FAILED, FINE
    from offbook.cli.runners.wire import ExitDecision
    from offbook.scenarios.trajectory.golden import describe_difference, turn_of

    path, golden = approved
    match = golden.match([turn_of(turn) for turn in tally.tool_turns])
    if decision.code != FINE or match:
        return decision
    recording = shlex.quote(options.record or options.recording)
    hint = f"approve them: offbook recording approve {recording} --golden {shlex.quote(path)}"
    return ExitDecision(FAILED, f"the tool calls are {describe_difference(match, golden)}", hint)


def _print_key_advice(tally: WireTally, options: ExecArguments) -> None:
    """Print which key is not set, if live calls have failed that need one, or if the program failed before any."""
    import os

    from offbook.cli.output.console import print_message
    from offbook.wire.proxy.upstream import missing_key_advice

    moved = [line.partition("=")[0] for line in options.upstreams]
    if advice := missing_key_advice(tally.calls, os.environ, moved=moved, has_begun=bool(tally.totals.tries)):
        print_message("  hint: ", advice, is_err=True)


def _run(command: list[str], options: ExecArguments, *, report: WireReportFile) -> tuple[ChildExit, WireTally]:
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
        events_of,
        keep_recording_of_failure,
        tally_wire_calls,
        wire_options_of,
    )
    from offbook.wire.intercept.program_network import ProgramNetwork
    from offbook.wire.server.wire_server import WireServer

    wire_options = wire_options_of(options, os.environ)
    with (
        events_of(options).open() as sink,
        discard_empty_recording(options.record),
        _muted_misses(),
        EffectReports(os.environ) as effects,
        McpServers(options, os.environ, sink=sink) as mcp,
        ProgramNetwork(options.network, os.environ) as network,
        WireServer(
            replace(wire_options, sink=sink), port=options.port, mount=mcp.hub, interception=network.interception
        ) as server,
    ):
        report.begin()
        try:
            environment = child_environment(os.environ, server, network, options.base_url_vars)
            environment |= effects.variables | mcp.point_to(server)
            end = run_child(mcp.command(command), environment, time_limit_s=options.time_limit)
        except OSError as error:
            raise typer.Exit(_print_not_started(command[0], error)) from None
        unused_tools = mcp.unused(server)
        usage = [*server.unused_exchanges(), *unused_tools], server.overused_exchanges()
        keep_recording_of_failure(end, options)
        reported = effects.read(server, is_cut_off=end.is_late or end.code > SIGNALLED)
    tally = tally_wire_calls(server, usage, options.fault_plan(), reported)
    tally = replace(tally, network=network.tally, cache=mcp.cache_counts(tally.cache))
    return end, replace(tally, ignored_mcp=mcp.are_ignored(unused_tools))


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
    from offbook.tools.child_process import program_hint

    is_missing = isinstance(error, FileNotFoundError)
    print_message(
        "error: ", f"{name}: {'command not found' if is_missing else error.strerror}", style="bold red", is_err=True
    )
    if hint := program_hint(name):
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
