"""offbook recording prune: removes old or unwanted exchanges."""

from __future__ import annotations

from typing import Annotated

import typer

from offbook.cli.options import DryRun, Recordings


def prune(
    files: Recordings,
    older_than: Annotated[str | None, typer.Option(help="An age like 30d, 12h or 2w.")] = None,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            "-k",
            help="A key to remove (or its beginning), or a tool: _tools.get_weather. Repeatable.",
        ),
    ] = [],  # noqa: B006
    faults: Annotated[bool, typer.Option("--faults", help="Remove failed calls.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove old, failed or unwanted exchanges from recordings.

    An exchange without a date is never too old.

    [bold]Examples[/bold]

      offbook recording prune runs/*.json --older-than 30d

      offbook recording prune runs/today.json --key summarize --dry-run
    """
    from offbook.clock import SYSTEM_CLOCK
    from offbook.errors import InputError
    from offbook.recording.format.keys import find_key
    from offbook.recording.maintain import edit as pruning
    from offbook.recording.stores.locate import open_store

    if older_than is None and not key and not faults:
        raise InputError("a filter is missing", hint="pass --older-than 30d, --key NAME or --faults")
    before = None
    if older_than is not None:
        before = (SYSTEM_CLOCK.utc_now() - pruning.parse_age(older_than)).isoformat(timespec="microseconds")
    stores = [open_store(file) for file in files]
    documents = [store.load() for store in stores]
    known = [name for document in documents for name in document.keys]
    keys = frozenset(find_key(name, known, source="--key") for name in key)
    unwanted = pruning.PruneFilter(before=before, keys=keys, faults=faults)
    for store, document in zip(stores, documents, strict=True):
        removed = pruning.prune_document(document, unwanted)
        if removed and not dry_run:
            store.save(document)
        done = "would remove" if dry_run else "removed"
        typer.echo(f"{store.location}: {done} {removed}, {document.size} left")
