"""Runs a program for `offbook tools` once, notes its function calls, and determines its tools."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from offbook.cli import FAILED, FINE, MISMATCH, TIMED_OUT
from offbook.cli.options import check_placeholder
from offbook.cli.output.console import echo, echo_json, print_message
from offbook.cli.run_program import ChildExit, run_child
from offbook.cli.runners.exec import refuse_misplaced
from offbook.cli.runners.mcp_servers import McpServers
from offbook.cli.runners.wire import child_environment, discard_empty_recording, recognise, wire_options_of
from offbook.config.tool_functions import add_tool_lines, function_line, tool_table
from offbook.errors import InputError
from offbook.presets.preset import with_preset
from offbook.private_folder import PrivateFolder
from offbook.recording.recorded_tools import RecordedTools
from offbook.recording.stores.locate import open_store
from offbook.settings import find_project, resolve
from offbook.subjects.program.called_functions import AskedTools, FoundTool, find_tools, read_noted_calls
from offbook.subjects.program.guest.calls import CALLS_VARIABLE
from offbook.text import pluralize
from offbook.tools.child_process import program_hint
from offbook.wire.intercept.program_network import ProgramNetwork
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import WireCall
from offbook.wire.settings import ExecArguments
from offbook.wire.tool_variables import tool_variables

STDERR = 2
UNKEPT = "run.json"
"""The recording of a run in a temporary folder, which is discarded."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# fmt: off
_EFFECTS = frozenset((
    "add", "approve", "append", "assign", "book", "buy", "cancel", "charge", "close", "commit", "create", "delete",
    "deploy", "email", "execute", "insert", "issue", "mail", "merge", "move", "notify", "order", "pay", "place", "post",
    "publish", "purchase", "push", "put", "refund", "register", "remove", "rename", "reserve", "save", "schedule",
    "send", "set", "submit", "transfer", "trigger", "update", "upload", "write",
))
# fmt: on
"""Words in tool names that suggest an effect."""


class ToolsRun:
    """A run of a program that finds its tools' functions.

    Raises:
        InputError: there is no command, options exclude each other, or something that they name is missing.
    """

    def __init__(self, command: list[str], *, replay: str | None, record: str | None, intercept: bool) -> None:
        _check(command, has_recording=replay is not None or record is not None)
        self._command, self._project = command, find_project()
        self._is_kept = record is not None
        if record is not None:
            _refuse_recorded(record, command)
        named = {"replay": replay, "record": record, "intercept": intercept or None}
        if replay is None and record is None:
            named["record"] = UNKEPT
        values = {name: value for name, value in named.items() if value is not None}
        options, given = (resolve(ExecArguments, values, project=each) for each in (self._project, None))
        check_placeholder(command, options.mcp)
        given.check_together()
        self._program = recognise(options, command)
        options = with_preset(options.fitting(given), self._program.preset)
        self._options = replace(options, run_tools=True)
        self._asked = AskedTools()

    def propose(self, *, is_written: bool, as_json: bool) -> int:
        """Run the program, print the tables of its tools or write them to the config, and return the exit code."""
        with PrivateFolder() as folder:
            self._say_start()
            notes = Path(folder) / "calls.jsonl"
            if not self._options.replay and not self._is_kept:
                self._options = replace(self._options, record=str(Path(folder) / UNKEPT))
            end, missed = self._run(notes)
            was_observed = notes.exists()
            noted = read_noted_calls(notes.read_bytes().splitlines() if was_observed else ())
        here = f"{Path.cwd()}{os.sep}"
        noted = [replace(call, place=call.place.removeprefix(here)) for call in noted]
        found = [self._checked(each, was_observed=was_observed) for each in find_tools(self._asked, noted)]
        tables = {each.tool: self._lines(each) for each in found if each.status == "found"}
        written = str(add_tool_lines(self._project, tables)).removeprefix(here) if is_written and tables else ""
        if as_json:
            echo_json(msgspec.json.encode({"tools": found, "written": written or None}))
        elif text := self._text(found, {} if written else tables):
            echo(text)
        self._say_found(found, written)
        return self._exit_code(found, end, missed=missed)

    def _run(self, notes: Path) -> tuple[ChildExit, int]:
        """Run the program, and return its ending and the number of its unanswered calls."""
        options = self._options

        def on_call(call: WireCall) -> None:
            self._asked.note(call, server.session(call.session).tool_turns, at_s=time.monotonic())

        with (
            discard_empty_recording(options.record),
            McpServers(options, os.environ) as mcp,
            ProgramNetwork(options.network, os.environ) as network,
            WireServer(
                wire_options_of(options, os.environ, on_call=on_call),
                port=options.port,
                token="" if options.open else network.token,
                mount=mcp.hub,
                interception=network.interception,
            ) as server,
        ):
            environment = child_environment(os.environ, server, network, options.base_url_vars, program=self._program)
            environment |= mcp.point_to(server)
            environment |= tool_variables(environment, server.url, options.tools) | {CALLS_VARIABLE: str(notes)}
            try:
                end = run_child(
                    mcp.command(self._program.command(self._command, server.url, bare_url=server.bare_url)),
                    environment,
                    time_limit_s=options.time_limit,
                    stdout=STDERR,
                )
            except OSError as error:
                reason = f"cannot be started: {error.strerror}"
                raise InputError(reason, source=self._command[0], hint=program_hint(self._command[0])) from None
            missed = len(server.misses)
        for remark in (remark for tools in server.program_tools for remark in tools.remarks):
            print_message("note: ", remark, is_err=True)
        return end, missed

    def _say_start(self) -> None:
        options = self._options
        if options.replay is not None:
            message = f"models are answered from {options.replay}; the program's tools run for real"
        else:
            kept = f"recorded in {options.record}" if self._is_kept else "the recording is not kept"
            message = f"the program runs once, with its real models and tools; {kept}"
        print_message("offbook: ", message, is_err=True)

    def _declared(self, tool: str) -> str:
        """Return the function that the config names for a tool."""
        settings = self._options.tools.get(tool)
        return "" if settings is None else settings.function or ""

    def _checked(self, found: FoundTool, *, was_observed: bool) -> FoundTool:
        """Return a tool as not found if the config names another function, or report why no call was noted."""
        if found.status == "not found" and not was_observed:
            return replace(found, reason=_UNOBSERVED)
        if found.status == "found" and (declared := self._declared(found.tool)):
            reason = f"the config names {declared}, which was not called; {found.function} was"
            return FoundTool(tool=found.tool, status="not found", reason=reason)
        return found

    def _text(self, found: Sequence[FoundTool], tables: Mapping[str, Sequence[str]]) -> str:
        """Return the tables of the found tools, and comments on the others."""
        blocks = ["\n".join([*self._head(tool), *lines]) for tool, lines in tables.items()]
        comments = [f"# {each.tool}: {self._comment(each)}" for each in found if each.status != "found"]
        return "\n\n".join([*blocks, *(["\n".join(comments)] if comments else [])])

    def _head(self, tool: str) -> list[str]:
        remark = ["# in the table that the config has:"] if tool in self._options.tools else []
        return [*remark, tool_table(tool)]

    def _lines(self, found: FoundTool) -> list[str]:
        """Return the lines of the table of a tool."""
        remark = f"  # {found.reason}" if found.reason else ""
        lines = [function_line(found.function) + remark]
        if found.others:
            lines.append(f"# called with the same arguments: {', '.join(found.others)}")
        words = {word.lower() for word in _WORDS.findall(found.tool)}
        if words & _EFFECTS and not self._knows_effect(found.tool):
            lines.append("# effect = true  # if it changes something outside")
        return lines

    def _knows_effect(self, tool: str) -> bool:
        settings = self._options.tools.get(tool)
        return settings is not None and (settings.effect or settings.read_only)

    def _comment(self, found: FoundTool) -> str:
        if found.status == "taken over":
            by = "the config names its function" if self._declared(found.tool) else "its framework announces it"
            return f"taken over already: {by}"
        if found.status == "mcp":
            return "a tool of an MCP server, which needs no line: --mcp records and replays it"
        if found.status == "not asked":
            return "not known: the model did not ask for it in this run"
        others = f": {', '.join(found.others)}" if found.others else ""
        return f"not found: {found.reason}{others}"

    def _say_found(self, found: Sequence[FoundTool], written: str) -> None:
        """Report the number of found tools on stderr, and the next step."""
        new, lost = ([each.tool for each in found if each.status == status] for status in ("found", "not found"))
        message = f"{pluralize(len(new), 'tool')} found" + (f", {len(lost)} not found" if lost else "")
        if written:
            message += f"; written to {written}"
        elif new:
            message += "; paste the tables into offbook.toml, or add --write"
        elif unknown := sum(each.status == "not asked" for each in found):
            message = f"{pluralize(unknown, 'tool')} not known: use a run in which the model asks for them"
        elif not lost:
            message = "no tool needs a line in offbook.toml" if found else "the model asked for no tool"
        print_message("offbook: ", message, is_err=True)
        recording = self._options.recording if self._is_kept or self._options.replay else ""
        if recording and (missing := set(new) - RecordedTools(recording).answered):
            again = ["offbook", "exec", "--record", recording, "--record-mode", "fresh", "--", *self._command]
            lacks = f"{recording} has no results of {', '.join(sorted(missing))}"
            message = f"{lacks}: with the tables in offbook.toml, record it again: {shlex.join(again)}"
            print_message("offbook: ", message, is_err=True)

    def _exit_code(self, found: Sequence[FoundTool], end: ChildExit, *, missed: int) -> int:
        """Return the exit code, and report problems on stderr."""
        if end.is_late:
            return _failed("the program reached its time limit and was stopped", TIMED_OUT)
        if missed:
            return _failed(f"the recording has no answer for {pluralize(missed, 'call')} of the program", MISMATCH)
        if end.code != FINE:
            return _failed(f"the program failed with exit code {end.code}", FAILED)
        if not self._asked.was_called:
            return _failed("the program made no model call that offbook could see; try --intercept", MISMATCH)
        is_known = any(each.status not in ("not found", "not asked") for each in found)
        has_lost = any(each.status == "not found" for each in found)
        return FAILED if has_lost or (found and not is_known) else FINE


def _check(command: Sequence[str], *, has_recording: bool) -> None:
    if not has_recording:
        refuse_misplaced(command, "tools")
    if not command:
        raise InputError("a command is missing", source="tools", hint="offbook tools -- python my_agent.py")
    if shutil.which(command[0]) is None and not Path(command[0]).exists():
        raise InputError("command not found", source=command[0], hint=program_hint(command[0]))


def _refuse_recorded(location: str, command: Sequence[str]) -> None:
    """Raise InputError if a recording has exchanges already."""
    store = open_store(location)
    if store.exists() and (size := store.load().size):
        words = ["offbook", "tools", "--replay", location, "--", *command]
        hint = f"name another file, or replay it: {shlex.join(words)}"
        raise InputError(f"the recording has {pluralize(size, 'exchange')} already", source=location, hint=hint)


def _failed(reason: str, code: int) -> int:
    print_message("error: ", reason, style="bold red", is_err=True)
    return code


_UNOBSERVED = (
    "no process of Node, or of Python 3.11 or later, was observed; the flags -S, -I and -E of Python keep offbook out "
    "of the program"
)
