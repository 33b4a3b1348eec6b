"""A recording in progress: kept in a temporary file until its test has passed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from offbook.recording.format.document import (
    FORMAT_VERSION,
    AnyExchange,
    Document,
    Entries,
    exchanges_of,
    forget_all_exchanges,
)
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.record_mode import RecordMode
from offbook.recording.stores.locate import open_store

E = TypeVar("E", bound=AnyExchange)

_STARTED_FRESH: set[tuple[Path, str]] = set()
"""Where recordings were begun afresh, and since when: once for all tests of a run that share one."""


class NewExchanges(Struct, frozen=True):
    """What a test has recorded, with its keys and tools, in order."""

    calls: tuple[tuple[str, Exchange], ...]
    tool_calls: tuple[tuple[str, ToolExchange], ...]

    @property
    def size(self) -> int:
        return len(self.calls) + len(self.tool_calls)


class PendingRecording:
    """Stands for the recording at `real`, in a file of its own at `location`.

    With the mode `new` it begins as what is there, with others empty. `since` is the moment before which entries go
    that are recorded again with the mode `all`. With the mode `fresh` all go that were there before the first test
    that records to the same place.

    Raises:
        InputError: what is there is no recording.
    """

    def __init__(self, real: str, record: RecordMode, *, since: str) -> None:
        self._real, self._since = open_store(real), since if record == "all" else None
        self._first = (self._real.path, since) if record == "fresh" else None
        self._found = self._real.load() if self._real.exists() else Document()
        if record != "new":
            self._found.entries, self._found.tools = {}, {}
        self._folder = TemporaryDirectory(prefix="offbook-")
        self.location = str(Path(self._folder.name) / "recording.json")
        open_store(self.location).save(self._found)

    def added(self) -> NewExchanges:
        """What is in it that was not there at first."""
        now = open_store(self.location).load()
        calls = tuple(_new_exchanges(self._found.entries, now.entries))
        return NewExchanges(calls, tuple(_new_exchanges(self._found.tools, now.tools)))

    def keep(self, added: NewExchanges) -> None:
        """Bring what was added into the real recording, where others may be adding too; it is made even if empty.

        Raises:
            InputError: it cannot be written.
        """
        if self._first is not None:
            self._real.update(partial(self._start_afresh, added))
            return
        writer = self._real.write()
        try:
            for key, exchange in added.calls:
                writer.append(key, exchange, forget_before=self._since)
            for tool, call in added.tool_calls:
                writer.append_tool(tool, call, forget_before=self._since)
        finally:
            writer.close()

    def _start_afresh(self, added: NewExchanges, document: Document) -> None:
        if added.size and self._first is not None and self._first not in _STARTED_FRESH:
            _STARTED_FRESH.add(self._first)
            document.version = FORMAT_VERSION
            forget_all_exchanges(document.entries, before=self._first[1])
            forget_all_exchanges(document.tools, before=self._first[1])
        for key, exchange in added.calls:
            document.add(key, exchange)
        for tool, call in added.tool_calls:
            document.add_tool(tool, call)

    def remove(self) -> None:
        """Let go of the file. Safe to call twice."""
        self._folder.cleanup()


def _new_exchanges(before: Entries[E], now: Entries[E]) -> Iterator[tuple[str, E]]:
    """The exchanges of each key that stand behind those that were there before."""
    for key in now:
        for exchange in exchanges_of(now, key)[len(exchanges_of(before, key)) :]:
            yield key, exchange
