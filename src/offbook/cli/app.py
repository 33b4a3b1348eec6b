"""The typer application of `offbook`. Each command is imported when called."""

from __future__ import annotations

import re
from enum import EnumType
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from offbook import __version__
from offbook.cli import BAD_INPUT


class QuickParameters:
    """Mixin for typer's commands that converts plain values itself, and keeps Python types out of help.

    Typer converts every value with pydantic, whose import takes longer than typer's.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if hasattr(parameter, "type_descriptor") and "process_value" not in vars(parameter):
                _convert_only_if_needed(parameter)
                _describe_type(parameter)
        return parameters

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, parameters = list(args), self.get_params(ctx)
        _refuse_missing_value(given, parameters, ctx)
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except Exception as error:
            if hasattr(error, "message"):  # a usage error, whose class typer does not export
                known = [name for parameter in parameters for name in parameter.opts if name.startswith("--")]
                _check_moved(getattr(error, "option_name", ""), given, getattr(self.callback, "options_kind", None))  # type: ignore[attr-defined]
                _propose_two_dashes(error, given, known)
                _propose_replay(error, known)
                _propose_recording(error, known, parameters, ctx.command_path)
            raise
        return rest


def _check_moved(flag: str, args: list[str], kind: Any, *, knows_others: bool = True) -> None:
    """Raise InputError for a flag that is spelled differently here or belongs to another command, and name the right
    one.
    """
    if not flag or kind is None:
        return
    from offbook.config.sections import COMMAND_OPTIONS
    from offbook.errors import InputError
    from offbook.settings import elsewhere_hint, option_hint

    value = next((arg.partition("=")[2] for arg in args if arg.startswith(f"{flag}=")), "")
    following = args[args.index(flag) + 1 :] if flag in args else []
    if following and not following[0].startswith("-"):
        value = following[0]
    others = COMMAND_OPTIONS if knows_others else ()
    if hint := option_hint(kind, flag, value) or elsewhere_hint(kind, flag, others):
        raise InputError(f"there is no flag {flag}", hint=hint) from None


def _refuse_missing_value(args: list[str], parameters: list[Any], ctx: Any) -> None:
    """Raise a usage error if `--` follows an option that takes a value, because it would become the value."""
    place = args.index("--") if "--" in args else 0
    option = args[place - 1] if place else ""
    if any(option in parameter.opts and not getattr(parameter, "is_flag", True) for parameter in parameters):
        ctx.fail(f"Option {option!r} requires an argument before '--'.")


def _propose_replay(error: Any, known: list[str]) -> None:
    """Name the recording option in the error for a recording given as an argument."""
    extra = re.search(r"unexpected extra argument.*\((\S+\.json|\w+://\S+)", error.message)
    option = next((name for name in known if name in _RECORDING_OPTIONS), "")
    if extra and option:
        error.message += f". Did you mean '{option} {extra[1].rstrip(')')}'?"


_RECORDING_OPTIONS = ("--replay", "--recording", "--mock-responses")
"""The commands' names for the recording that they answer from."""
_WITH_RECORDING = "exec, explore, replay, run, serve, test, tools"
_RECORDING_ARGUMENTS = ("file", "files", "recording", "old", "source", "places")


def _propose_recording(error: Any, known: list[str], parameters: list[Any], command: str) -> None:
    """Name the place of the recording in the error of an option that another command has for it."""
    wrong = getattr(error, "option_name", "")
    if wrong not in _RECORDING_OPTIONS:
        return
    option = next((name for name in known if name in _RECORDING_OPTIONS), "")
    if option:
        error.possibilities = [option]
        return
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    has_argument = any(each.name in _RECORDING_ARGUMENTS for each in arguments)
    usage = f"it is an argument: {command} PATH" if has_argument else f"commands with it: {_WITH_RECORDING}"
    error.message, error.possibilities = f"No such option: {wrong}; {usage}", []


def _propose_two_dashes(error: Any, args: list[str], known: list[str]) -> None:
    """Name the long option in the error for one typed with a single dash."""
    from offbook.text import closest_name

    letter = getattr(error, "option_name", "")[1:]
    words = [arg.partition("=")[0] for arg in args if re.match(r"-\w{2}", arg)]
    word = next((word for word in words if letter and letter in word), "")
    if word and len(letter) == 1 and (close := closest_name(f"-{word}", known)):
        error.message, error.possibilities = f"No such option: {word}", [close]


_TYPE_NAMES = {bool: None, str: "TEXT", list[str]: "TEXT", int: "N", float: "N"}
"""The help's names for the values of options without a metavar. A flag has none."""


def _describe_type(parameter: Any) -> None:
    annotation = parameter.type_descriptor.annotation
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: None
    elif parameter.metavar is None and annotation in _TYPE_NAMES:
        parameter.display_type_rich = lambda ctx: _TYPE_NAMES[annotation]


def _convert_only_if_needed(parameter: Any) -> None:
    convert, annotation = parameter.process_value, parameter.type_descriptor.annotation

    def process_value(ctx: Any, value: Any) -> Any:
        is_default = value is None or value in ((), [], parameter.default)
        if isinstance(value, str) and (problem := _problem_of(parameter.type_descriptor, value)):
            raise typer.BadParameter(problem, ctx=ctx, param=parameter)
        plain = value if is_default and not parameter.required else _plain_value(parameter.type_descriptor, value)
        if plain is None and (value is not None or parameter.required):
            return convert(ctx, value)
        plain = () if plain is None and annotation == list[str] else plain
        return plain if parameter.callback is None else parameter.callback(ctx, parameter, plain)

    parameter.process_value = process_value


def _problem_of(descriptor: Any, value: str) -> str:
    """Return the problem of a number or a choice, or ""."""
    annotation, info = descriptor.annotation, descriptor.parameter_info
    if get_origin(annotation) is Literal:
        return _problem_of_choice(value, get_args(annotation))
    if isinstance(annotation, EnumType):
        members: list[Any] = list(annotation)
        return _problem_of_choice(value, tuple(str(each.value) for each in members))
    if annotation not in (int, float):
        return ""
    number = _number(annotation, value)
    if number is None:
        return f"{value!r} is not {'an integer' if annotation is int else 'a number'}."
    if info.min is not None and number < info.min:
        return f"{value} is less than {info.min:g}."
    return f"{value} is more than {info.max:g}." if info.max is not None and number > info.max else ""


def _problem_of_choice(value: str, choices: tuple[str, ...]) -> str:
    from offbook.text import closest_name

    if value in choices:
        return ""
    close = closest_name(value, choices)
    listed = f"{value!r} is not one of {', '.join(map(repr, choices))}."
    return f"{listed} Did you mean {close!r}?" if close else listed


def _number(kind: type[int | float], value: str) -> int | float | None:
    try:
        number = kind(value)
    except ValueError:
        return None
    return number if -MAX_NUMBER <= number <= MAX_NUMBER else None


MAX_NUMBER = 10**15
"""More than any option can mean; neither infinite nor not a number."""


def _plain_value(descriptor: Any, value: Any) -> Any:
    """Return a valid plain value of the command line (text, a choice or a number), else None."""
    annotation = descriptor.annotation
    if annotation in (str, list[str]) or (get_origin(annotation) is Literal and value in get_args(annotation)):
        return value or None
    return _number(annotation, value) if annotation in (int, float) and isinstance(value, str) else None


def first_argument(args: list[str], parameters: list[Any]) -> int | None:
    """Return the position of the first argument that is neither an option nor an option's value."""
    flags = {name for each in parameters if getattr(each, "is_flag", False) for name in each.opts} | {"--help", "-h"}
    is_value = False
    for place, arg in enumerate(args):
        if not is_value and not arg.startswith("-"):
            return place
        is_value = not is_value and arg not in flags and "=" not in arg
    return None


class QuickCommand(QuickParameters, TyperCommand):
    """A command that imports pydantic only for values that are not plain."""


class LazyCommand(NamedTuple):
    """A command whose module is imported when it is called. `help` is the first line of the function's docstring.

    Its module may have a dict `settings` with further arguments of `typer.Typer.command`.
    """

    module: str
    function: str
    help: str
    settings: str = "SETTINGS"

    @cache  # noqa: B019 - there is one of each command as long as the process lives
    def load(self, name: str) -> Any:
        """Return the command with its options, built once."""
        module = import_module(f"offbook.cli.commands.{self.module}")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"cls": QuickCommand} | getattr(module, self.settings, {})
        function = getattr(module, self.function)
        app.command(name, help=_unwrap(getdoc(function) or ""), **settings)(function)
        return typer.main.get_command(app)


def _unwrap(docstring: str) -> str:
    """Join the lines of each paragraph, so that only the terminal's width wraps help."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", docstring)


class LazyGroup(QuickParameters, TyperGroup):
    """A group that lists its commands from a table and imports only the called one.

    Its help is plain text, because importing typer's panels takes longer than everything else.
    """

    table: ClassVar[dict[str, LazyCommand]] = {}
    elsewhere: ClassVar[dict[str, str]] = {}
    """Replacements for words that people try and that are no commands here."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        listed = {name: TyperCommand(name=name, help=command.help) for name, command in self.table.items()}
        self.commands = {**listed, **self.commands}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.elsewhere:
            ctx.fail(f"No such command {args[0]!r}. {self.elsewhere[args[0]]}.")
        name, command, rest = super().resolve_command(ctx, args)
        if name not in self.table:
            return name, command, rest
        if "--help" not in rest:
            from offbook.recording.redact.rules import redacting, rules_near
            from offbook.settings import find_project

            if (project := find_project()) is not None:
                from offbook.config.sections import check_project

                check_project(project)
            ctx.with_resource(redacting(rules_near()))
        return name, self.table[name].load(name), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(TyperGroup, self).format_help(ctx, formatter)


class MainGroup(LazyGroup):
    """The commands of `offbook`."""

    elsewhere: ClassVar = {
        "help": "Type: offbook -h, or offbook exec -h for one command",
        "version": "Type: offbook --version",
        "record": "Type: offbook exec --record run.json -- COMMAND",
        **{name: f"Type: offbook recording {name}" for name in ("check", "copy", "diff", "import", "export", "show")},
    }
    table: ClassVar = {
        "demo": LazyCommand("demo", "demo", "Show replay, faults and exploration, offline and in seconds."),
        "init": LazyCommand("init", "init", "Create a small project with an agent, a recording and tests."),
        "run": LazyCommand("run", "run", "Run a workflow: live, recorded or mocked."),
        "replay": LazyCommand("replay", "replay", "Run a program or a workflow from a recording, offline."),
        "exec": LazyCommand("exec", "execute", "Record or replay the model and tool calls of any program."),
        "tools": LazyCommand("tools", "tools", "Propose the tools of offbook.toml for a hand-written agent."),
        "agents": LazyCommand("agents", "agents", "List the programs and frameworks that offbook knows."),
        "serve": LazyCommand("serve", "serve", "Serve the model APIs from a recording, or record them."),
        "explore": LazyCommand("explore", "explore", "Replay a recorded run with each fault at each call."),
        "test": LazyCommand("test", "run_tests", "Run scenarios with the agents of the config."),
        "merge": LazyCommand("merge", "merge", "Merge the reports of shards into one."),
        "view": LazyCommand("view", "view", "Show recordings, explorations and scenario runs in the browser."),
        "mcp-server": LazyCommand("view", "mcp_server", "Let a coding agent read recordings and findings, over MCP."),
        "settings": LazyCommand("settings", "settings", "List the options of offbook.toml and their values."),
        "prompts": LazyCommand("test", "prompts", "Show the prompts of simulated users and judges."),
        "runs": LazyCommand("run", "runs", "List the stored runs, or prune them."),
        "resume": LazyCommand("run", "resume", "Resume an interrupted or failed run."),
        "validate": LazyCommand("workflow_file", "validate", "Check workflow files and the files that they include."),
        "graph": LazyCommand("workflow_file", "graph", "Draw a workflow as text, Mermaid or SVG."),
        "schema": LazyCommand("workflow_file", "schema", "Print the JSON schema of a kind of file."),
    }
    sections: ClassVar = {
        "Start here": ("demo", "init", "settings"),
        "Any agent": ("exec", "replay", "explore", "agents", "tools", "serve", "mcp"),
        "Scenarios": ("test", "prompts"),
        "Recordings and reports": ("view", "recording", "merge", "mcp-server"),
        "Workflows": ("run", "resume", "runs", "validate", "graph", "schema"),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        typed = args[0]
        if typed == "replay" and not ctx.resilient_parsing:
            args = self._replayed_program(args)
        name, command, rest = super().resolve_command(ctx, args)
        return "replay" if typed == "replay" else name, command, rest

    def _replayed_program(self, args: list[str]) -> list[str]:
        """Return `replay run.json -- COMMAND` as the arguments of `exec`, and a workflow's unchanged.

        Raises:
            InputError: there are both a workflow and a program, a program is not preceded by `--`, or an option is for
        the
                other of the two.
        """
        import shlex

        from offbook.errors import InputError

        end = args.index("--") if "--" in args else len(args)
        command = "exec" if "--" in args else "replay"
        own, parameters = args[1:end], self.table[command].load(command).params
        self._refuse_foreign(own, command)
        place = first_argument(own, parameters)
        file = "" if place is None else own[place]
        is_workflow = file.endswith((".yaml", ".yml"))
        if command == "replay":
            if place is not None and not is_workflow and own[place + 1 :]:
                _refuse_second(own[:place], file, own[place + 1 :])
            return args
        if is_workflow:
            hint = "offbook replay FLOW --recording PATH, or offbook replay RECORDING -- COMMAND …"
            raise InputError("there are both a workflow and a program", source=file, hint=hint)
        if place is None and not any(word.partition("=")[0] in ("--replay", "--recording") for word in own):
            hint = "offbook replay RECORDING -- COMMAND …; offbook exec --record PATH -- COMMAND … makes a recording"
            raise InputError("there is no recording to replay", source="replay", hint=hint)
        if place is None:
            return ["exec", *args[1:]]
        rest = [*own[:place], *own[place + 1 :]]
        if (second := first_argument(rest, parameters)) is not None:
            hint = f"offbook replay {shlex.quote(file)} -- COMMAND …"
            raise InputError("there are two recordings", source=rest[second], hint=hint)
        return ["exec", "--replay", file, *rest, *args[end:]]

    def _refuse_foreign(self, words: list[str], command: str) -> None:
        """Raise InputError for an option that `replay` has for workflows alone, or for programs alone."""
        from offbook.errors import InputError

        own, other = self.table[command].load(command), "replay" if command == "exec" else "exec"
        known = {name for each in own.params for name in each.opts}
        given = (word.partition("=")[0] for word in words if word.startswith("--"))
        for name in (name for name in given if name not in known):
            if command == "exec":
                _check_moved(name, words, own.callback.options_kind, knows_others=False)
            if any(name in each.opts for each in self.table[other].load(other).params):
                what, usage = _REPLAYED[other]
                hint = _OTHER_SPELLINGS.get(name, f"leave it out, or replay {usage}")
                raise InputError(f"{name} is for {what}", source="replay", hint=hint)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name.ljust(width), self.commands[name].get_short_help_str(80)) for name in names]
                formatter.write_dl(rows)


_REPLAYED = {
    "replay": ("a workflow", "a workflow: offbook replay FLOW --recording PATH"),
    "exec": ("a program", "a program: offbook replay RECORDING -- COMMAND …"),
}
_OTHER_SPELLINGS = {
    "--allow-default-fallback": "for a program it is --lenient",
    "--lenient": "for a workflow it is --allow-default-fallback",
    "--real-time": "for a program it is -o latency_model=replay",
    "--json": "for a program, --report PATH writes JSON",
}
"""The workflow names of `replay`'s program options, and vice versa."""


def _refuse_second(options: list[str], recording: str, words: list[str]) -> None:
    """Raise InputError for a workflow or a program right after a recording, and name the command that replays it."""
    import shlex
    from shutil import which

    from offbook.errors import InputError
    from offbook.tools.child_process import INTERPRETERS

    first, *rest = words
    if first.endswith((".yaml", ".yml")):
        given = shlex.join([*options, first, *rest, "--recording", recording])
        raise InputError("the workflow comes first", source=first, hint=f"type: offbook replay {given}")
    interpreter = INTERPRETERS.get(first[first.rfind(".") :]) if "." in first else None
    if interpreter is not None or which(first):
        program = [*options, recording, "--", *([interpreter] if interpreter else ()), *words]
        raise InputError("a program comes after --", source=first, hint=f"type: offbook replay {shlex.join(program)}")


class RecordingGroup(LazyGroup):
    """The commands of `offbook recording`."""

    elsewhere: ClassVar = {
        "convert": "Type: offbook recording import, export or copy",
        "edit": "A recording is a JSON file: change it in your editor, then type: offbook recording check",
    }

    table: ClassVar = {
        "show": LazyCommand("recording.show", "show", "List the exchanges of a recording, or show one key in full."),
        "check": LazyCommand("recording.check", "check", "Check that recordings can be replayed and hold no secrets."),
        "diff": LazyCommand("recording.diff", "diff", "Show the differences between two recordings, call by call."),
        "verify": LazyCommand(
            "recording.verify", "verify", "Repeat the recorded calls at the live APIs, and report drift."
        ),
        "approve": LazyCommand("recording.approve", "approve", "Make the tool calls of a recording the golden ones."),
        "merge": LazyCommand("recording.edit", "merge", "Merge recordings into one."),
        "copy": LazyCommand("recording.edit", "copy", "Copy a recording to another store."),
        "redact": LazyCommand("recording.edit", "redact", "Remove secrets from recordings, in place."),
        "import": LazyCommand("recording.convert", "import_traces", "Import another tool's recording."),
        "export": LazyCommand("recording.convert", "export", "Export a recording to another tool's format."),
        "prune": LazyCommand("recording.edit", "prune", "Remove old, failed or unwanted exchanges from recordings."),
    }


class McpGroup(LazyGroup):
    """The commands of `offbook mcp`."""

    table: ClassVar = {
        "record": LazyCommand("mcp", "record", "Record an MCP server while a client uses it.", "PROGRAM_SETTINGS"),
        "serve": LazyCommand("mcp", "serve", "Stand in for MCP servers from a recording."),
        "mock": LazyCommand("mcp", "mock", "Serve tools over MCP without a recording."),
        "verify": LazyCommand(
            "mcp", "verify", "Repeat the recorded requests at a live MCP server, and compare.", "PROGRAM_SETTINGS"
        ),
        "check": LazyCommand("mcp", "check", "Check the MCP servers of recordings, and their texts."),
        "diff": LazyCommand("mcp", "diff", "Compare what the MCP servers of two recordings offer."),
    }


_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="offbook",
    cls=MainGroup,
    help="Record what an LLM agent talks to, replay it offline, break it on purpose, and test what the agent does.",
    epilog="Exit codes: 0 success, 1 a failure or a finding, 2 bad input, 3 a replay did not match its recording.",
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT_SETTINGS,
)
recording = typer.Typer(
    cls=RecordingGroup,
    help="Show, check, compare, merge and convert recordings.",
    context_settings=_CONTEXT_SETTINGS,
)
app.add_typer(recording, name="recording")
mcp = typer.Typer(
    cls=McpGroup,
    help="Record, replay and break MCP servers, over stdio and HTTP.",
    context_settings=_CONTEXT_SETTINGS,
)
app.add_typer(mcp, name="mcp")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"offbook {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of `offbook` itself."""
