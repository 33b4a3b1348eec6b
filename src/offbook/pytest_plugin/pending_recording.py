"""A recording in progress: in a temporary file until its test has passed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from offbook.clock import pauses_until
from offbook.recording.format.document import (
    FORMAT_VERSION,
    PROGRAM_TOOLS,
    AnyExchange,
    Document,
    Entries,
    exchanges_of,
)
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.replace_on_close import FoundExchanges, ReplaceMode, has_only_failures
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import ExchangeIndex, RecordingWriter, SharedCalls, SharedReader
from offbook.session.recorder import RecordMode

E = TypeVar("E", bound=AnyExchange)


class NewExchanges(Struct, frozen=True):
    """The exchanges that a test recorded, with their keys or tools, in order."""

    calls: tuple[tuple[str, Exchange], ...]
    tool_calls: tuple[tuple[str, ToolExchange], ...]

    @property
    def size(self) -> int:
        return len(self.calls) + len(self.tool_calls)

    @property
    def call_count(self) -> int:
        """How many of them are calls of models and tools: lists of MCP servers are not."""
        return len(self.calls) + sum(not is_mcp_key(tool) for tool, _ in self.tool_calls)

    @property
    def failure_count(self) -> int:
        """How many of them are calls of models that failed."""
        return sum(exchange.fault is not None for _, exchange in self.calls)


class PendingRecording:
    """A temporary recording at `location` that is merged into the real one when the test has passed.

    With the mode `new` it starts with the entries of the real recording, with other modes empty. `found` is what a run
    of tests is to replace: with the mode `all` the entries of the keys that are recorded again, with `fresh` all
    entries, as soon as something is recorded. Calls that failed replace no answer; if all did, `fresh` is like `all`.

    Raises:
        InputError: the real recording cannot be read.
    """

    def __init__(self, real: str, record: RecordMode, *, found: FoundExchanges | None) -> None:
        self._real, self._mode, self._found = open_store(real), record, found
        self._initial = self._real.load() if self._real.exists() else Document()
        if record != "new":
            self._initial.entries, self._initial.tools = {}, {}
        self._folder = TemporaryDirectory(prefix="offbook-")
        self.location = str(Path(self._folder.name) / "recording.json")
        open_store(self.location).save(self._initial)

    def added(self) -> NewExchanges:
        """Return what was recorded."""
        now = open_store(self.location).load()
        calls = tuple(_new_exchanges(self._initial.entries, now.entries))
        return NewExchanges(calls, tuple(_new_exchanges(self._initial.tools, now.tools)))

    def merge(self, added: NewExchanges, *, keeps_functions: bool = False) -> None:
        """Merge what was recorded into the real recording, which others may write too. It is created even if empty.

        If it `keeps_functions`, the calls of a program's function tools stay, also with the mode `fresh`: the test has
        wrapped none.

        Of a recording in Redis in mode `new`, the first test to pass has its answers kept: what another process has
        recorded since this test began is not added again.

        Raises:
            InputError: it cannot be written.
        """
        if self._found is not None:
            self._real.update(partial(self._replace, added, self._found, keeps_functions))
            return
        writer = self._real.write()
        shared = self._real.share() if self._mode == "new" else None
        try:
            if shared is None:
                _append(writer, added)
            else:
                with _one_at_a_time(shared):
                    _append(writer, self._missing(added, shared.reader))
        finally:
            writer.close()

    def _missing(self, added: NewExchanges, reader: SharedReader) -> NewExchanges:
        """Return what the recording does not have by now."""
        calls = _missing(added.calls, self._initial.entries, reader)
        return NewExchanges(tuple(calls), tuple(_missing(added.tool_calls, self._initial.tools, reader.tools)))

    def _replace(self, added: NewExchanges, found: FoundExchanges, keeps_functions: bool, document: Document) -> None:
        is_fresh = added.size and self._mode == "fresh" and not has_only_failures(added.calls, document)
        document.version = FORMAT_VERSION if is_fresh else document.version
        mode: ReplaceMode = "fresh" if is_fresh else "all"
        keeps_functions = keeps_functions and PROGRAM_TOOLS in document.meta
        found.replace_in(document, added.calls, added.tool_calls, mode=mode, keeps_functions=keeps_functions)

    def remove(self) -> None:
        """Delete the temporary file. Safe to call twice."""
        self._folder.cleanup()


_MERGE = "merge"
"""The name of the lease of the process that merges a recording into a shared one."""


@contextmanager
def _one_at_a_time(shared: SharedCalls) -> Iterator[None]:
    for pause_s in pauses_until(lambda: shared.acquire(_MERGE)):
        time.sleep(pause_s)
    try:
        yield
    finally:
        shared.release(_MERGE)
        shared.close()


def _append(writer: RecordingWriter, added: NewExchanges) -> None:
    for key, exchange in added.calls:
        writer.append(key, exchange)
    for tool, call in added.tool_calls:
        writer.append_tool(tool, call)


def _missing(added: Iterable[tuple[str, E]], before: Entries[E], now: ExchangeIndex[E]) -> Iterator[tuple[str, E]]:
    """Yield the exchanges that were added to those of `before`, and of which `now` has no equal one in their place."""
    places = Counter((key, exchange.fingerprint) for key in before for exchange in exchanges_of(before, key))
    for key, exchange in added:
        place = key, exchange.fingerprint
        if _count(now, *place) <= places[place]:
            yield key, exchange
        places[place] += 1


def _count(index: ExchangeIndex[E], key: str, fingerprint: str | None) -> int:
    count, stored = 0, index.find(key=key, fingerprint=fingerprint, after=-1)
    while stored is not None:
        count, stored = count + 1, index.find(key=key, fingerprint=fingerprint, after=stored.id)
    return count


def _new_exchanges(before: Entries[E], now: Entries[E]) -> Iterator[tuple[str, E]]:
    """Yield the exchanges of each key that come after those of `before`."""
    for key in now:
        for exchange in exchanges_of(now, key)[len(exchanges_of(before, key)) :]:
            yield key, exchange
