"""Runs a program for `offbook exec` next to a server, with the messages before and after."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer
from msgspec.structs import replace

from offbook.cli import FAILED, FINE, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED
from offbook.cli.options import check_placeholder, command_notes
from offbook.cli.output.console import print_message
from offbook.cli.output.wire import WireReportFile, WireSummary
from offbook.cli.run_program import ChildExit, run_child
from offbook.cli.runners.mcp_servers import McpServers
from offbook.cli.runners.wire import (
    EffectReports,
    ExitDecision,
    ExitPolicy,
    WireTally,
    child_environment,
    discard_empty_recording,
    events_of,
    place_hint,
    print_notes,
    recognise,
    tally_wire_calls,
    wire_options_of,
    with_record_mode,
)
from offbook.errors import InputError
from offbook.messages import tool_results
from offbook.presets.preset import KnownProgram, with_preset
from offbook.private_folder import PrivateFolder
from offbook.recording.match.folders import NOWHERE, FolderMap, RunFolders
from offbook.recording.recorded_tools import RecordedTools, with_recorded_functions
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import keep_recording, kept_beside
from offbook.settings import fitting_tools, is_pattern, unknown_tools
from offbook.text import format_usd, pluralize
from offbook.tools.child_process import describe_left_running, program_hint
from offbook.vendors import named_base_urls
from offbook.wire.intercept.program_network import ProgramNetwork
from offbook.wire.proxy.upstream import missing_key_advice
from offbook.wire.server.tool_socket import ToolSocket
from offbook.wire.server.wire_server import WireServer
from offbook.wire.settings import ExecArguments
from offbook.wire.tool_variables import tool_variables
from offbook.working_folder import Change, WorkingFolder

if TYPE_CHECKING:
    from offbook.scenarios.trajectory.golden import GoldenFile


def run_program(command: list[str], options: ExecArguments, *, given: ExecArguments) -> int:
    """Run a program with its calls answered or recorded, print the summary, and return the exit code.

    `given` are the options without the config.

    Raises:
        InputError: options exclude each other, or something that they name is missing or wrong.
    """
    options = _with_fork(_checked(options, given, command))
    options = with_record_mode(options)
    program = recognise(options, command)
    options = with_preset(options, program.preset)
    options = _with_recorded(options, command)
    file = WireReportFile(options.report, options, command)
    golden = None if options.golden is None else _load_golden(options.golden)
    options.fault_plan()
    name = Path(command[0])  # looked for on PATH alone if it has no folder
    if shutil.which(command[0]) is None and (name.name == command[0] or not Path(options.workdir or "", name).exists()):
        return _print_not_started(command[0], FileNotFoundError())
    if not options.quiet:
        print_notes(options)
        for note in command_notes(command, ExecArguments, name="exec"):
            print_message("note: ", note, is_err=True)
        if options.live_from_call is not None:
            model = f" with {options.model}" if options.model else ""
            live = f"live from call {options.live_from_call} on{model}"
            print_message("offbook: ", f"{live}; the whole run is recorded in {options.record}", is_err=True)
    end, tally = _run(command, options, report=file, program=program)
    decision = ExitPolicy(options, command).decide(end, tally)
    if golden is not None and decision.code == FINE:
        decision = _golden_decision(golden, tally, options)
    file.finish(tally, exit_code=decision.code, command_exit_code=end.code)
    _print_ending(options, tally, end, decision)
    return decision.code


def _checked(options: ExecArguments, given: ExecArguments, command: list[str]) -> ExecArguments:
    """Return the effective options, if the `given` ones are compatible and there is a command."""
    if given.replay is given.record is None:
        refuse_misplaced(command, "exec")
    if not command:
        raise InputError("a command is missing", source="exec", hint="offbook exec --replay PATH -- COMMAND …")
    check_placeholder(command, options.mcp)
    if options.time_limit is not None and not options.time_limit > 0:
        reason = f"{options.time_limit:g} is not a time limit"
        raise InputError(reason, source="time_limit", hint="use a number above 0")
    given.check_together()
    named_base_urls(options.base_url_vars, "")
    return options.fitting(given)


def _with_recorded(options: ExecArguments, command: Sequence[str]) -> ExecArguments:
    """Return the options with what is declared of the recorded tools, and their places.

    Raises:
        InputError: results of tools are in the recorded conversation alone: the program would run these tools for real.
    """
    location = options.replay
    if location is None:
        return options
    recorded = RecordedTools(location)
    declared = options.tools
    if any(map(is_pattern, declared)):
        declared = fitting_tools(declared, recorded.known)
    options = replace(options, tools=with_recorded_functions(declared, recorded))
    if options.run_tools or options.record is not None or options.mcp is not None or _is_of_offbook(command):
        return options
    harmless = {name for name, tool in options.tools.items() if tool.read_only or tool.run or tool.function}
    names = [name for name in recorded.called if name in recorded.told and name not in recorded.answered | harmless]
    if names := [name for name in names if name not in recorded.steering]:
        reason = f"no result of {', '.join(names)} is recorded: the program would run its tools for real"
        allow = f"--run-tools, or [tools.{names[0]}] run = true"
        hint = f"{place_hint(names[0], options, command)}; then record it again. To allow it: {allow}"
        raise InputError(reason, source=location, hint=hint)
    return options


def _is_of_offbook(command: Sequence[str]) -> bool:
    """Return whether a command is one of offbook, which knows the tools of its own program."""
    return any(Path(word).name == "offbook" for word in command[:3])


def refuse_misplaced(words: Sequence[str], name: str) -> None:
    """Raise InputError if a recording is in the command's place, or its option is after the command."""
    option = next((word for word in words[:-1] if word in ("--replay", "--recording", "--record")), "")
    is_first = bool(words) and words[0].endswith(".json")
    if not option and not is_first:
        return
    place = words.index(option) if option else 0
    recording = words[place + 1] if option else words[0]
    rest = [*words[:place], *words[place + 2 :]] if option else [word for word in words[1:] if word != "--"]
    hint = f"type: {shlex.join(['offbook', name, option or '--replay', recording, '--', *rest])}"
    raise InputError("the recording comes before the command", source=recording, hint=hint)


def _with_fork(options: ExecArguments) -> ExecArguments:
    """Return the options of a run that leaves its recording at the call of --live-from, if given.

    The new recording is `today.live-from-4.json` next to `today.json`, unless the options name another.

    Raises:
        InputError: the new recording has exchanges already, or is the old one.
    """
    number = options.live_from_call
    if number is None or options.replay is None:
        return options
    if options.record is None:
        if "://" in options.replay:
            raise InputError("a fork needs a new recording", source="--live-from", hint="add --record PATH")
        options = replace(options, record=str(Path(options.replay).with_suffix(f".live-from-{number}.json")))
    store = open_store(options.record or "")
    if store.identity == open_store(options.replay or "").identity:
        reason = "a fork does not write to the recording that it follows"
        raise InputError(reason, source="--record", hint="name another")
    if options.record_mode is None and store.exists() and store.load().size:
        hint = "--record-mode fresh replaces it, and --record PATH writes another"
        raise InputError("the recording of the fork exists already", source=store.location, hint=hint)
    return options


def _load_golden(path: str) -> GoldenFile:
    from offbook.scenarios.trajectory.golden import load_golden  # most runs have none

    return load_golden(path)


def _golden_decision(golden: GoldenFile, tally: WireTally, options: ExecArguments) -> ExitDecision:
    """Return the decision about a run that succeeded: a failure if its tool calls are not those approved."""
    from offbook.scenarios.trajectory.golden import describe_difference, turn_of

    match = golden.match([turn_of(turn) for turn in tally.tool_turns])
    if match:
        return ExitDecision(FINE)
    words = ["offbook", "recording", "approve", options.record or options.recording, "--golden", options.golden or ""]
    reason = f"the tool calls are {describe_difference(match, golden)}"
    return ExitDecision(FAILED, reason, f"approve them: {shlex.join(words)}")


def _print_ending(options: ExecArguments, tally: WireTally, end: ChildExit, decision: ExitDecision) -> None:
    """Print the summary, a possibly missing key, and the cost of a fork."""
    kept = "" if options.record is None else kept_beside(open_store(options.record))
    summary = WireSummary(
        tally,
        options.recording,
        recorded_in=kept,
        is_folder=options.is_folder,
        is_quiet=options.quiet,
        is_strict=options.strict_unused,
    )
    summary.print(decision)
    if options.record is not None and (tally.failed or not (tally.totals.tries or end.code == 0)):
        moved = [line.partition("=")[0] for line in options.upstreams]
        if advice := missing_key_advice(tally.calls, os.environ, moved=moved, has_begun=bool(tally.totals.tries)):
            print_message("  hint: ", advice, is_err=True)
    for text in () if options.quiet or not options.tools else unknown_tools(options.tools, _seen_tools(options, tally)):
        print_message("note: ", text, is_err=True)
    if options.live_from_call is not None and not options.quiet:
        served, live = tally.totals.outcomes["served"], tally.totals.outcomes["recorded"]
        parts = f"{served:,} from {options.replay}, {live:,} live for ${format_usd(tally.totals.cost_usd) or '0'}"
        message = f"{pluralize(served + live, 'answer')}: {parts}; recorded in {kept or options.record}"
        print_message("offbook: ", message, is_err=True)


def _seen_tools(options: ExecArguments, tally: WireTally) -> set[str]:
    """Return the tools that the run called or offered to the model, as far as its recording shows."""
    called = {call.name for turn in tally.tool_turns for call in turn}
    with suppress(InputError):  # there may be no recording, as when no call was made
        called |= RecordedTools(options.recording).known
    return called | {effect.tool for effect in tally.effects}


def _run(
    command: list[str], options: ExecArguments, *, report: WireReportFile, program: KnownProgram
) -> tuple[ChildExit, WireTally]:
    """Run the command next to a server, and return its ending and the tally of its calls."""
    wire_options = wire_options_of(options, os.environ, normalise=program.preset.normalise)
    with (
        events_of(options).open(run=f"exec {Path(command[0]).name}") as sink,
        discard_empty_recording(options.record),
        _muted_misses(),
        EffectReports(os.environ) as effects,
        _Place(options) as place,
        McpServers(options, os.environ, sink=sink) as mcp,
        ProgramNetwork(options.network, os.environ) as network,
        WireServer(
            replace(wire_options, sink=sink, folders=place.folders(options)),
            port=options.port,
            token="" if options.open else network.token,
            mount=mcp.hub,
            interception=network.interception,
        ) as server,
    ):
        report.begin()
        try:
            environment = child_environment(os.environ, server, network, options.base_url_vars, program=program)
            environment |= effects.variables | mcp.point_to(server)
            with ToolSocket(server) as socket:
                environment |= tool_variables(environment, server.url, options.tools, socket=socket.path)
                command = place.command(mcp.command(program.command(command, server.url, bare_url=server.bare_url)))
                environment |= place.variables
                end = run_child(command, environment, time_limit_s=options.time_limit, folder=place.folder)
        except OSError as error:
            raise typer.Exit(_print_not_started(command[0], error)) from None
        unused_tools = mcp.uncalled(server)
        usage = [*server.unused_exchanges(), *unused_tools], server.overused_exchanges()
        if options.record is not None and (end.is_late or end.code != FINE):
            keep_recording(open_store(options.record))  # one that is to be replaced stays as it was
        changes = place.changes
        reported = effects.read(server, is_cut_off=end.is_late or end.code > SIGNALLED)
        left = "" if options.open else describe_left_running(server.url)
    tally = tally_wire_calls(server, usage, options.fault_plan(), reported)
    tally = replace(tally, network=network.tally, cache=mcp.cache_counts(tally.cache))
    tally = replace(tally, remarks=[*tally.remarks, left]) if left else tally
    if options.mcp is None and not options.run_tools and not _is_of_offbook(command):
        tally = _with_unseen(tally, options, command)
    return end, replace(tally, ignored_mcp=mcp.are_ignored(unused_tools), files=changes)


class _Place:
    """The program's working folder while the block lasts: the current one, or a copy of --workdir.

    Raises:
        InputError: there is no such folder, or it cannot be copied.
    """

    def __init__(self, options: ExecArguments) -> None:
        self._private = None if options.workdir is None else PrivateFolder()
        self._working: WorkingFolder | None = None
        self.folder: Path | None = None
        if self._private is not None and options.workdir is not None:
            try:
                self._working = WorkingFolder(options.workdir, self._private.name)
                self.folder = self._working.copy_to(self._private.name)
            except InputError:
                self._private.cleanup()
                raise

    def command(self, command: list[str]) -> list[str]:
        """Return the command as it runs there."""
        return command if self._working is None else self._working.words(command)

    @property
    def variables(self) -> dict[str, str]:
        return {} if self.folder is None else {"PWD": str(self.folder)}

    def folders(self, options: ExecArguments) -> FolderMap:
        """Return the folders of the program, by their names in a recording that it makes, or that names none."""
        today = RunFolders.of(os.environ, work=self.folder or Path.cwd())
        if self._working is None:
            return FolderMap(today if options.record else NOWHERE, today)
        recorded = RunFolders.of(os.environ, work=self._working.template)
        return FolderMap(recorded if options.record else RunFolders(work=recorded.work), today)

    @property
    def changes(self) -> dict[str, Change] | None:
        """The files that the program has created, changed and deleted; None if it works in the current folder."""
        return None if self._working is None or self.folder is None else self._working.changes(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._private is not None:
            self._private.cleanup()


def _with_unseen(tally: WireTally, options: ExecArguments, command: Sequence[str]) -> WireTally:
    """Return the tally with the tools that the program ran unseen, whose results its model got."""
    told = {name for call in tally.calls if call.request for name, _ in tool_results(call.request.messages)}
    asked = dict.fromkeys(call.name for turn in tally.tool_turns for call in turn if call.name in told)
    harmless = {name for name, tool in options.tools.items() if tool.read_only or tool.run}
    unseen = [name for name in asked if name not in tally.tools and name not in harmless]
    recording = RecordedTools(options.recording) if unseen else None
    unseen = [] if recording is None else [name for name in unseen if name not in recording.steering]
    if recording is None or not unseen:
        return tally
    recorded = recording.answered if options.record is None else frozenset[str]()
    if unrecorded := [name for name in unseen if name not in recorded]:
        what = (
            "not recorded: no replay starts without them"
            if options.record
            else "not replayed: if the program has such a tool, it ran for real"
        )
        remark = (
            f"the calls of {', '.join(unrecorded)} were {what}\n  hint: {place_hint(unrecorded[0], options, command)}"
        )
        tally = replace(tally, remarks=[*tally.remarks, remark])
    return replace(tally, untaken=unseen, unseen=[name for name in unseen if name in recorded])


def _print_not_started(name: str, error: OSError) -> int:
    """Print why the command could not be started, and return the exit code that shells use for it."""
    is_missing = isinstance(error, FileNotFoundError)
    reason = "command not found" if is_missing else error.strerror
    print_message("error: ", f"{name}: {reason}", style="bold red", is_err=True)
    if hint := program_hint(name):
        print_message("  hint: ", hint, is_err=True)
    return NOT_FOUND if is_missing else NOT_EXECUTABLE


@contextmanager
def _muted_misses() -> Iterator[None]:
    """Keep the server from logging misses, which are printed at the end."""
    logger = logging.getLogger("offbook.wire")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
