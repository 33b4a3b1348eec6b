"""offbook agents: lists the programs and frameworks that offbook knows."""

from __future__ import annotations

import msgspec

from offbook.cli.options import AsJson


def agents(as_json: AsJson = False) -> None:
    """List the programs and frameworks that offbook knows.

    A known program is recognised by its command, led to the server, and kept from
    what changes from run to run. Each is listed with the version that was tested.
    -o preset=NAME names one, -o preset=none uses none. The section presets of
    offbook.toml adds others.

    [bold]Examples[/bold]

      offbook agents

      offbook exec --record run.json -- claude -p 'write hello.txt'

      offbook exec -o preset=none --record run.json -- claude -p 'write hello.txt'
    """
    from offbook.cli.output.console import echo, echo_json
    from offbook.presets.preset import presets_of
    from offbook.settings import find_project

    presets = presets_of(find_project())
    if as_json:
        echo_json(msgspec.json.encode(presets))
        return
    rows = [
        (name, each.title, each.tested or "untested", ", ".join(each.commands) or "a framework", each.needs)
        for name, each in presets.items()
    ]
    rows.sort(key=lambda row: (row[3] == "a framework", row[0]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
