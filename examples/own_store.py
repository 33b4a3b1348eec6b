"""A store of one's own: recordings in a dict of this process, at locations like `dict://name`.

A package offers it to every command and setting that takes a recording, by an entry point in its pyproject.toml:

    [project.entry-points."offbook.stores"]
    dict = "own_store:DictStore"

`tests/examples/test_own_store.py` runs the contract of all stores against it.
"""

import threading
from collections.abc import Callable
from typing import Any

from offbook.errors import InputError
from offbook.recording.format.document import Document, new_meta
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.file import parse_document, render_document
from offbook.recording.stores.memory import MemoryReader

RECORDINGS: dict[str, bytes] = {}
LOCK = threading.RLock()


class DictStore:
    """Holds one recording, as the bytes of its JSON. A real one would hold them in a bucket or a database."""

    def __init__(self, location: str) -> None:
        self.location = self.identity = location

    def exists(self) -> bool:
        return self.location in RECORDINGS

    def load(self) -> Document:
        with LOCK:
            if not self.exists():
                raise InputError("no such recording", source=self.location, hint="record it first, or check the name")
            return parse_document(RECORDINGS[self.location], source=self.location)

    def save(self, document: Document) -> None:
        with LOCK:
            RECORDINGS[self.location] = render_document(document)

    def update(self, change: Callable[[Document], bool | None]) -> None:
        with LOCK:  # nobody else writes until the change is saved
            document = self.load() if self.exists() else Document()
            if change(document) is not False:
                self.save(document)

    def read(self) -> MemoryReader:
        return MemoryReader(self.load(), source=self.location)

    def write(self) -> "DictWriter":
        return DictWriter(self)

    def sibling(self) -> "DictStore":
        number = 1
        while f"{self.location}.{number}" in RECORDINGS:
            number += 1
        store = DictStore(f"{self.location}.{number}")
        store.save(Document())
        return store

    def beside(self, suffix: str) -> "DictStore":
        return DictStore(self.location + suffix)

    def share(self) -> None:
        """Return None: processes do not share this store."""

    def remove(self) -> None:
        RECORDINGS.pop(self.location, None)

    def remove_if_empty(self) -> None:
        with LOCK:
            if self.exists() and not self.load().size:
                self.remove()


class DictWriter:
    """A recording, open for appending."""

    def __init__(self, store: DictStore) -> None:
        self._store = store
        store.update(lambda document: None)
        document = store.load()
        self.meta = document.meta or new_meta()
        self.size = sum(1 for _ in document)
        self.tool_size = document.size - self.size

    def add_meta(self, meta: dict[str, Any]) -> None:
        self._store.update(lambda document: document.meta.update(meta))

    def append(self, key: str, exchange: Exchange) -> None:
        self._store.update(lambda document: document.add(key, exchange))

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        self._store.update(lambda document: document.add_tool(tool, exchange))

    def close(self) -> None:
        """Do nothing: everything is written."""
