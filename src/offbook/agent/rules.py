"""What an agent may do and in which order: its tools, and the rules between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools import GivenTools, Toolbox, ToolDef
from offbook.wording import did_you_mean

OPEN = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf"}
"""Keywords of schemas that may take more than their properties name."""


class Prerequisite(Struct, frozen=True):
    """A tool that must have succeeded before; with `match_arg`, with the same value of that argument."""

    tool: str
    match_arg: str | None = None


class Rules(Struct, frozen=True):
    """Tools and the rules between them, checked.

    `terminal_tools` end the run; where there are none, text does. `needs` says for each tool that
    needs others which they are; `watched` are the arguments whose values matter for that, as pairs of
    tool and argument. `repeatable` tools may be called with the same arguments again and again.
    """

    toolbox: Toolbox
    required_steps: tuple[str, ...] = ()
    terminal_tools: tuple[str, ...] = ()
    needs: Mapping[str, tuple[Prerequisite, ...]] = {}
    watched: tuple[tuple[str, str], ...] = ()
    repeatable: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, tools: GivenTools, *, required_steps: Iterable[str] = (), terminal_tool: str | Iterable[str] = ()
    ) -> Self:
        """The rules as users declare them.

        Raises:
            InputError: they are declared wrongly, or name a tool that is not there.
        """
        toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        terminal = (terminal_tool,) if isinstance(terminal_tool, str) else tuple(terminal_tool)
        if isinstance(required_steps, str):
            hint = f'required_steps=["{required_steps}"]'
            raise InputError("expected a list of tools, got a text", source="required_steps", hint=hint)
        required = tuple(required_steps)
        for source, names in (("terminal_tool", terminal), ("required_steps", required)):
            for name in names:
                check_known(name, toolbox, source=source)
        if both := set(required) & set(terminal):
            reason = f"{sorted(both)[0]!r} is a required step and a terminal tool: the run could never end"
            raise InputError(
                reason, source="required_steps", hint="leave it out here; a terminal tool is called anyway"
            )
        needs = _needs_of(toolbox)
        repeatable = frozenset(tool.name for tool in toolbox.values() if tool.repeatable)
        return cls(toolbox, required, terminal, needs, tuple(_watched(needs)), repeatable)


def check_known(name: object, toolbox: Toolbox, *, source: str, place: str = "") -> None:
    """Raises InputError if there is no such tool."""
    if name not in toolbox:
        hint = did_you_mean(str(name), toolbox, kind="tools")
        raise InputError(f"there is no tool {name!r}", source=source, place=place, hint=hint)


def _watched(needs: Mapping[str, tuple[Prerequisite, ...]]) -> Iterator[tuple[str, str]]:
    for needed in needs.values():
        yield from ((need.tool, need.match_arg) for need in needed if need.match_arg is not None)


def _needs_of(toolbox: Toolbox) -> dict[str, tuple[Prerequisite, ...]]:
    return {tool.name: tuple(_read_prerequisites(tool, toolbox)) for tool in toolbox.values() if tool.prerequisites}


def _read_prerequisites(tool: ToolDef, toolbox: Toolbox) -> Iterator[Prerequisite]:
    for position, declared in enumerate(tool.prerequisites):
        place = f"prerequisites[{position}]"
        needed = _read_prerequisite(declared, source=tool.name, place=place)
        check_known(needed.tool, toolbox, source=tool.name, place=place)
        if needed.match_arg is not None:
            for concerned in (tool, toolbox[needed.tool]):
                _check_argument(needed.match_arg, concerned, source=tool.name, place=place)
        yield needed


def _read_prerequisite(declared: object, *, source: str, place: str) -> Prerequisite:
    match declared:
        case str():
            return Prerequisite(declared)
        case {"tool": str() as name, **rest} if not rest.keys() - {"match_arg"}:
            argument = rest.get("match_arg")
            if argument is None or isinstance(argument, str):
                return Prerequisite(name, argument)
    hint = '"find_order" or {"tool": "find_order", "match_arg": "order_id"}'
    raise InputError(f"cannot read {declared!r}", source=source, place=place, hint=hint)


def _check_argument(name: str, tool: ToolDef, *, source: str, place: str) -> None:
    """Raises InputError if it is known what the tool takes, and that is no argument of it."""
    known = _arguments_of(tool.spec.schema)
    if known is not None and name not in known:
        reason = f"match_arg: {tool.name} has no argument {name!r}"
        hint = did_you_mean(name, known, kind=f"arguments of {tool.name}")
        raise InputError(reason, source=source, place=place, hint=hint)


def _arguments_of(schema: JsonObject) -> list[str] | None:
    """The arguments that a schema names; None if it may take others too."""
    names, others = list(schema.get("properties", ())), schema.get("additionalProperties")
    if OPEN & schema.keys() or others not in (None, False):
        return None
    return names if names or others is False else None
