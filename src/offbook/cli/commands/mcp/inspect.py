"""offbook mcp check and mcp diff: are the MCP servers of a recording sound, and what of them moved since another."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from offbook.cli.options import AsJson, Recording, Recordings
from offbook.text import pluralize


def check(
    files: Recordings,
    pattern: Annotated[
        list[str], typer.Option("--pattern", help="Another regular expression for suspicious text. Repeatable.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Check the MCP servers of recordings, and their texts.

    Checks that schemas and names are valid, that recorded arguments and results
    fit them, and that there are neither secrets nor texts that read like
    instructions to a model. Exits with 1 if there is a problem, with 2 if a file
    cannot be read.

    [bold]Examples[/bold]

      offbook mcp check github.json

      offbook mcp check runs/*.json --pattern '(?i)as an ai' --json
    """
    import orjson

    from offbook.cli.output.console import echo, echo_json
    from offbook.errors import InputError
    from offbook.mcp.check import check_recording
    from offbook.mcp.surface import surfaces_of
    from offbook.recording.format.document import each_exchange
    from offbook.recording.stores.locate import open_store
    from offbook.user_patterns import compile_pattern

    patterns = [compile_pattern(each, source="--pattern") for each in pattern]
    rows: list[dict[str, str]] = []
    for file in files:
        document = open_store(file).load()
        if not surfaces_of(each_exchange(document.tools)):
            hint = "record one with 'offbook mcp record'"
            raise InputError("the recording has no MCP server", source=file, hint=hint)
        found = check_recording(document, patterns=patterns)
        rows += [{"file": file, "place": each.place, "kind": each.kind, "problem": each.problem} for each in found]
    if as_json:
        echo_json(orjson.dumps({"files": len(files), "findings": rows}))
    else:
        for row in rows:
            echo(": ".join((row["file"], row["place"], row["problem"])))
        counted = pluralize(len(rows), "problem") if rows else "no problems"
        echo(f"{pluralize(len(files), 'recording')} checked: {counted}")
    if rows:
        raise typer.Exit(1)


def diff(
    old: Recording,
    new: Recording,
    fail_on: Annotated[
        Literal["breaking", "dangerous", "any"],
        typer.Option("--fail-on", help="Exit with 1 for breaking changes, for dangerous ones too, or for any."),
    ] = "dangerous",
    as_json: AsJson = False,
) -> None:
    """Show what of the MCP servers of two recordings moved.

    Compares servers, tools, prompts and resources as they were listed. A change
    is breaking, dangerous or harmless, with the reason. Exits with 1 if one is
    breaking or dangerous.

    [bold]Examples[/bold]

      offbook mcp diff old.json new.json

      offbook mcp diff old.json new.json --fail-on breaking --json
    """
    import msgspec

    from offbook.cli.output.console import echo, echo_json, print_message
    from offbook.cli.runners.mcp import recorded_surfaces
    from offbook.mcp.surface import LEVELS, compare_servers, uncompared

    before, after = recorded_surfaces(old), recorded_surfaces(new)
    changes = compare_servers(before, after)
    skipped = {name: uncompared(before[name], after[name]) for name in before if name in after}
    skipped = {name: methods for name, methods in skipped.items() if methods}
    if as_json:
        echo_json(msgspec.json.encode({"changes": changes, "not_compared": skipped}))
    else:
        for change in sorted(changes, key=lambda change: LEVELS.index(change.level)):
            print_message(f"{change.level}: ", f"{change.place}: {change.reason}")
        for name, methods in skipped.items():
            echo(f"not compared: {name}: {', '.join(methods)} is in one of the recordings only")
        echo(pluralize(len(changes), "change") if changes else "no changes")
    failing = LEVELS if fail_on == "any" else LEVELS[: LEVELS.index(fail_on) + 1]
    if any(change.level in failing for change in changes):
        raise typer.Exit(1)
