"""offbook recording merge, copy, redact, prune: merges, copies and edits recordings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from offbook.cli.options import DryRun, Fields, Patterns, Personal, Recording, Recordings
from offbook.cli.output.console import echo
from offbook.text import pluralize


class OnConflict(StrEnum):
    """The way to merge a key that several recordings have."""

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

    An exchange in several of them is written once. With one FILE, this converts a recording to another kind of store.

    [bold]Examples[/bold]

      offbook recording merge a.json b.json --output all.json

      offbook recording merge big.json --output sqlite:///big.db
    """
    from offbook.recording import edit as merging
    from offbook.recording.stores.locate import open_store

    sources = [open_store(file) for file in files]
    merged = merging.merge_stores(sources, open_store(output), conflict=on_conflict.value, force=force)
    tools = f" and {pluralize(len(merged.tools), 'tool')}" if merged.tools else ""
    echo(f"{output}: {pluralize(merged.size, 'exchange')} of {pluralize(len(merged.entries), 'key')}{tools}")


def copy(
    source: Recording,
    target: Annotated[str, typer.Argument(help="Where to copy it to: a location as for SOURCE.")],
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace what the target holds.")] = False,
) -> None:
    """Copy a recording to another store.

    [bold]Examples[/bold]

      offbook recording copy run.json 'redis://cache:6379/0?prefix=run42&ttl=24h'

      offbook recording copy 'redis://cache:6379/0?prefix=run42' sqlite:///run42.db
    """
    from offbook.recording.edit import copy_store
    from offbook.recording.stores.locate import open_store

    copied = copy_store(open_store(source), open_store(target), force=force)
    tools = f" and {pluralize(len(copied.tools), 'tool')}" if copied.tools else ""
    echo(f"{target}: {pluralize(copied.size, 'exchange')} of {pluralize(len(copied.entries), 'key')}{tools}")


def redact(
    files: Recordings,
    pattern: Patterns = [],  # noqa: B006
    field: Fields = [],  # noqa: B006
    personal: Personal = [],  # noqa: B006
    dry_run: DryRun = False,
) -> None:
    """Remove secrets from recordings, in place.

    Fingerprints do not change: replays still match.

    [bold]Examples[/bold]

      offbook recording redact runs/today.json

      offbook recording redact runs/*.json --pattern 'CUST-[0-9]{6}' --field email --dry-run
    """
    from offbook.cli.commands.recording.check import FED_BACK, fed_back_redactions
    from offbook.cli.output.console import print_message
    from offbook.recording.edit import edit_stores
    from offbook.recording.format.keys import short_key
    from offbook.recording.redact.redactor import RedactionRules
    from offbook.recording.redact.rules import redactor_in_force
    from offbook.recording.stores.locate import open_store

    redactor = redactor_in_force().with_rules(RedactionRules(tuple(pattern), tuple(field), tuple(personal)))
    stores = [open_store(file) for file in files]
    for store, edited in zip(stores, edit_stores(stores, redactor.redact_document, dry_run=dry_run), strict=True):
        done = "would change" if dry_run else "changed"
        echo(f"{edited.location}: {done} {pluralize(edited.changed, 'exchange')}")
        for key in [] if dry_run else fed_back_redactions(store.load()):
            print_message("warning: ", f"{edited.location}: {short_key(key)}: {FED_BACK}", is_err=True)


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
    from offbook.recording import edit as pruning
    from offbook.recording.format.keys import find_key
    from offbook.recording.stores.locate import open_store

    if older_than is None and not key and not faults:
        raise InputError("a filter is missing", hint="pass --older-than 30d, --key NAME or --faults")
    before = None
    if older_than is not None:
        before = (SYSTEM_CLOCK.utc_now() - pruning.parse_age(older_than)).isoformat(timespec="microseconds")
    stores = [open_store(file) for file in files]
    known = [name for store in stores for name in store.load().keys] if key else []
    keys = frozenset(find_key(name, known, source="--key") for name in key)
    unwanted = pruning.PruneFilter(before=before, keys=keys, faults=faults)
    for edited in pruning.edit_stores(
        stores, lambda document: pruning.prune_document(document, unwanted), dry_run=dry_run
    ):
        done = "would remove" if dry_run else "removed"
        echo(f"{edited.location}: {done} {edited.changed}, {edited.size} left")
