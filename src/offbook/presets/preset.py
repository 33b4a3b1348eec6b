"""Presets: how a known program is recognised, led to the server, kept quiet and made repeatable. A preset is data.

Each file `NAME.toml` of this folder is a preset, and so is each table `[presets.NAME]` of a project's config, which
counts more than a file of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.decoding import convert
from offbook.errors import InputError
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, check_rules
from offbook.schema_errors import explain_msgspec_error, read_toml, shape_hint
from offbook.settings import ProjectFile, ToolSettings
from offbook.text import did_you_mean

PRESETS = "presets"
AUTO, NONE = "auto", "none"


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The known facts about a program, or about a framework, which has no `commands`.

    Attributes:
        title: its usual name.
        package: the package that installs it, which also recognises `npx PACKAGE` and scripts in its folder.
        tested: the version that it was last tried with.
        commands: the names of its executable, and of its module for `python -m`.
        arguments: inserted right after the program; `{url}` is the address of the server, `{bare_url}` that address
            without the token of the run, which other users of this machine would see.
        base_url_vars: further variables with the address of the server, as for the option of that name.
        environment: variables that are set unless the user has set them: in every run of a program, and of a framework
            in every replay.
        unset: variables that it must not see.
        intercept: whether no variable leads it to the server, so that its TLS is intercepted.
        normalise: what of its requests differs in every run. It becomes a part of a new recording.
        tools: the tools of its own that may change something, separated by spaces. They run in a replay.
        reading_tools: those that only read.
        needs: what a user must do for it to work, in a sentence.
    """

    title: str
    package: str = ""
    tested: str = ""
    commands: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    base_url_vars: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    intercept: bool = False
    normalise: NormaliseRules = NO_RULES
    tools: str = ""
    reading_tools: str = ""
    needs: str = ""

    @property
    def declared_tools(self) -> dict[str, ToolSettings]:
        """The declarations of its tools, as `[tools.NAME]` of a config would make them."""
        changing = dict.fromkeys(self.tools.split(), ToolSettings(run=True))
        return changing | dict.fromkeys(self.reading_tools.split(), ToolSettings(run=True, read_only=True))


class KnownProgram(Struct, frozen=True):
    """A program with its preset, if its `name` is not empty, and its `place` among the words of a command.

    `quiet` are the variables that keep frameworks from talking to others than models.
    """

    name: str = ""
    preset: Preset = Preset(title="")
    place: int = 0
    quiet: Mapping[str, str] = {}

    def announcement(self, *, runs_tools: bool) -> str:
        """Say what the program was recognised as, and that it runs its own tools, where others are replayed."""
        tools = "; its own tools run for real" if runs_tools and self.preset.tools else ""
        return f"recognised: {self.name}{tools}"

    def command(self, words: Sequence[str], url: str, *, bare_url: str) -> list[str]:
        """Return the words with the arguments that lead the program to the server at `url`."""
        added = [each.replace("{url}", url).replace("{bare_url}", bare_url) for each in self.preset.arguments]
        return [*words[: self.place + 1], *added, *words[self.place + 1 :]]

    def environment(self, environment: Mapping[str, str], *, is_replayed: bool) -> dict[str, str]:
        """Return an environment as the program is to have it."""
        known = {**(self.quiet if is_replayed else {}), **self.preset.environment, **environment}
        return {name: value for name, value in known.items() if name not in self.preset.unset}


UNKNOWN = KnownProgram()

S = TypeVar("S", bound=Struct)


def with_preset(options: S, preset: Preset) -> S:
    """Return the options of a command with what a preset knows. What the user declares about a tool counts more."""
    given: Any = options
    changed: S = replace(
        given,
        intercept=given.intercept or preset.intercept,
        base_url_vars=tuple(dict.fromkeys((*preset.base_url_vars, *given.base_url_vars))),
        tools=preset.declared_tools | given.tools,
    )
    return changed


@cache
def built_in_presets() -> Mapping[str, Preset]:
    """Return the presets of the package, by name."""
    found = sorted(Path(__file__).parent.glob("*.toml"))
    return {file.stem: _read(read_toml(file), source=file.name, place="") for file in found}


def presets_of(project: ProjectFile | None) -> Mapping[str, Preset]:
    """Return the presets of the package and of a project's config.

    Raises:
        InputError: one of the config is wrong; names the file and the place.
    """
    declared = {} if project is None else project.document.get(PRESETS, {})
    own = {
        name: _read(table, source="" if project is None else project.source, place=f"{PRESETS}.{name}")
        for name, table in declared.items()
    }
    return {**built_in_presets(), **own}


def _read(table: object, *, source: str, place: str) -> Preset:
    try:
        preset = convert(table, Preset)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        raise InputError(reason, source=source, place=f"{place}{path}", hint=shape_hint(reason, path, Preset)) from None
    try:
        check_rules(preset.normalise, source=source)
    except InputError as error:
        raise InputError(error.reason, source=source, place=f"{place}.normalise.{error.place}") from None
    return preset


def known_program(wanted: str, command: Sequence[str], presets: Mapping[str, Preset]) -> KnownProgram:
    """Return the program of a command with its preset: the `wanted` one, or for `auto` the one that fits the command.

    Raises:
        InputError: there is no preset of that name.
    """
    if wanted == NONE:
        return UNKNOWN
    place = _program_place(command)
    quiet = {name: text for each in presets.values() if not each.commands for name, text in each.environment.items()}
    if wanted != AUTO:
        if wanted not in presets:
            hint = did_you_mean(wanted, [*presets, AUTO, NONE]) or "offbook agents lists them"
            raise InputError(f"there is no preset {wanted!r}", source="preset", hint=hint)
        return KnownProgram(wanted, presets[wanted], place, quiet)
    name = next((name for name, preset in presets.items() if _is_program(preset, command[place])), "")
    return KnownProgram(name, presets[name], place, quiet) if name else KnownProgram(quiet=quiet)


_RUNNERS = frozenset(("env", "npx", "bunx", "uvx", "pnpx", "node", "nodejs", "bun", "deno", "nice", "nohup", "time"))
_SUBCOMMANDS = {"npm": ("exec",), "pnpm": ("dlx", "exec"), "yarn": ("dlx",), "uv": ("run",), "pipx": ("run",)}
_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy3?")


def _program_place(command: Sequence[str]) -> int:
    """Return the place of the program in a command that may begin with what runs it: `env A=1 npx -y PROGRAM …`."""
    words = enumerate(command)
    for place, word in words:
        name = PurePath(word).name
        if word.startswith("-") or "=" in word:
            continue
        if name in _SUBCOMMANDS and command[place + 1 : place + 2] and command[place + 1] in _SUBCOMMANDS[name]:
            next(words)
        elif name not in _RUNNERS and _PYTHON.fullmatch(name) is None:
            return place
    return 0


def _is_program(preset: Preset, word: str) -> bool:
    """Return whether a word names a program: by its path, or as its package, with or without a version."""
    package, name = preset.package, PurePath(word).name
    is_package = bool(package) and (word == package or word.startswith(f"{package}@"))
    is_inside = bool(package) and f"/node_modules/{package}/" in f"/{word}"
    return bool(preset.commands) and (name in preset.commands or is_package or is_inside)
