"""Runs a program for `offbook tools`: once, with the calls of its functions noted, and says which of them are tools."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from offbook.cli import FAILED, FINE, MISMATCH, TIMED_OUT
from offbook.cli.options import check_placeholder
from offbook.cli.output.console import echo, echo_json, print_message
from offbook.cli.run_program import ChildExit, run_child
from offbook.cli.runners.mcp_servers import McpServers
from offbook.cli.runners.wire import child_environment, discard_empty_recording, wire_options_of
from offbook.config.tool_functions import function_line, tool_table, write_functions
from offbook.errors import InputError
from offbook.recording.stores.locate import open_store
from offbook.settings import find_project, resolve
from offbook.subjects.program.called_functions import AskedTools, FoundTool, find_tools, read_noted_calls
from offbook.subjects.program.guest.calls import CALLS_VARIABLE
from offbook.text import pluralize
from offbook.tools.child_process import program_hint
from offbook.vendors import agent_variables
from offbook.wire.intercept.program_network import ProgramNetwork
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import WireCall
from offbook.wire.settings import ExecArguments
from offbook.wire.tool_variables import tool_variables

STDERR = 2
_NODE = re.compile(r"(node|npm|npx|pnpm|yarn|bun|deno|tsx|ts-node)(\.\w+)?|.*\.[mc]?[jt]s")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# fmt: off
_EFFECTS = frozenset((
    "add", "approve", "append", "assign", "book", "buy", "cancel", "charge", "close", "commit", "create", "delete",
    "deploy", "email", "execute", "insert", "issue", "mail", "merge", "move", "notify", "order", "pay", "place", "post",
    "publish", "purchase", "push", "put", "refund", "register", "remove", "rename", "reserve", "save", "schedule",
    "send", "set", "submit", "transfer", "trigger", "update", "upload", "write",
))
# fmt: on
"""Words in the names of tools that probably change something."""


class ToolsRun:
    """A run of a program in which the functions of its tools are found.

    Raises:
        InputError: there is no command, options exclude each other, or something that they name is missing.
    """

    def __init__(self, command: list[str], *, replay: str | None, record: str | None, intercept: bool) -> None:
        _check(command)
        self._command, self._project = command, find_project()
        named = {"replay": replay, "record": record, "intercept": intercept or None}
        given = {name: value for name, value in named.items() if value is not None}
        options = resolve(ExecArguments, given, project=self._project)
        check_placeholder(command, options.mcp)
        if replay is not None and record is not None:
            raise InputError("--record and --replay exclude each other", hint="leave one of them out")
        variables = (*agent_variables(command), *options.base_url_vars)
        self._options = replace(options, base_url_vars=variables, run_tools=True, faults=(), plan=None)
        if record is not None:
            self._options.check_together()
            _refuse_recorded(record, command)
        self._asked = AskedTools()

    def propose(self, *, is_written: bool, as_json: bool) -> int:
        """Run the program, print the tables of its tools or write them to the config, and return the exit code."""
        with TemporaryDirectory(prefix="offbook-") as folder:
            self._say_start()
            notes = Path(folder) / "calls.jsonl"
            end, missed = self._run(notes, Path(folder) / "run.json")
            was_observed = notes.exists()
            noted = read_noted_calls(notes.read_bytes().splitlines() if was_observed else ())
        here = os.path.join(os.getcwd(), "")
        noted = [replace(call, place=call.place.removeprefix(here)) for call in noted]
        found = find_tools(self._asked, noted)
        if not was_observed:
            found = [replace(each, reason=_UNOBSERVED) if each.status == "not found" else each for each in found]
        new = {each.tool: each.function for each in found if each.status == "found" and not self._declared(each.tool)}
        written = write_functions(self._project, new) if is_written and new else None
        if as_json:
            document = {"tools": found, "written": None if written is None else str(written)}
            echo_json(msgspec.json.encode(document))
        else:
            echo(self._text(found, written))
        return self._end(found, end, missed=missed, written=written)

    def _run(self, notes: Path, temporary: Path) -> tuple[ChildExit, int]:
        """Run the program, and return how it ended, and how many of its calls the recording had no answer for."""
        options = self._options
        if options.replay is None and options.record is None:
            options = replace(options, record=str(temporary))
        options = options.fitting(options)

        def on_call(call: WireCall) -> None:
            self._asked.note(call, server.session(call.session).tool_turns, at_s=time.monotonic())

        with (
            discard_empty_recording(options.record),
            McpServers(options, os.environ) as mcp,
            ProgramNetwork(options.network, os.environ) as network,
            WireServer(
                wire_options_of(options, os.environ, on_call=on_call),
                port=options.port,
                mount=mcp.hub,
                interception=network.interception,
            ) as server,
        ):
            environment = child_environment(os.environ, server, network, options.base_url_vars)
            environment |= mcp.point_to(server)
            environment |= tool_variables(environment, server.url, options.tools) | {CALLS_VARIABLE: str(notes)}
            try:
                end = run_child(mcp.command(self._command), environment, time_limit_s=options.time_limit, stdout=STDERR)
            except OSError as error:
                reason = f"cannot be started: {error.strerror}"
                raise InputError(reason, source=self._command[0], hint=program_hint(self._command[0])) from None
            missed = len(server.misses)
        return end, missed

    def _say_start(self) -> None:
        options = self._options
        if options.replay is not None:
            message = f"models are answered from {options.replay}; the program's tools run for real"
        else:
            kept = "the recording is not kept" if options.record is None else f"recorded in {options.record}"
            message = f"the program runs once, with its real models and tools; {kept}"
        print_message("offbook: ", message, is_err=True)

    def _declared(self, tool: str) -> str:
        """Return the function that the config names for a tool."""
        settings = self._options.tools.get(tool)
        return "" if settings is None else settings.function or ""

    def _text(self, found: Sequence[FoundTool], written: Path | None) -> str:
        """Return the tables of the tools that are found, and comments about the others."""
        blocks = [self._table(each) for each in found if each.status == "found" and written is None]
        comments = [f"# {each.tool}: {self._comment(each)}" for each in found if each.status != "found"]
        return "\n\n".join([*blocks, *(["\n".join(comments)] if comments else [])])

    def _table(self, found: FoundTool) -> str:
        lines = [tool_table(found.tool), function_line(found.function)]
        if declared := self._declared(found.tool):
            reason = f"the config names {declared}, which was not called; {found.function} was"
            return f"# {found.tool}: {reason}"
        if found.tool in self._options.tools:
            lines[0] = f"# in the table that is there:\n{lines[0]}"
        if found.reason:
            lines[1] += f"  # {found.reason}"
        if found.others:
            lines.append(f"# called with the same arguments: {', '.join(found.others)}")
        words = {word.lower() for word in _WORDS.findall(found.tool)}
        if words & _EFFECTS and not self._knows_effect(found.tool):
            lines.append("# effect = true  # if it changes something outside")
        return "\n".join(lines)

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

    def _end(self, found: Sequence[FoundTool], end: ChildExit, *, missed: int, written: Path | None) -> int:
        """Say on stderr what was found and what went wrong, and return the exit code."""
        new, lost = (sum(each.status == status for each in found) for status in ("found", "not found"))
        message = f"{pluralize(new, 'tool')} found" + (f", {lost} not found" if lost else "")
        if written is not None:
            message += f"; written to {written}"
        elif new:
            message += "; paste the tables into offbook.toml, or add --write"
        elif found and not lost:
            message = "no tool needs a line in offbook.toml"
        print_message("offbook: ", message, is_err=True)
        if new and self._options.recording:
            recording, words = self._options.recording, shlex.join(self._command)
            again = f"offbook exec --record {shlex.quote(recording)} --record-mode fresh -- {words}"
            print_message(
                "offbook: ", f"{recording} has no results of these tools; record it again: {again}", is_err=True
            )
        if end.is_late:
            return _failed("the program reached its time limit and was stopped", TIMED_OUT)
        if missed:
            return _failed(f"the recording has no answer for {pluralize(missed, 'call')} of the program", MISMATCH)
        if not found and not self._asked.was_called:
            return _failed("the program made no model call that offbook could see; try --intercept", MISMATCH)
        if end.code != FINE:
            return _failed(f"the program failed with exit code {end.code}", FAILED)
        return FAILED if lost else FINE


def _check(command: Sequence[str]) -> None:
    if not command:
        raise InputError("a command is missing", source="tools", hint="offbook tools -- python my_agent.py")
    if shutil.which(command[0]) is None and not Path(command[0]).exists():
        raise InputError("command not found", source=command[0], hint=program_hint(command[0]))
    if _NODE.fullmatch(Path(command[0]).name):
        hint = f"write them by hand: {tool_table('refund')} {function_line('./tools.mjs:refund')}"
        raise InputError("only functions of Python programs are found", source=command[0], hint=hint)


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
    "no process of Python 3.11 or later was observed; the flags -S, -I and -E of Python keep offbook out of the program"
)
