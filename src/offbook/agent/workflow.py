"""What an agent is made of: its tools, the order they may be used in, and its instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

from offbook.agent.rules import Rules
from offbook.errors import InputError
from offbook.tools import GivenTools, Toolbox


class Workflow:
    """An agent's tools and rules.

    Args:
        name, description: for people.
        tools: what the model may call: functions or ToolDef, by name.
        required_steps: tools that must succeed before the run may end.
        terminal_tool: the tool, or tools, whose result ends the run; where there is none, text does.
        system_prompt_template: the system prompt, with `{name}` for each of a run's `prompt_vars`.

    Raises:
        InputError: a rule names a tool that is not there, or the template cannot be read.
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
        """The system prompt with the variables filled in.

        Raises:
            InputError: the template names a variable that is not given.
        """
        for name in self._names:
            if name not in prompt_vars:
                given = ", ".join(prompt_vars) or "none"
                raise InputError(f"{name!r} is missing", source="prompt_vars", hint=f"given: {given}")
        return self.system_prompt_template.format_map(prompt_vars) if self.system_prompt_template else ""


def _names_in(template: str, *, source: str) -> list[str]:
    hint = "write {name} for a variable, {{ and }} for braces"
    try:
        names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(str(error), source=source, hint=hint) from None
    for name in names:
        if not name.isidentifier():
            raise InputError(f"{{{name}}} is no variable", source=source, hint=hint)
    return names
