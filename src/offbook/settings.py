"""Options, each declared once as an annotated field of a frozen struct, and the sources of their values.

The command line, the sections of `offbook.toml`, `-o KEY=VALUE`, the pytest markers and the reference pages are made
from these fields. A command-line flag beats `-o`, which beats the config, which beats the default.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from offbook.decoding import convert
from offbook.errors import InputError
from offbook.files import read_file
from offbook.schema_errors import explain_msgspec_error, read_toml, with_value
from offbook.text import did_you_mean, suggestion

CONFIG_FILE = "offbook.toml"
PROJECT_FILE = "pyproject.toml"
TOOLS = "tools"
SECTIONS = (
    *("agent", "agents", "user", "judge", "run", "redaction", "presets"),
    *("explore", "exec", "serve", "record", TOOLS),
)
"""The sections of a config. Those of the first line are read on use."""

S = TypeVar("S", bound=Struct)


class Option(NamedTuple):
    """The description and spelling of an option, annotating a field: `Annotated[bool, Option("…", "--crash")]`.

    Attributes:
        help: its effect, in a sentence or two.
        flags: its flags on the command line, like `--replay --recording`. Without any, it is set in the config or with
            -o.
        was: its former flags, or flags that people type for it.
        key: its name in the config and for -o, if that is not the name of the field.
        metavar: its value's name in help.
        panel: its panel in help.
        section: its section of the config, if that is not the struct's.
        variable: the environment variable that sets it.
        is_path: a path in the config is relative to the folder of the config.
        has_names: commas separate its items on the command line.
        is_per_run: it belongs to one run, and cannot be in the config.
        is_once: it is an error to give it twice.
        instead: its replacement in the config, like `[tools.NAME] read_only`.
        unset: its meaning without a value, if the default does not say it.
        check: raises InputError for an invalid value of the right type. The error gets the source of the value.
    """

    help: str
    flags: str = ""
    was: str = ""
    key: str = ""
    metavar: str = ""
    panel: str = ""
    section: str = ""
    variable: str = ""
    is_path: bool = False
    has_names: bool = False
    is_per_run: bool = False
    is_once: bool = False
    instead: str = ""
    unset: str = ""
    check: Callable[[Any], object] | None = None


class Setting(NamedTuple):
    """A field of a struct that is an option. `type` is its type without None, `annotation` with all limits."""

    field: str
    section: str
    key: str
    type: Any
    annotation: Any
    default: Any
    option: Option

    @property
    def place(self) -> str:
        """Its name with its section: `explore.deadline`."""
        return f"{self.section}.{self.key}"

    @property
    def is_assigned(self) -> bool:
        """Whether -o sets it. A per-run option with a flag is set only by the flag."""
        return not (self.option.is_per_run and self.flags)

    @property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def flags(self) -> list[str]:
        return self.option.flags.split()

    @property
    def limits(self) -> Meta:
        """The least and the largest value of a number."""
        parts = [self.annotation, get_args(self.annotation)[0], *get_args(get_args(self.annotation)[0])]
        return next((each for part in parts for each in get_args(part) if isinstance(each, Meta)), Meta())

    @property
    def type_name(self) -> str:
        """The type of its value in the config, in words."""
        if get_origin(self.type) is Literal:
            return " | ".join(get_args(self.type))
        parts = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else (self.type,)
        names = {bool: "true or false", int: "integer", float: "number", str: "text"}
        return "list of text" if self.is_list else " or ".join(names[part] for part in parts)


@cache
def settings_of(kind: type[Struct]) -> dict[str, Setting]:
    """Return the options of a struct by field.

    The class attribute `section` names their section of the config, and `without_flags` the options that have flags
    only with another command.
    """
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for info in msgspec.structs.fields(kind):
        annotation = hints[info.name]
        option = next((each for each in get_args(annotation) if isinstance(each, Option)), None)
        if option is not None:
            if info.name in getattr(kind, "without_flags", ()):
                option = option._replace(flags="")
            default = info.default_factory() if info.default is msgspec.NODEFAULT else info.default
            found[info.name] = Setting(
                field=info.name,
                section=option.section or kind.section,  # type: ignore[attr-defined]
                key=option.key or info.name,
                type=_bare_type(get_args(annotation)[0]),
                annotation=annotation,
                default=default,
                option=option,
            )
    return found


def _bare_type(annotation: Any) -> Any:
    """Return a type without None and without limits."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(_bare_type(part) for part in get_args(annotation) if part is not NoneType)]  # noqa: UP007
    return annotation


class ToolSettings(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The declared properties of a tool in `[tools.NAME]`, for every command."""

    section: ClassVar[str] = TOOLS

    effect: Annotated[bool, Option("The tool changes something, and must not run twice.")] = False
    read_only: Annotated[bool, Option("The tool only reads, and does no harm.")] = False
    idempotent: Annotated[
        bool | str,
        Option("A repeated call changes nothing: with the same arguments, or with the same value of this argument."),
    ] = False
    undoes: Annotated[str | None, Option("The tool undoes this other tool.")] = None
    may_remain: Annotated[bool, Option("The tool's changes may remain when a run gives up.")] = False
    failed: Annotated[
        str | None, Option("A result that matches this pattern means that the tool failed.", metavar="REGEX")
    ] = None
    optional: Annotated[bool, Option("A run may go on without the tool.")] = False
    function: Annotated[str | None, Option("Where to find a tool that no framework announces, as `module:name`.")] = (
        None
    )
    run: Annotated[bool, Option("Run the tool for real in a replay.")] = False


class ProjectFile(NamedTuple):
    """The config of a project: `offbook.toml`, or `[tool.offbook]` of `pyproject.toml`."""

    source: str
    folder: Path
    document: Mapping[str, Any]

    def line_of(self, *path: str) -> str:
        """Return the file with the line of the key or table at this path: `offbook.toml:3`.

        The TOML parser reports no lines. But a statement begins after the longest part of the file that is valid TOML
        and lacks the key.
        """
        import tomllib  # noqa: PLC0415 - only errors have lines

        names = path if Path(self.source).name != PROJECT_FILE else ("tool", "offbook", *path)
        lines = read_file(self.source).decode("utf-8-sig").splitlines(keepends=True)
        line = 0
        for count in range(len(lines) + 1):
            try:
                value: Any = tomllib.loads("".join(lines[:count]).replace("\r\n", "\n"))
            except tomllib.TOMLDecodeError:
                continue
            for name in names:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                break
            line = count + 1
        return f"{self.source}:{line}" if line <= len(lines) else self.source


def load_project(path: str | os.PathLike[str]) -> ProjectFile:
    """Load a config and check the names of its sections.

    Raises:
        InputError: it cannot be read, has an unknown section, or is a `pyproject.toml` without `[tool.offbook]`.
    """
    file = Path(path)
    document: Any = read_toml(file)
    if file.name == PROJECT_FILE:
        tool = document.get("tool")
        document = tool.get("offbook") if isinstance(tool, dict) else None
        if not isinstance(document, dict):
            raise InputError("there is no [tool.offbook]", source=str(file))
    project = ProjectFile(str(file), file.resolve().parent, document)
    for name, section in document.items():
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS, kind="sections")
            raise InputError(f"unknown section {name!r}", source=project.line_of(name), hint=hint)
        if not isinstance(section, dict):
            hint = f"write [{name}]"
            raise InputError("expected a table", source=project.line_of(name), place=name, hint=hint)
    return project


def find_project(start: str | os.PathLike[str] = ".") -> ProjectFile | None:
    """Load the nearest config, in the folder `start` or above it, or return None.

    Raises:
        InputError: it cannot be read, or has an unknown section.
    """
    folder = Path(start).resolve()
    for place in (folder, *folder.parents):
        if (place / CONFIG_FILE).is_file():
            return load_project(place / CONFIG_FILE)
        project = place / PROJECT_FILE
        # Parsing takes time, and most files of this name are not about offbook.
        if project.is_file() and b"offbook" in project.read_bytes():
            tool = read_toml(project).get("tool")
            if isinstance(tool, dict) and isinstance(tool.get("offbook"), dict):
                return load_project(project)
    return None


def configured(kind: type[Struct], project: ProjectFile | None) -> dict[str, Any]:
    """Return a config's values for the options of a struct, by field. Paths are relative to its folder.

    Raises:
        InputError: a key is unknown or belongs to one run, or a value is wrong; names the file and the place.
    """
    if project is None:
        return {}
    known = settings_of(kind).values()
    values: dict[str, Any] = {}
    for section in dict.fromkeys(setting.section for setting in known):
        settings = {setting.key: setting for setting in known if setting.section == section}
        for key, value in project.document.get(section, {}).items():
            setting = settings.get(key)
            if setting is None:
                raise unknown_key(project, section, key, known=settings)
            if setting.option.is_per_run or setting.option.instead:
                hint = f"give {setting.flags[0] if setting.flags else f'-o {key}=…'} on the command line"
                hint = f"write {setting.option.instead}" if setting.option.instead else hint
                source = project.line_of(section, key)
                raise InputError("it belongs to one run", source=source, place=setting.place, hint=hint)
            try:
                checked = _converted(setting, value, source=project.source, place=setting.place)
            except InputError as error:
                raise _with_line(error, project, section, key) from None
            values[setting.field] = _in_folder(checked, project.folder) if setting.option.is_path else checked
    return values


def unknown_key(project: ProjectFile, *path: str, known: Iterable[str]) -> InputError:
    """Return the error for an unknown key of a config, with its line and the closest known one."""
    hint = did_you_mean(path[-1], known, kind="keys")
    return InputError(f"unknown key {path[-1]!r}", source=project.line_of(*path), place=".".join(path), hint=hint)


def _with_line(error: InputError, project: ProjectFile, *path: str) -> InputError:
    return InputError(error.reason, source=project.line_of(*path), place=error.place, hint=error.hint)


def configured_tools(project: ProjectFile | None) -> dict[str, ToolSettings]:
    """Return the declarations in `[tools.NAME]` of a config, by tool.

    Raises:
        InputError: a key is unknown, or a value is wrong; names the file and the place.
    """
    if project is None:
        return {}
    table: Mapping[str, Any] = project.document.get(TOOLS, {})
    tools = {}
    for name, declared in table.items():
        try:
            tools[name] = _tool(name, declared, source=project.source)
        except InputError as error:
            key = error.place.rpartition(".")[2]
            path = (name, key) if isinstance(declared, dict) and key in declared else (name,)
            raise _with_line(error, project, TOOLS, *path) from None
    return tools


def _tool(name: str, declared: Any, *, source: str) -> ToolSettings:
    place = f"{TOOLS}.{name}"
    if not isinstance(declared, dict):
        raise InputError("expected a table", source=source, place=place, hint=f"write [{place}]")
    for key in declared:
        if key not in ToolSettings.__struct_fields__:
            hint = did_you_mean(key, ToolSettings.__struct_fields__, kind="keys")
            raise InputError(f"unknown key {key!r}", source=source, place=f"{place}.{key}", hint=hint)
    try:
        tool = convert(declared, ToolSettings)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        reason = with_value(reason, declared.get(path.removeprefix(".")))
        raise InputError(reason, source=source, place=f"{place}{path}") from None
    if tool.function is not None and not all(tool.function.rpartition(":")[::2]):
        reason, hint = f"expected module:name, got {tool.function!r}", 'such as "shop.payments:refund"'
        raise InputError(reason, source=source, place=f"{place}.function", hint=hint)
    if tool.effect and tool.read_only:
        hint = "leave out effect or read_only, or set one of them to false"
        raise InputError("a tool that only reads has no effect", source=source, place=place, hint=hint)
    return tool


def is_pattern(name: str) -> bool:
    """Return whether a declaration is for every tool whose name fits: `*refund`."""
    return "*" in name


def fitting_tools(declared: Mapping[str, ToolSettings], names: Collection[str]) -> dict[str, ToolSettings]:
    """Return declarations with those of patterns for the tools of `names` that fit. One for a whole name counts more,
    and among patterns the last one.
    """
    patterns = [(pattern, tool) for pattern, tool in declared.items() if is_pattern(pattern)]
    fitting = {name: tool for pattern, tool in patterns for name in names if fnmatchcase(name, pattern)}
    return fitting | {name: tool for name, tool in declared.items() if not is_pattern(name)}


def unknown_tools(tools: Mapping[str, ToolSettings], seen: Collection[str]) -> Iterator[str]:
    """Yield a note on each declared tool that a run did not see, if it saw one of almost that name.

    A config holds for all agents of a project: other unseen tools may be another agent's.
    """
    named = {name: f"{TOOLS}.{name}" for name in tools}
    named |= {tool.undoes: f"{TOOLS}.{name}.undoes" for name, tool in tools.items() if tool.undoes}
    for name, place in named.items():
        if name not in seen and (hint := did_you_mean(name, seen)):
            yield f"{place}: the run has no tool {name!r}; {hint}"


def resolve(
    kind: type[S],
    given: Mapping[str, Any],
    assignments: Iterable[str] = (),
    *,
    project: ProjectFile | None,
    others: Callable[[], Iterable[type[Struct]]] = tuple,
) -> S:
    """Return the options of a command from flags, `-o` assignments, the config, and defaults.

    `others` returns the options of all commands, for errors on another command's option.

    Raises:
        InputError: a name is unknown, or a value is wrong.
    """
    values = configured(kind, project) | assigned(kind, assignments, project=project, others=others)
    settings = settings_of(kind)
    for field, value in given.items():
        values[field] = _converted(settings[field], value, source=settings[field].flags[0])
    if TOOLS in kind.__struct_fields__:
        values[TOOLS] = configured_tools(project) | values.get(TOOLS, {})
    return kind(**values)


def assigned(
    kind: type[Struct],
    assignments: Iterable[str],
    *,
    project: ProjectFile | None = None,
    others: Callable[[], Iterable[type[Struct]]] = tuple,
) -> dict[str, Any]:
    """Return the values of `-o KEY=VALUE` by field. A list takes several of them; otherwise the last counts.

    An assignment to a tool changes the config's declaration.

    Raises:
        InputError: an assignment has no `=`, its name is unknown, or its value is wrong.
    """
    settings = list(settings_of(kind).values())
    tools: dict[str, dict[str, Any]] = {}
    values: dict[str, Any] = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        name = name.strip().replace("-", "_") if not name.startswith(f"{TOOLS}.") else name.strip()
        if not separator:
            raise InputError(f"expected KEY=VALUE, got {text!r}", source="-o", hint="-o deadline=90")
        if name.startswith(f"{TOOLS}.") and name.count(".") > 1 and TOOLS in kind.__struct_fields__:
            tool, _, key = name.removeprefix(f"{TOOLS}.").rpartition(".")
            declared = {} if project is None else project.document.get(TOOLS, {}).get(tool, {})
            tools.setdefault(tool, dict(declared) if isinstance(declared, dict) else {})[key] = _toml_value(value)
            continue
        setting = next((each for each in settings if name in (each.key, each.place)), None)
        if setting is None:
            known = [name for each in settings if each.is_assigned for name in (each.key, each.place)]
            flag = f"--{name.rpartition('.')[2].replace('_', '-')}"
            hint = (
                option_hint(kind, flag, value)
                or elsewhere_hint(kind, name, others())
                or did_you_mean(name, known)
                or "offbook settings lists all options"
            )
            raise InputError(f"there is no option {name!r}", source=f"-o {text}", hint=hint)
        if not setting.is_assigned:
            hint = f"give {setting.flags[0]}" if setting.type is bool else f"give {setting.flags[0]} {value}"
            raise InputError("it is a flag", source=f"-o {text}", hint=hint)
        if setting.is_list and not value.startswith("["):
            items: Any = [item.strip() for item in value.split(",") if item.strip()]
        else:
            items = value if setting.type is str or get_origin(setting.type) is Literal else _toml_value(value)
        checked = _converted(setting, items, source=f"-o {text}")
        values[setting.field] = (*values.get(setting.field, ()), *checked) if setting.is_list else checked
    declared_tools = {name: _tool(name, declared, source="-o") for name, declared in tools.items()}
    return values | ({TOOLS: declared_tools} if tools else {})


def _toml_value(text: str) -> Any:
    """Return the TOML value of a text: a number, true, false or a list; else the text itself."""
    import tomllib  # noqa: PLC0415 - few commands have assignments

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _converted(setting: Setting, value: Any, *, source: str, place: str = "") -> Any:
    if setting.is_list and setting.option.has_names and isinstance(value, list | tuple):
        names = [name.strip() for each in value for name in str(each).split(",") if name.strip()]
        if value and not names:
            hint = _known_names(setting) or f"leave it out, or give {setting.option.metavar or 'NAMES'}"
            raise InputError("expected a name, got an empty one", source=source, place=place, hint=hint)
        value = names
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"expected a number, got {value:g}", source=source, place=place)
    try:
        checked = convert(value, setting.annotation)
        if setting.option.check is not None:
            setting.option.check(checked)
    except InputError as error:
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from None
    except msgspec.ValidationError as error:
        reason, _ = explain_msgspec_error(error)
        choices = get_args(setting.type) if get_origin(setting.type) is Literal else ()
        hint = suggestion(str(value), choices, kind="one of") if choices else ""
        raise InputError(with_value(reason, value), source=source, place=place, hint=hint) from None
    return checked


def _known_names(setting: Setting) -> str:
    """Return the known names for an option's unknown one, or ""."""
    try:
        if setting.option.check is not None:
            setting.option.check(("",))
    except InputError as error:
        return error.hint
    return ""


def _in_folder(value: Any, folder: Path) -> Any:
    """Return a path, or paths, of a config as the working directory sees them."""
    if isinstance(value, tuple):
        return tuple(_in_folder(each, folder) for each in value)
    if not isinstance(value, str) or "://" in value or folder == Path.cwd() or Path(value).is_absolute():
        return value
    return os.path.relpath(folder / value) + ("/" if value.endswith("/") else "")


def arguments_of(options: S, *, base: S | None = None, among: Collection[str] = ()) -> list[str]:
    """Return the command-line words for these options, or the fields `among` them, that differ from `base`.

    They are flags, and `-o` for options without. The default `base` are the defaults.
    """
    base = type(options)() if base is None else base
    words: list[str] = []
    for setting in settings_of(type(options)).values():
        value = getattr(options, setting.field)
        if value is None or value == getattr(base, setting.field) or (among and setting.field not in among):
            continue
        if not setting.flags or value in (False, ()):
            words += ["-o", f"{setting.key}={_assigned_text(value)}"]
        elif setting.type is bool:
            words.append(setting.flags[0])
        elif setting.is_list:
            items = [",".join(value)] if setting.option.has_names else value
            words += [word for item in items for word in (setting.flags[0], item)]
        else:
            words += [setting.flags[0], f"{value:g}" if isinstance(value, float) else str(value)]
    known: Mapping[str, ToolSettings] = getattr(base, TOOLS, {})
    tools: Mapping[str, ToolSettings] = {} if among and TOOLS not in among else getattr(options, TOOLS, {})
    for name, declared in tools.items():
        for key, value in msgspec.to_builtins(declared).items() if known.get(name) != declared else ():
            words += ["-o", f"{TOOLS}.{name}.{key}={_assigned_text(value)}"]
    return words


def _assigned_text(value: Any) -> str:
    if isinstance(value, tuple) and not any("," in item or item.startswith("[") for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else msgspec.json.encode(value).decode()


def option_hint(kind: type[Struct], flag: str, value: str) -> str:
    """Return the replacement of a former or mistaken flag for an option of this struct, or "".

    Tool properties are declared for each tool: for `--effect refund`, the hint is to set `tools.refund.effect`.
    """
    if any(flag in setting.flags for setting in settings_of(kind).values()):
        return ""
    for setting in settings_of(kind).values():
        if flag not in (*setting.option.was.split(), f"--{setting.key.replace('_', '-')}"):
            continue
        text = "true" if setting.type is bool else value or setting.option.metavar or "…"
        if setting.flags:
            return f"use {setting.flags[0]}" + ("" if setting.type is bool else f" {text}")
        hint = f"use -o {shlex.quote(f'{setting.place}={text}')}"
        return hint if setting.option.is_per_run else f"{hint}, or {_in_config(setting, text)} in {CONFIG_FILE}"
    key = flag.removeprefix("--").replace("-", "_")
    if TOOLS in kind.__struct_fields__ and key in ToolSettings.__struct_fields__:
        words = [f"-o {shlex.quote(f'{TOOLS}.{tool}.{key}={text}')}" for tool, text in _declared_by(value)]
        return f"use {' '.join(words)}, or {_tools_in_config(key, value)} in {CONFIG_FILE}"
    return ""


def _in_config(setting: Setting, text: str) -> str:
    """Return the config for a command-line setting: `[serve] allow_hosts = ["a.test"]`."""
    if setting.option.instead:
        return _tools_in_config(setting.option.instead.rpartition(" ")[2], text)
    is_text = setting.type is str or get_origin(setting.type) is Literal
    items: Any = [each.strip() for each in text.split(",")] if setting.is_list else text
    written = msgspec.json.encode(items if setting.is_list or is_text else _toml_value(text)).decode()
    return f"[{setting.section}] {setting.key} = {written}"


def _tools_in_config(key: str, value: str) -> str:
    """Return the config for tools named on the command line: refund, refund:order or cancel=book."""
    written = {tool: text if text == "true" else f'"{text}"' for tool, text in _declared_by(value)}
    return ", ".join(f"[{TOOLS}.{tool}] {key} = {text}" for tool, text in written.items())


def _declared_by(value: str) -> list[tuple[str, str]]:
    names = [re.split("[:=]", each.strip(), maxsplit=1) for each in (value.strip("…") or "NAME").split(",")]
    return [(name, rest[0] if rest else "true") for name, *rest in names]


def elsewhere_hint(kind: type[Struct], name: str, others: Iterable[type[Struct]]) -> str:
    """Return a hint at the other command that has an option, found by flag, key or place, or ""."""
    if any(name in setting.flags for setting in settings_of(kind).values()):
        return ""
    for other in others:
        for setting in settings_of(other).values():
            names = (*setting.flags, setting.key, setting.place, f"--{setting.key.replace('_', '-')}")
            if other is not kind and name in names:
                section = other.section  # type: ignore[attr-defined]
                return f"it is an option of offbook {section}: {setting.flags[0] if setting.flags else setting.place}"
    return ""


class CurrentValue(NamedTuple):
    """An option with its value in a project. `origin` is the config that sets it, or "" for the default."""

    setting: Setting
    value: Any
    origin: str


def current_values(kinds: Sequence[type[Struct]], project: ProjectFile | None) -> Iterator[CurrentValue]:
    """Yield the options of these structs that a config or -o can set, each once.

    Raises:
        InputError: a key of the config is unknown, or a value is wrong; names the file and the place.
    """
    seen = set[str]()
    for kind in kinds:
        values = configured(kind, project)
        for setting in settings_of(kind).values():
            if setting.is_assigned and setting.place not in seen:
                seen.add(setting.place)
                origin = project.source if project is not None and setting.field in values else ""
                yield CurrentValue(setting, values.get(setting.field, setting.default), origin)
