"""Edits recordings: merges several into one, and prunes exchanges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from offbook.errors import InputError
from offbook.recording.format.document import Document, E, Entries, add_exchange, exchanges_of
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import tool_key
from offbook.recording.stores.store import Store

MergeConflictPolicy = Literal["append", "first", "last"]


def merge_documents(documents: Sequence[Document], *, conflict: MergeConflictPolicy = "append") -> Document:
    """Merge the exchanges of the documents, in order. An exchange in several documents is added once.

    A key, or tool, in several documents gets all its exchanges (`append`), or only those of the `first` or `last`
    document that has it.

    Raises:
        InputError: the documents were recorded with different normalise rules.
    """
    merged = Document(meta=dict(documents[0].meta), version=min(document.version for document in documents))
    for document in documents:
        if document.meta.get("normalise") != merged.meta.get("normalise"):
            raise InputError("the recordings were made with different normalise rules", hint="merge like with like")
        merged.rest = document.rest | merged.rest
        _merge_into(merged.entries, document.entries, conflict)
        _merge_into(merged.tools, document.tools, conflict)
    return merged


def merge_stores(
    sources: Sequence[Store], target: Store, *, conflict: MergeConflictPolicy = "append", force: bool = False
) -> Document:
    """Merge the recordings into `target`, which may be one of them, and return its contents.

    If the target is one of them, others' concurrent exchanges are kept. `force` replaces an existing target.

    Raises:
        InputError: the target exists and is not to be replaced, or the recordings cannot be read or merged.
    """
    if target.exists() and not force:
        raise _exists_error(target)
    documents = {store.identity: store.load() for store in sources}
    merged = Document()

    def replace_content(document: Document) -> None:
        nonlocal merged
        if target.identity in documents:
            documents[target.identity] = document
        elif document.size:  # another process has created it
            raise _exists_error(target)
        merged = merge_documents([documents[store.identity] for store in sources], conflict=conflict)
        for name in Document.__struct_fields__:
            setattr(document, name, getattr(merged, name))

    if force and target.identity not in documents:
        merged = merge_documents([documents[store.identity] for store in sources], conflict=conflict)
        target.save(merged)
    else:
        target.update(replace_content)
    return merged


def copy_store(source: Store, target: Store, *, force: bool = False) -> Document:
    """Copy a recording unchanged to another store, and return it. `force` replaces the target's contents.

    Raises:
        InputError: both are the same, the target has exchanges and is not to be replaced, or one cannot be used.
    """
    if source.identity == target.identity:
        raise InputError("it is both the source and the target", source=target.location, hint="name another target")
    copied = source.load()
    if force:
        target.save(copied)
        return copied

    def fill(document: Document) -> None:
        if document.size:
            raise _exists_error(target)
        for name in Document.__struct_fields__:
            setattr(document, name, getattr(copied, name))

    target.update(fill)
    return copied


def save_new(target: Store, document: Document, *, force: bool = False) -> None:
    """Write a recording to `target`. `force` replaces an existing one.

    Raises:
        InputError: the target exists and is not to be replaced, or it cannot be written.
    """
    if target.exists() and not force:
        raise _exists_error(target)
    target.save(document)


def _exists_error(target: Store) -> InputError:
    return InputError("it already exists", source=target.location, hint="name another output, or pass --force")


def _merge_into(merged: Entries[E], entries: Entries[E], conflict: MergeConflictPolicy) -> None:
    for key, entry in entries.items():
        if key not in merged or conflict == "last":
            merged[key] = list(entry) if isinstance(entry, list) else entry  # a copy, which may be added to
        elif conflict == "append":
            known = {msgspec.json.encode(exchange) for exchange in exchanges_of(merged, key)}
            for exchange in exchanges_of(entries, key):
                if msgspec.json.encode(exchange) not in known:
                    add_exchange(merged, key, exchange)


class EditedRecording(Struct, frozen=True):
    """The number of changed or removed exchanges of a recording, and of its present ones."""

    location: str
    changed: int
    size: int


def edit_stores(
    stores: Sequence[Store], edit: Callable[[Document], int], *, dry_run: bool = False
) -> Iterator[EditedRecording]:
    """Edit each recording by a function that returns its number of changed exchanges, and write the changed recordings.

    Others' concurrent exchanges are kept. No recording is changed unless all can be read, and none with `dry_run`.

    Raises:
        InputError: a recording cannot be read or written.
    """
    documents = [store.load() for store in stores]
    for store, found in zip(stores, documents, strict=True):
        yield _edited(store, edit, found) if dry_run else _edit_in_place(store, edit)


def _edited(store: Store, edit: Callable[[Document], int], document: Document) -> EditedRecording:
    changed = edit(document)
    return EditedRecording(store.location, changed, document.size)


def _edit_in_place(store: Store, edit: Callable[[Document], int]) -> EditedRecording:
    edited: list[EditedRecording] = []

    def change(document: Document) -> bool:
        edited.append(_edited(store, edit, document))
        return edited[-1].changed > 0

    store.update(change)
    return edited[-1]


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class PruneFilter(Struct, frozen=True):
    """The exchanges to remove: those before a moment, those of some keys, and failed ones.

    The key of a tool's exchanges is like `_tools.get_weather`.
    """

    before: str | None = None
    keys: frozenset[str] = frozenset()
    faults: bool = False

    def covers(self, key: str, exchange: Exchange | ToolExchange) -> bool:
        is_old = self.before is not None and exchange.recorded_at is not None and exchange.recorded_at < self.before
        failure = exchange.fault if isinstance(exchange, Exchange) else exchange.error
        return is_old or key in self.keys or (self.faults and failure is not None)


def prune_document(document: Document, unwanted: PruneFilter) -> int:
    """Remove the unwanted exchanges, and return their number. An exchange without a timestamp is never old."""
    before = document.size
    document.entries = _without_unwanted(document.entries, unwanted.covers)
    document.tools = _without_unwanted(document.tools, lambda tool, exchange: unwanted.covers(tool_key(tool), exchange))
    return before - document.size


def _without_unwanted(entries: Entries[E], is_unwanted: Callable[[str, E], bool]) -> Entries[E]:
    wanted: Entries[E] = {}
    for key, entry in entries.items():
        if isinstance(entry, list):
            left = [exchange for exchange in entry if not is_unwanted(key, exchange)]
            if left:
                wanted[key] = left
        elif not is_unwanted(key, entry):
            wanted[key] = entry
    return wanted


def parse_age(text: str) -> timedelta:
    """Parse an age like `30d`, `12h` or `2w`.

    Raises:
        InputError: the text is not such an age.
    """
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None:
        raise InputError(f"invalid age {text!r}", source="--older-than", hint="write it like 30d, 12h or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
