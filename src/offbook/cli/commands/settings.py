"""offbook settings: lists the options of the config, with their values here and where those come from."""

from __future__ import annotations

from typing import Annotated

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

    from offbook.cli.output.console import echo_json, print_message
    from offbook.errors import InputError
    from offbook.explore.settings import ExploreArguments
    from offbook.settings import TOOLS, configured_tools, current_values, find_project
    from offbook.text import did_you_mean

    project = find_project()
    found = list(current_values([ExploreArguments], project))
    sections = [*dict.fromkeys(each.setting.section for each in found), TOOLS]
    if section is not None and section not in sections:
        hint = did_you_mean(section, sections, kind="sections")
        raise InputError(f"there is no section {section!r}", source="settings", hint=hint)
    documents = [
        {
            "section": each.setting.section,
            "key": each.setting.key,
            "type": each.setting.type_name,
            "default": each.setting.default,
            "value": each.value,
            "origin": each.origin or "default",
            "help": each.setting.option.help,
            **({"flag": each.setting.flags[0]} if each.setting.flags else {}),
        }
        for each in found
        if section in (None, each.setting.section)
    ]
    tools = configured_tools(project) if section in (None, TOOLS) else {}
    if as_json:
        echo_json(msgspec.json.encode({"settings": documents, "tools": tools}).decode())
        return
    shown = ""
    for each in documents:
        if each["section"] != shown:
            shown = str(each["section"])
            print_message("", f"[{shown}]")
        where = "" if each["origin"] == "default" else f"  ({each['origin']})"
        print_message(f"  {each['key']} = ", f"{msgspec.json.encode(each['value']).decode()}{where}")
        print_message("", f"      {each['help']} {each['type']}")
