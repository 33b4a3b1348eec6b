"""An agent's definition: its tools, the rules between them, and its system prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from string import Formatter
from typing import Any, Self

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.text import did_you_mean
from offbook.tools import GivenTools, Toolbox, ToolDef

OPEN_SCHEMA_KEYWORDS = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""Keywords of schemas that may allow more arguments than `properties` names."""


class ToolPrerequisite(Struct, frozen=True):
    """A tool that must have succeeded before; with `match_arg`, for the same value of that argument."""

    tool: str
    match_arg: str | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """Tools and the validated rules between them.

    `terminal_tools` end the run; without any, text ends it. `needs` has the prerequisites of each tool that has
    some; `watched` has the arguments that those compare, as pairs of tool and argument. `repeatable` tools may
    be called with the same arguments any number of times.
    """

    toolbox: Toolbox
    required_steps: tuple[str, ...] = ()
    terminal_tools: tuple[str, ...] = ()
    needs: Mapping[str, tuple[ToolPrerequisite, ...]] = {}
    watched: tuple[tuple[str, str], ...] = ()
    repeatable: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, tools: GivenTools, *, required_steps: Iterable[str] = (), terminal_tool: str | Iterable[str] = ()
    ) -> Self:
        """Return the rules that a user declared.

        Raises:
            InputError: a rule is invalid, or names an unknown tool.
        """
        toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        terminal = (terminal_tool,) if isinstance(terminal_tool, str) else tuple(terminal_tool)
        if isinstance(required_steps, str):
            hint = f'required_steps=["{required_steps}"]'
            raise InputError("expected a list of tools, got a string", source="required_steps", hint=hint)
        required = tuple(required_steps)
        for source, names in (("terminal_tool", terminal), ("required_steps", required)):
            for name in names:
                check_known(name, toolbox, source=source)
        if both := set(required) & set(terminal):
            reason = f"{sorted(both)[0]!r} is a required step and a terminal tool: the run could never end"
            hint = "remove it here; a terminal tool is called anyway"
            raise InputError(reason, source="required_steps", hint=hint)
        needs = {
            each.name: tuple(_read_prerequisites(each, toolbox)) for each in toolbox.values() if each.prerequisites
        }
        return cls(
            toolbox=toolbox,
            required_steps=required,
            terminal_tools=terminal,
            needs=needs,
            watched=tuple(_watched_arguments(needs)),
            repeatable=frozenset(tool.name for tool in toolbox.values() if tool.repeatable),
        )


def check_known(name: object, toolbox: Toolbox, *, source: str, place: str = "") -> None:
    """Raise InputError if there is no tool of that name."""
    if name not in toolbox:
        hint = did_you_mean(str(name), toolbox, kind="tools")
        raise InputError(f"there is no tool {name!r}", source=source, place=place, hint=hint)


def _watched_arguments(needs: Mapping[str, tuple[ToolPrerequisite, ...]]) -> Iterator[tuple[str, str]]:
    for needed in needs.values():
        yield from ((need.tool, need.match_arg) for need in needed if need.match_arg is not None)


def _read_prerequisites(tool: ToolDef, toolbox: Toolbox) -> Iterator[ToolPrerequisite]:
    for position, declared in enumerate(tool.prerequisites):
        place = f"prerequisites[{position}]"
        needed = _read_prerequisite(declared, source=tool.name, place=place)
        check_known(needed.tool, toolbox, source=tool.name, place=place)
        if needed.match_arg is not None:
            for either in (tool, toolbox[needed.tool]):
                known = _arguments_of(either.spec.schema)
                if known is not None and needed.match_arg not in known:
                    reason = f"match_arg: {either.name} has no argument {needed.match_arg!r}"
                    hint = did_you_mean(needed.match_arg, known, kind=f"arguments of {either.name}")
                    raise InputError(reason, source=tool.name, place=place, hint=hint)
        yield needed


def _read_prerequisite(declared: object, *, source: str, place: str) -> ToolPrerequisite:
    match declared:
        case str():
            return ToolPrerequisite(declared)
        case {"tool": str() as name, **rest} if not rest.keys() - {"match_arg"}:
            argument = rest.get("match_arg")
            if argument is None or isinstance(argument, str):
                return ToolPrerequisite(name, argument)
    hint = '"find_order" or {"tool": "find_order", "match_arg": "order_id"}'
    raise InputError(f"cannot read {declared!r}", source=source, place=place, hint=hint)


def _arguments_of(schema: JsonObject) -> list[str] | None:
    """Return the arguments that a schema names, or None if it allows others."""
    names, others = list(schema.get("properties", ())), schema.get("additionalProperties")
    if OPEN_SCHEMA_KEYWORDS & schema.keys() or others not in (None, False):
        return None
    return names if names or others is False else None


class Workflow:
    """An agent's tools and rules.

    Args:
        name, description: for people who read events and errors.
        tools: the tools that the model may call: functions or ToolDef, by name.
        required_steps: tools that must succeed before the run may end.
        terminal_tool: the tool, or tools, whose result ends the run; without one, text ends it.
        system_prompt_template: the system prompt, with `{name}` for each variable in `prompt_vars`.

    Raises:
        InputError: a rule names an unknown tool, or the template is invalid.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        *,
        tools: GivenTools,
        required_steps: Iterable[str] = (),
        terminal_tool: str | Iterable[str] = (),
        system_prompt_template: str = "",
    ) -> None:
        self.name, self.description = name, description
        self.rules = Rules.of(tools, required_steps=required_steps, terminal_tool=terminal_tool)
        self.system_prompt_template = system_prompt_template
        self._names = _names_in(system_prompt_template, source=f"{name}: system_prompt_template")

    @property
    def tools(self) -> Toolbox:
        return self.rules.toolbox

    @property
    def required_steps(self) -> list[str]:
        return list(self.rules.required_steps)

    @property
    def terminal_tools(self) -> list[str]:
        return list(self.rules.terminal_tools)

    def system_prompt(self, prompt_vars: Mapping[str, Any]) -> str:
        """Return the system prompt with its variables filled in.

        Raises:
            InputError: a variable of the template is missing.
        """
        for name in self._names:
            if name not in prompt_vars:
                given = ", ".join(prompt_vars) or "none"
                raise InputError(f"{name!r} is missing", source="prompt_vars", hint=f"got: {given}")
        return self.system_prompt_template.format_map(prompt_vars) if self.system_prompt_template else ""


def _names_in(template: str, *, source: str) -> list[str]:
    hint = "write {name} for a variable, {{ and }} for braces"
    try:
        names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(str(error), source=source, hint=hint) from None
    for name in names:
        if not name.isidentifier():
            raise InputError(f"{{{name}}} is not a variable", source=source, hint=hint)
    return names


def respond(message: str) -> str:
    """Send the user a message. Use this tool for every answer, also for a question back.

    Args:
        message: the text that the user reads.
    """
    return message
