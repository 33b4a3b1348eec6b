"""The interface of recording stores: readers, writers, and the place of a recording."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.recording.format.document import AnyExchange, Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange

E_co = TypeVar("E_co", bound=AnyExchange, covariant=True)


class StoredExchange(Struct, Generic[E_co], frozen=True, gc=False):
    """An exchange on a reader. `id` orders exchanges; `repeats` means that it answers every call of its key."""

    id: int
    key: str
    exchange: E_co
    repeats: bool

    @property
    def fingerprint(self) -> str | None:
        return self.exchange.fingerprint


class ExchangeIndex(Protocol[E_co]):
    """A row of exchanges, open for reading. Finding costs the same however many there are."""

    @property
    def source(self) -> str: ...

    def repeating(self, key: str) -> StoredExchange[E_co] | None:
        """The exchange that answers every call of `key`, if there is such a one."""
        ...

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E_co] | None:
        """The first exchange with an id above `after`: under `key` if given, and answering `fingerprint` if given.

        Under a key, an exchange without a fingerprint answers all.
        """
        ...

    def last(self, *, key: str | None, fingerprint: str | None) -> StoredExchange[E_co] | None:
        """The last exchange of those that `find` can find."""
        ...

    def __iter__(self) -> Iterator[StoredExchange[E_co]]:
        """All exchanges, in order."""
        ...

    def __len__(self) -> int: ...


class RecordingReader(ExchangeIndex[Exchange], Protocol):
    """A recording, open for reading: the row of its models' exchanges, and behind it that of its tools."""

    version: int
    meta: JsonObject

    @property
    def tools(self) -> ExchangeIndex[ToolExchange]:
        """The exchanges of tools; their keys are the tools' names."""
        ...

    def close(self) -> None: ...


class RecordingWriter(Protocol):
    """A recording, open for adding. Adding costs the same however many exchanges there are."""

    meta: JsonObject
    """The recording's metadata when it was opened."""

    size: int
    """How many exchanges of models it had when it was opened."""

    tool_size: int
    """How many exchanges of tools it had when it was opened."""

    def add_meta(self, meta: JsonObject) -> None:
        """Add to the recording's metadata."""
        ...

    def append(self, key: str, exchange: Exchange, *, forget_before: str | None = None) -> None:
        """Keep an exchange for good. `forget_before` first drops those of the key recorded before that moment.

        Works after `close` too, as if it were opened again.

        Raises:
            InputError: it cannot be written; the recording is as it was before.
        """
        ...

    def append_tool(self, tool: str, exchange: ToolExchange, *, forget_before: str | None = None) -> None:
        """The like for an exchange of a tool."""
        ...

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        ...


class Store(Protocol):
    """A place that holds one recording."""

    @property
    def location(self) -> str:
        """Its name, as given."""
        ...

    @property
    def path(self) -> Path:
        """The file that holds it, by whatever name it was given."""
        ...

    def exists(self) -> bool: ...

    def read(self) -> RecordingReader:
        """Raises InputError if there is nothing to read, or nothing that can be read as a recording."""
        ...

    def write(self) -> RecordingWriter:
        """Open for adding, made if absent.

        Raises:
            InputError: the place cannot be written to, or holds something else.
        """
        ...

    def load(self) -> Document:
        """The whole recording. Raises like `read`."""
        ...

    def save(self, document: Document) -> None:
        """Replace the whole recording, or leave it as it was if that fails."""
        ...

    def update(self, change: Callable[[Document], None]) -> None:
        """Put the recording, made if absent, through `change` while nobody else can write, or leave it as it was.

        Raises:
            InputError: the place cannot be written to, or holds something else.
        """
        ...

    def sibling(self) -> Store:
        """A store of the same kind beside this one, which must be there: a place of its own at each call.

        Raises:
            InputError: the place cannot be written to.
        """
        ...

    def remove(self) -> None:
        """Remove the recording, which nobody has open, and all that lies beside it."""
        ...


def create_sibling(path: Path) -> Path:
    """A new file beside `path`, which is there, and as private: empty, and named like `run.json.fresh-1`.

    Raises:
        OSError: it cannot be made.
    """
    mode = stat.S_IMODE(path.stat().st_mode) | 0o600
    numbers = count(1)
    while True:
        sibling = path.with_name(f"{path.name}.fresh-{next(numbers)}")
        try:
            os.close(os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        except FileExistsError:  # of a run that is under way, or was cut off
            continue
        return sibling
