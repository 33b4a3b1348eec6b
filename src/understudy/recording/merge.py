"""Making one recording of several."""

from collections.abc import Sequence
from typing import Literal

from understudy.errors import InputError
from understudy.recording.document import Document
from understudy.recording.exchange import Exchange

Conflict = Literal["append", "first", "last"]


def merge(documents: Sequence[Document], *, conflict: Conflict = "append") -> Document:
    """All exchanges of the documents, in order; an exchange that is in two of them is kept once.

    A key that is in several documents keeps all its exchanges (`append`), or only those of the
    `first` or `last` document that has it.

    Raises:
        InputError: the documents were recorded with different normalise rules.
    """
    merged = Document(meta=dict(documents[0].meta), version=min(document.version for document in documents))
    for document in documents:
        if document.meta.get("normalise") != merged.meta.get("normalise"):
            raise InputError("the recordings were made with different normalise rules", hint="merge like with like")
        merged.rest = document.rest | merged.rest
        for key, entry in document.entries.items():
            if key not in merged.entries or conflict == "last":
                merged.entries[key] = entry
            elif conflict == "append":
                _append(merged, key, document.exchanges(key))
    return merged


def _append(merged: Document, key: str, exchanges: list[Exchange]) -> None:
    known = list(merged.exchanges(key))
    for exchange in exchanges:
        if not any(exchange.is_same(other) for other in known):
            merged.add(key, exchange)
