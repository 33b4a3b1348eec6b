"""offbook recording redact: removes secrets from recordings."""

from __future__ import annotations

import typer

from offbook.cli.options import DryRun, Fields, Patterns, Recordings
from offbook.text import pluralize


def redact(files: Recordings, pattern: Patterns = [], field: Fields = [], dry_run: DryRun = False) -> None:  # noqa: B006
    """Remove secrets from recordings, in place.

    Fingerprints do not change, so that replays still match.

    [bold]Examples[/bold]

      offbook recording redact runs/today.json

      offbook recording redact runs/*.json --pattern 'CUST-[0-9]{6}' --field email --dry-run
    """
    from offbook.recording.redact.redactor import Redactor
    from offbook.recording.stores.locate import open_store

    redactor = Redactor(patterns=tuple(pattern), fields=tuple(field))
    stores = [open_store(file) for file in files]
    documents = [store.load() for store in stores]
    for store, document in zip(stores, documents, strict=True):
        changed = document.rewrite(redactor.redact, redactor.redact_tool)
        if changed and not dry_run:
            store.save(document)
        typer.echo(f"{store.location}: {'would change' if dry_run else 'changed'} {pluralize(changed, 'exchange')}")
