"""understudy recording redact: secrets out of recordings that have them."""

from __future__ import annotations

import typer

from understudy.cli.arguments import DryRun, Fields, Patterns, Recordings
from understudy.wording import counted


def redact(files: Recordings, pattern: Patterns = [], field: Fields = [], dry_run: DryRun = False) -> None:  # noqa: B006
    """Take what looks like a secret out of recordings, in place. Replay goes on matching: fingerprints stay.

    [bold]Examples[/bold]

      understudy recording redact runs/today.json

      understudy recording redact runs/*.json --pattern 'CUST-[0-9]{6}' --field email --dry-run
    """
    from understudy.recording.redaction import Redactor
    from understudy.recording.stores.locate import open_store

    redactor = Redactor(patterns=tuple(pattern), fields=tuple(field))
    stores = [open_store(file) for file in files]
    documents = [store.load() for store in stores]
    for store, document in zip(stores, documents, strict=True):
        changed = document.rewrite(redactor.redact, redactor.redact_tool)
        if changed and not dry_run:
            store.save(document)
        typer.echo(f"{store.location}: {'would change' if dry_run else 'changed'} {counted(changed, 'exchange')}")
