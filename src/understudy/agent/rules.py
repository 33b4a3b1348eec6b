"""What an agent may do and in which order: its tools, and the rules between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from msgspec import Struct

from understudy.errors import InputError
from understudy.tools import GivenTools, Toolbox, ToolDef


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
        known = ", ".join(toolbox)
        raise InputError(f"there is no tool {name!r}", source=source, place=place, hint=f"one of: {known}")


def _watched(needs: Mapping[str, tuple[Prerequisite, ...]]) -> Iterator[tuple[str, str]]:
    for needed in needs.values():
        yield from ((need.tool, need.match_arg) for need in needed if need.match_arg is not None)


def _needs_of(toolbox: Toolbox) -> dict[str, tuple[Prerequisite, ...]]:
    return {tool.name: tuple(_read_prerequisites(tool, toolbox)) for tool in toolbox.values() if tool.prerequisites}


def _read_prerequisites(tool: ToolDef, toolbox: Toolbox) -> Iterator[Prerequisite]:
    for position, declared in enumerate(tool.prerequisites):
        place = f"prerequisites[{position}]"
        if isinstance(declared, str):
            needed = Prerequisite(declared)
        elif isinstance(declared, Mapping) and "tool" in declared and declared.keys() <= {"tool", "match_arg"}:
            needed = Prerequisite(declared["tool"], declared.get("match_arg"))
        else:
            hint = '"find_order" or {"tool": "find_order", "match_arg": "order_id"}'
            raise InputError(f"cannot read {declared!r}", source=tool.name, place=place, hint=hint)
        check_known(needed.tool, toolbox, source=tool.name, place=place)
        yield needed
