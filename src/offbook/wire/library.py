"""The recordings that a server answers from: one, or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from offbook.errors import InputError
from offbook.recording.document import Document
from offbook.recording.exchange import Exchange
from offbook.recording.file_format import convert
from offbook.recording.latency import Latency
from offbook.recording.merge import merge
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryShelf
from offbook.recording.stores.store import Shelf
from offbook.wire.stock import Stock


class Library:
    """Recordings by the names of the runs that they answer.

    A folder answers every run from all the recordings in it, and a run that is named like one of them from that alone.

    Raises:
        InputError: a recording cannot be read, or both or neither of the two sources are given.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str] | None = None,
        *,
        responses: Mapping[str, Any] | Document | None = None,
        latency: Latency,
        strict: bool,
    ) -> None:
        if recording is not None and responses is not None:
            raise InputError("give a recording or responses, not both", source="serving")
        self._latency, self._strict = latency, strict
        self._named: dict[str, MemoryShelf] = {}
        self._stocks: dict[str, Stock] = {}
        self._whole = self._stock(self._open(recording, responses))

    def stock(self, name: str) -> Stock:
        """What answers the run of that name."""
        shelf = self._named.get(name)
        if shelf is None:
            return self._whole
        if name not in self._stocks:
            self._stocks[name] = self._stock(shelf)
        return self._stocks[name]

    def file_of(self, stock: Stock, exchange: Exchange) -> str:
        """The recording that has an exchange of the stock; of a folder, the file in it."""
        return self._files.get(id(exchange), stock.shelf.source)

    def close(self) -> None:
        self._whole.shelf.close()

    def _open(self, recording: str | os.PathLike[str] | None, responses: Mapping[str, Any] | Document | None) -> Shelf:
        if recording is None:
            document = responses if isinstance(responses, Document) else convert(responses or {}, source="responses")
            return MemoryShelf(document, source="responses")
        path = os.fspath(recording)
        if not path or "://" in path or not Path(path).is_dir():
            return open_store(recording).read()
        documents = _in_folder(Path(path))
        self._named = {_name(file, path): MemoryShelf(found, source=str(file)) for file, found in documents.items()}
        return MemoryShelf(merge(list(documents.values())), source=path)

    @cached_property
    def _files(self) -> dict[int, str]:
        """The files of a folder, by the identities of the exchanges that they have."""
        return {id(stored.exchange): shelf.source for shelf in self._named.values() for stored in shelf}

    def _stock(self, shelf: Shelf) -> Stock:
        return Stock(shelf, latency=self._latency, strict=self._strict)


def _in_folder(folder: Path) -> dict[Path, Document]:
    """The recordings of a folder and those below it, by their paths."""
    paths = sorted(path for path in folder.rglob("*.json") if path.is_file())
    if not paths:
        raise InputError("the folder has no recordings", source=str(folder), hint="a recording is a file named *.json")
    return {path: open_store(path).load() for path in paths}


def _name(file: Path, folder: str) -> str:
    """The run that a recording in a folder answers: its path there without `.json`."""
    return file.relative_to(folder).with_suffix("").as_posix()
