"""offbook recording merge: merges recordings into one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from offbook.cli.options import Recordings
from offbook.text import pluralize


class OnConflict(StrEnum):
    """How to merge a key that several recordings have."""

    append = "append"
    first = "first"
    last = "last"


def merge(
    files: Recordings,
    output: Annotated[str, typer.Option("--output", "-o", help="The merged recording.")],
    on_conflict: Annotated[
        OnConflict, typer.Option(help="Keep all exchanges of a shared key, or those of the first or last file.")
    ] = OnConflict.append,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output.")] = False,
) -> None:
    """Merge recordings into one.

    An exchange that several of them have is written once. With one FILE, this converts a recording to another kind of
    store.

    [bold]Examples[/bold]

      offbook recording merge a.json b.json --output all.json

      offbook recording merge big.json --output sqlite:///big.db
    """
    from offbook.errors import InputError
    from offbook.recording.maintain import edit as merging
    from offbook.recording.stores.locate import open_store

    target = open_store(output)
    if target.exists() and not force:
        raise InputError("it already exists", source=output, hint="name another output, or pass --force")
    merged = merging.merge_documents([open_store(file).load() for file in files], conflict=on_conflict.value)
    target.save(merged)
    tools = f" and {pluralize(len(merged.tools), 'tool')}" if merged.tools else ""
    typer.echo(f"{output}: {pluralize(merged.size, 'exchange')} of {pluralize(len(merged.entries), 'key')}{tools}")
