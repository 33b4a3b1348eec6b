"""Making one recording of several."""

from collections.abc import Callable, Sequence
from typing import Literal

from offbook.errors import InputError
from offbook.recording.document import Document
from offbook.recording.entries import E, Entries, add, exchanges_of
from offbook.recording.exchange import Exchange
from offbook.recording.tool_exchange import ToolExchange

Conflict = Literal["append", "first", "last"]


def merge(documents: Sequence[Document], *, conflict: Conflict = "append") -> Document:
    """All exchanges of the documents, in order; an exchange that is in two of them is kept once.

    A key, or tool, that is in several documents keeps all its exchanges (`append`), or only those of the
    `first` or `last` document that has it.

    Raises:
        InputError: the documents were recorded with different normalise rules.
    """
    merged = Document(meta=dict(documents[0].meta), version=min(document.version for document in documents))
    for document in documents:
        if document.meta.get("normalise") != merged.meta.get("normalise"):
            raise InputError("the recordings were made with different normalise rules", hint="merge like with like")
        merged.rest = document.rest | merged.rest
        _merge_into(merged.entries, document.entries, conflict, Exchange.is_same)
        _merge_into(merged.tools, document.tools, conflict, ToolExchange.is_same)
    return merged


def _merge_into(merged: Entries[E], entries: Entries[E], conflict: Conflict, is_same: Callable[[E, E], bool]) -> None:
    for key, entry in entries.items():
        if key not in merged or conflict == "last":
            merged[key] = list(entry) if isinstance(entry, list) else entry  # which may be added to
        elif conflict == "append":
            known = list(exchanges_of(merged, key))
            for exchange in exchanges_of(entries, key):
                if not any(is_same(exchange, other) for other in known):
                    add(merged, key, exchange)
