"""offbook settings: lists the options of the config, with their current values and origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from offbook.cli.options import AsJson

if TYPE_CHECKING:
    from offbook.settings import Setting


def settings(
    name: Annotated[
        str | None,
        typer.Argument(help="Only this section (explore, exec, serve, record or tools), or this option: deadline."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the options of offbook.toml and their values.

    Each option has its type, its default, and its value here with the file that sets it. Any of them can be set for one
    run: -o explore.deadline=90, or -o deadline=90 where the command is explore.

    [bold]Examples[/bold]

      offbook settings

      offbook settings deadline

      offbook settings explore --json
    """
    from itertools import groupby

    import msgspec

    from offbook.cli.output.console import echo, echo_json
    from offbook.config.sections import COMMAND_OPTIONS
    from offbook.errors import InputError
    from offbook.settings import TOOLS, ToolSettings, configured_tools, current_values, find_project, settings_of
    from offbook.text import did_you_mean

    project = find_project()
    found = list(current_values(COMMAND_OPTIONS, project))
    of_tools = list(settings_of(ToolSettings).values())
    wanted = name.removeprefix("--").replace("-", "_") if name is not None else None

    def is_wanted(setting: Setting) -> bool:
        return wanted in (None, setting.section, setting.key, setting.place)

    sections = list(dict.fromkeys(each.setting.section for each in found))
    rows = sorted(
        (each for each in found if is_wanted(each.setting)), key=lambda each: sections.index(each.setting.section)
    )
    tool_rows = [each for each in of_tools if is_wanted(each)]
    if not (rows or tool_rows):
        known = {text for each in (*(row.setting for row in found), *of_tools) for text in (each.section, each.key)}
        hint = did_you_mean(str(wanted), known) or "offbook settings lists all options"
        raise InputError(f"there is no section or option {name!r}", source="settings", hint=hint)
    tools = configured_tools(project) if tool_rows else {}
    if as_json:
        documents = [
            {
                "section": setting.section,
                "key": setting.key,
                "type": setting.type_name,
                "default": setting.default,
                "value": value,
                "origin": origin or "default",
                "flag": setting.flags[0] if setting.flags else None,
                "help": setting.option.help,
            }
            for setting, value, origin in rows
        ]
        echo_json(msgspec.json.encode({"settings": documents, "tools": tools}).decode())
        return
    for section, in_section in groupby(rows, key=lambda row: row.setting.section):
        echo(f"[{section}]")
        for row in in_section:
            echo(_line(*row))
        echo("")
    if tool_rows:
        echo("\n".join([f"[{TOOLS}.NAME]", *(_line(setting, setting.default, "") for setting in tool_rows)]))
    for tool_name, tool in tools.items():
        declared = ", ".join(f"{key} = {_shown(value)}" for key, value in msgspec.to_builtins(tool).items())
        echo(f"  {tool_name}: {declared}; set in {project.source if project else ''}")


def _line(setting: Setting, value: Any, origin: str) -> str:
    """Return an option with its value and its help."""
    default = f", by default {_default(setting)}; set in {origin}" if origin else _not_in_config(setting)
    shown = _shown(value) if origin else _default(setting)
    return f"  {setting.key} = {shown}  ({setting.type_name}{default})\n      {setting.option.help}"


def _default(setting: Setting) -> str:
    return setting.option.unset or _shown(setting.default)


def _not_in_config(setting: Setting) -> str:
    """Return how to set an option that the config cannot set, or ""."""
    if setting.option.instead:
        return f"; set with -o, or with {setting.option.instead}"
    return "; set with -o" if setting.option.is_per_run else ""


def _shown(value: Any) -> str:
    """Return a value in TOML, or "" for none."""
    import msgspec

    return "none" if value is None else msgspec.json.encode(value).decode()
