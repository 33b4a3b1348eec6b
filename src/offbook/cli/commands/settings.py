"""offbook settings: lists the options of the config, with their values here and where those come from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from offbook.cli.options import AsJson


def settings(
    section: Annotated[
        str | None, typer.Argument(help="Only this section: explore, exec, serve, record or tools.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the options of offbook.toml and their values.

    Each option has its type, its default, and its value here with the file that sets it. Any of them can be set for one
    run: -o explore.deadline=90, or -o deadline=90 where the command is explore.

    [bold]Examples[/bold]

      offbook settings

      offbook settings explore --json
    """
    import msgspec

    from offbook.cli.output.console import echo, echo_json
    from offbook.config.sections import COMMAND_OPTIONS
    from offbook.errors import InputError
    from offbook.settings import TOOLS, ToolSettings, configured_tools, current_values, find_project, settings_of
    from offbook.text import did_you_mean

    project = find_project()
    found = list(current_values(COMMAND_OPTIONS, project))
    sections = [*dict.fromkeys(each.setting.section for each in found), TOOLS]
    if section is not None and section not in sections:
        hint = did_you_mean(section, sections, kind="sections")
        raise InputError(f"there is no section {section!r}", source="settings", hint=hint)
    tools = configured_tools(project) if section in (None, TOOLS) else {}
    rows = [each for each in found if section in (None, each.setting.section)]
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
    for name in dict.fromkeys(row.setting.section for row in rows):
        echo(f"[{name}]")
        for setting, value, origin in (row for row in rows if row.setting.section == name):
            default = f", by default {_shown(setting.default)}; set in {origin}" if origin else ""
            echo(f"  {setting.key} = {_shown(value)}  ({setting.type_name}{default})\n      {setting.option.help}")
        echo("")
    if section in (None, TOOLS):
        echo(f"[{TOOLS}.NAME]")
        for setting in settings_of(ToolSettings).values():
            echo(f"  {setting.key} = {_shown(setting.default)}  ({setting.type_name})\n      {setting.option.help}")
    for name, tool in tools.items():
        declared = ", ".join(f"{key} = {_shown(value)}" for key, value in msgspec.to_builtins(tool).items())
        echo(f"  {name}: {declared}; set in {project.source if project else ''}")


def _shown(value: Any) -> str:
    """Return a value as TOML has it; none if there is no value."""
    import msgspec

    return "none" if value is None else msgspec.json.encode(value).decode()
