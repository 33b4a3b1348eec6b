"""Options of commands: those that several share, those that a struct declares, and the command of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_origin

import typer
from msgspec import Struct

from offbook.cli.app import QuickCommand, first_argument
from offbook.errors import InputError
from offbook.settings import CONFIG_FILE, Setting, find_project, load_project, resolve, settings_of

Recording: TypeAlias = Annotated[
    str, typer.Argument(help="A recording: path.json, sqlite:///path.db, or redis://host/0?prefix=offbook.")
]
Recordings: TypeAlias = Annotated[
    list[str], typer.Argument(help="Recordings: path.json, sqlite:///path.db, or redis://host/0?prefix=offbook.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", "-n", help="Print the changes without making them.")]
Patterns: TypeAlias = Annotated[
    list[str], typer.Option("--pattern", help="Another regular expression for secrets. Repeatable.")
]
Fields: TypeAlias = Annotated[
    list[str], typer.Option("--field", help="Another name of a JSON field that holds a secret. Repeatable.")
]
Personal: TypeAlias = Annotated[
    list[str], typer.Option("--personal", help="Personal data as well: email, phone or card. Repeatable.")
]

Flow: TypeAlias = Annotated[str, typer.Argument(help="A workflow file.", show_default=False)]
Flows: TypeAlias = Annotated[list[str], typer.Argument(help="Workflow files.", show_default=False)]
Settings: TypeAlias = Annotated[
    list[str], typer.Option("--set", help="Set a key of the state to JSON or text: a.b=1. Repeatable.")
]
StateFile: TypeAlias = Annotated[str | None, typer.Option("--state", help="A JSON file with keys of the state.")]
Faults: TypeAlias = Annotated[list[str], typer.Option("--fault", help="Inject a fault: 'call=2: timeout'. Repeatable.")]
Plan: TypeAlias = Annotated[str | None, typer.Option("--plan", help="A JSON file of faults.")]
Trace: TypeAlias = Annotated[
    str | None, typer.Option("--trace", help="Write each event to this file, as a line of JSON.")
]
Declared: TypeAlias = Annotated[
    str, typer.Option("--declared", help="Errors that the agent may raise: NAME,…; for a program, exit codes as well.")
]
Metrics: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="FILE|PORT", help="Write Prometheus metrics to this file at the end, or serve them here."
    ),
]
Spans: TypeAlias = Annotated[
    str | None,
    typer.Option("--spans", metavar="FILE", help="Write OpenTelemetry spans to this file, as lines of JSON."),
]
Otel: TypeAlias = Annotated[
    str | None,
    typer.Option("--otel", metavar="URL", help="Send OpenTelemetry spans and metrics here: http://127.0.0.1:4318."),
]
RUNS_DIR = ".offbook/runs"
RunsDir: TypeAlias = Annotated[str, typer.Option(envvar="OFFBOOK_RUNS_DIR", help="The folder of stored runs.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print failures only.")]
RealTime: TypeAlias = Annotated[bool, typer.Option("--real-time", help="Wait for the recorded latencies.")]
StrictUnused: TypeAlias = Annotated[
    bool, typer.Option("--strict-unused", help="Exit with 3 if a recorded exchange was not used.")
]

HtmlReport: TypeAlias = Annotated[
    str | None, typer.Option("--report", metavar="PATH", help="Write a page with the heatmap and all runs.")
]
ShardOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="K/N",
        help="Run one of N parts of the run: 3/16. offbook merge joins their json=PATH reports.",
    ),
]

RecordMode: TypeAlias = Literal["append", "once", "new", "all", "fresh"]
LatencyModel: TypeAlias = Literal["constant", "normal", "replay"]
RecordModeOption: TypeAlias = Annotated[
    RecordMode | None,
    typer.Option(
        "--record-mode",
        metavar="MODE",
        help="append: add every call; once: record only if there is no recording; new: add missing calls; all: replace "
        "repeated calls; fresh: replace everything.",
    ),
]
Upstreams: TypeAlias = Annotated[
    list[str],
    typer.Option("--upstream", metavar="VENDOR=URL", help="The address of an API: openai=http://host/v1. Repeatable."),
]
LatencyModelOption: TypeAlias = Annotated[
    LatencyModel,
    typer.Option(
        "--latency-model",
        metavar="MODEL",
        help="The latency of answers: --latency-ms (constant), around it (normal), or as recorded (replay).",
    ),
]
LatencyMs: TypeAlias = Annotated[
    float, typer.Option("--latency-ms", min=0, help="The latency of an answer, in milliseconds.")
]


PROGRAM_ARGS_KEY = "offbook.program_args"


class ProgramCommand(QuickCommand):
    """Moves the arguments after the first `--` to `program_args`.

    Raises:
        InputError: there is no `--`, and the first argument is a program.
    """

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[PROGRAM_ARGS_KEY] = args[place + 1 :]
            args = args[:place]
        elif (first := first_argument(args, self.params)) is not None:
            _refuse_program(str(ctx.info_name), args, first)
        return super().parse_args(ctx, args)


def _refuse_program(name: str, args: list[str], place: int) -> None:
    """Raise InputError if the argument at this position is a program, unless it is a Python file."""
    import shlex
    from shutil import which

    if args[place].endswith(".py") or which(args[place]) is None:
        return
    command = shlex.join(["offbook", name, *args[:place], "--", *args[place:]])
    raise InputError("a program comes after --", source=args[place], hint=f"type: {command}")


def program_args(ctx: typer.Context) -> list[str] | None:
    """Return the arguments after `--`, or None without `--`."""
    found: list[str] | None = ctx.meta.get(PROGRAM_ARGS_KEY)
    return found


def check_placeholder(command: Sequence[str], mcp: str | None) -> None:
    """Raise InputError if a command contains `{mcp}` and --mcp is not given."""
    if mcp is None and (word := next((word for word in command if "{mcp}" in word), None)) is not None:
        hint = "name the config of the agent's MCP servers: --mcp .mcp.json"
        raise InputError("{mcp} requires --mcp", source=word, hint=hint)


_MODES = "append adds this run, fresh replaces them, all replaces what is called again, new records what is missing"


def require_record_mode(location: str, mode: RecordMode | None, *, default: RecordMode = "append") -> RecordMode:
    """Return the given record mode, or the default for a recording without exchanges.

    Raises:
        InputError: the recording has exchanges and no mode is given, or it cannot be read.
    """
    from offbook.text import pluralize

    size, failed = (0, 0) if mode is not None else recorded_size(location)
    if size:
        reason = f"there {'is' if size == 1 else 'are'} {pluralize(size, 'exchange')} already"
        if failed == size:
            hint = "no call of that run got an answer: add --record-mode fresh to replace it"
            raise InputError(f"{reason}, and all failed", source=location, hint=hint)
        raise InputError(reason, source=location, hint=f"add --record-mode MODE: {_MODES}")
    return mode or default


def note_recorded(location: str, mode: RecordMode | None) -> None:
    """Note on stderr that exchanges are added to a recording, if no mode is given.

    Raises:
        InputError: the recording cannot be read.
    """
    from offbook.cli.output.console import print_message
    from offbook.text import pluralize

    size, _ = (0, 0) if mode is not None else recorded_size(location)
    if size:
        message = f"{location} has {pluralize(size, 'exchange')}, and this run adds its own"
        print_message("offbook: ", f"{message}; --record-mode fresh replaces the recording", is_err=True)


def recorded_size(location: str) -> tuple[int, int]:
    """Return the number of exchanges in a recording, and of model failures among them."""
    from offbook.recording.call_cache import is_failure
    from offbook.recording.stores.locate import open_store

    store = open_store(location)
    if not store.exists():
        return 0, 0
    document = store.load()
    return document.size, sum(is_failure(exchange) for _, exchange in document)


_ASSIGNMENTS = "assignments"


def with_options(kind: type[Struct]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a struct in place of its first two parameters, which receive their values.

    The first receives all of them, the second those without the config: exclusive options are checked only as given,
    because the config holds for several runs.
    """
    panels: Sequence[str] = getattr(kind, "panels", ("",))
    listed = sorted(settings_of(kind).items(), key=lambda item: panels.index(item[1].option.panel or panels[0]))
    shared = {name: _parameter(setting) for name, setting in listed if setting.flags}
    info = typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Set an option of offbook.toml for this run; offbook settings lists them. Repeatable.",
        autocompletion=lambda: [f"{setting.key}=" for setting in settings_of(kind).values() if setting.is_assigned],
    )
    assignments = Parameter(_ASSIGNMENTS, Parameter.KEYWORD_ONLY, default=[], annotation=Annotated[list[str], info])

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, _, *own = signature(command, eval_str=True).parameters.values()

        def run(**values: Any) -> None:
            texts = values.pop(_ASSIGNMENTS)
            given = {name: value for name in shared if (value := values.pop(name)) is not None and value is not False}
            given = {name: value for name, value in given.items() if value not in ([], ())}
            for name, setting in settings_of(kind).items():
                if setting.option.is_once and name in given:
                    first, *others = given[name]
                    if others:
                        hint = f"keep one of: {', '.join(given[name])}"
                        raise InputError(f"{setting.flags[0]} is given {len(given[name])} times", hint=hint)
                    given[name] = first
            alone = resolve(kind, given, texts, project=None, others=_of_all_commands)
            config = getattr(alone, "config", None)
            project = find_project() if config is None else load_project(config)
            if config is not None and project is not None:
                from offbook.config.sections import check_project

                check_project(project)
            command(resolve(kind, given, texts, project=project), alone, **values)

        run.__doc__, run.options_kind = command.__doc__, kind  # type: ignore[attr-defined]
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared.values(), assignments)]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _of_all_commands() -> Sequence[type[Struct]]:
    from offbook.config.sections import COMMAND_OPTIONS  # no command needs those of others, except for an error

    return COMMAND_OPTIONS


def _parameter(setting: Setting) -> Parameter:
    """Return an option as typer declares it. Its default marks it as not given."""
    is_flag, limits = setting.type is bool, setting.limits
    kind = setting.type if setting.type in (bool, int, float) or get_origin(setting.type) is Literal else str
    is_repeatable = setting.is_list or setting.option.is_once
    annotation = list[str] if is_repeatable else kind if is_flag else kind | None
    info = typer.Option(
        *setting.flags,
        help=setting.option.help,
        metavar=setting.option.metavar or None,
        min=limits.ge,
        max=limits.le,
        envvar=setting.option.variable or None,
        show_default=False,
        rich_help_panel=setting.option.panel or None,
    )
    default: Any = [] if is_repeatable else False if is_flag else None
    return Parameter(setting.field, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info])


COMMON_FLAGS = frozenset(("--json", "--model", "--quiet", "--report", "--seed", "--workers", "-q"))
"""Flags that many programs have themselves."""


def command_notes(command: Sequence[str], kind: type[Struct], *, name: str, reads_config: bool = True) -> Iterator[str]:
    """Yield the notes on the command of `offbook NAME`, whose options are of this kind.

    It `reads_config` unless another config than the nearest is named.
    """
    if any(Path(word).name == "offbook" for word in command):
        return
    flags = {flag for setting in settings_of(kind).values() for flag in setting.flags} - COMMON_FLAGS
    if behind := [word for word in command[1:] if word.partition("=")[0] in flags]:
        yield f"the program gets {' and '.join(behind)}; options of offbook {name} come before the command"
    if reads_config and (unread := _unread_config(command)) is not None:
        yield f"{unread} is not read: a config is looked for in the working folder, and above it"


def _unread_config(command: Sequence[str]) -> Path | None:
    """Return the config next to a command's script, if the working folder has another one or none."""
    script = next((Path(word) for word in command if _is_script(word)), None)
    beside = None if script is None else script.parent / CONFIG_FILE
    if beside is None or not beside.is_file():
        return None
    found = find_project()
    return beside if found is None or Path(found.source).resolve() != beside.resolve() else None


def _is_script(word: str) -> bool:
    try:
        return bool(Path(word).suffix) and Path(word).is_file()
    except (OSError, ValueError):  # it is the text of a program, or another one that no file can have as its name
        return False
