"""The seam for where recordings are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.recording.document import Document
from offbook.recording.entries import Recorded
from offbook.recording.exchange import Exchange
from offbook.recording.tool_exchange import ToolExchange

E_co = TypeVar("E_co", bound=Recorded, covariant=True)


class Stored(Struct, Generic[E_co], frozen=True, gc=False):
    """An exchange on a shelf. `id` orders exchanges; `repeats` means that it answers every call of its key."""

    id: int
    key: str
    exchange: E_co
    repeats: bool

    @property
    def fingerprint(self) -> str | None:
        return self.exchange.fingerprint


class Row(Protocol[E_co]):
    """A row of exchanges, open for reading. Finding costs the same however many there are."""

    @property
    def source(self) -> str: ...

    def only(self, key: str) -> Stored[E_co] | None:
        """The exchange that answers every call of `key`, if there is such a one."""
        ...

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> Stored[E_co] | None:
        """The first exchange with an id above `after`: under `key` if given, and answering `fingerprint` if given.

        Under a key, an exchange without a fingerprint answers all.
        """
        ...

    def last(self, *, key: str | None, fingerprint: str | None) -> Stored[E_co] | None:
        """The last exchange of those that `find` can find."""
        ...

    def __iter__(self) -> Iterator[Stored[E_co]]:
        """All exchanges, in order."""
        ...

    def __len__(self) -> int: ...


class Shelf(Row[Exchange], Protocol):
    """A recording, open for reading: the row of its models' exchanges, and behind it that of its tools."""

    version: int
    meta: JsonObject

    @property
    def tools(self) -> Row[ToolExchange]:
        """The exchanges of tools; their keys are the tools' names."""
        ...

    def close(self) -> None: ...


class Writer(Protocol):
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

    def read(self) -> Shelf:
        """Raises InputError if there is nothing to read, or nothing that can be read as a recording."""
        ...

    def write(self) -> Writer:
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
