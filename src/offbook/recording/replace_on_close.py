"""The `fresh` record mode: what a run records replaces the recording when its last writer is closed."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.recording.format.document import FORMAT_VERSION, Document, each_exchange, forget_all_exchanges, new_meta
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.stores.fork_guard import ForkGuarded
from offbook.recording.stores.store import RecordingWriter, Store

logger = logging.getLogger("offbook.recording")

ExchangeKind = Literal["models", "tools"]
"""What a recorder keeps: calls of models, or of tools."""

_BEFORE_ALL_MOMENTS = "0"


class FreshRun:
    """A run under way. What it records is kept `beside` the recording, which stays as it is until the run ends.

    Then goes what the recording had when the run began, of those parts that were recorded. What others have added
    since stays.

    Raises:
        InputError: the recording cannot be written, or is no recording.
    """

    def __init__(self, store: Store) -> None:
        found = store.write()
        found.close()
        self._store, self._found_until = store, moment_after(store, *get_args(ExchangeKind))
        self.beside = store.sibling()
        self.beside.save(Document(meta=found.meta | new_meta()))
        self.has_replaced = False
        self._parts: set[ExchangeKind] = set()
        self._joined, self._left = 0, list[None]()
        self._process = os.getpid()

    def join(self, part: ExchangeKind) -> None:
        """Count one more who records that part."""
        self._parts.add(part)
        self._joined += 1

    def leave(self) -> None:
        """Count one less. Takes no lock: the garbage collector may be the one who calls."""
        self._left.append(None)

    @property
    def is_deserted(self) -> bool:
        """Whether nobody records any more."""
        return len(self._left) >= self._joined

    def end(self) -> None:
        """Let what was recorded take its place; if nothing was, all stays as it is. A child leaves that to its parent.

        Raises:
            InputError: the recording cannot be written; what was recorded stays beside it.
        """
        if os.getpid() != self._process:
            return
        recorded = self.beside.load()
        if recorded.size:
            try:
                self._store.update(partial(self._replace, recorded))
            except InputError as error:
                hint = f"what was recorded is in {self.beside.location}"
                raise InputError(error.reason, source=error.source, place=error.place, hint=hint) from None
            self.has_replaced = True
        self.beside.remove()

    def _replace(self, recorded: Document, document: Document) -> None:
        if "models" in self._parts:
            document.version = FORMAT_VERSION
            forget_all_exchanges(document.entries, before=self._found_until)
        if "tools" in self._parts:
            forget_all_exchanges(document.tools, before=self._found_until)
        document.meta |= recorded.meta
        for key, exchange in recorded:
            document.add(key, exchange)
        for tool, call in each_exchange(recorded.tools):
            document.add_tool(tool, call)


def moment_after(store: Store, *kinds: ExchangeKind) -> str:
    """Return a timestamp after all exchanges of these kinds in the recording, and before those recorded from now on."""
    reader = store.read()
    try:
        moments = [stored.exchange.recorded_at or "" for stored in reader] if "models" in kinds else []
        moments += [stored.exchange.recorded_at or "" for stored in reader.tools] if "tools" in kinds else []
    finally:
        reader.close()
    latest = max(moments, default="")
    return f"{latest}~" if latest else _BEFORE_ALL_MOMENTS


class FreshRuns(ForkGuarded):
    """The runs under way in this process: all who record afresh to one place at the same time are one run."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[Path, FreshRun] = {}
        atexit.register(self._end_all)

    def join(self, store: Store, part: ExchangeKind) -> FreshRun:
        """The run that records to that store, begun if there is none.

        Raises:
            InputError: the recording cannot be written, or is no recording.
        """
        with self.guard:
            run = self._runs.get(store.path)
            if run is not None and run.is_deserted:
                self._end(store.path)
                run = None
            run = run or FreshRun(store)
            run.join(part)
            return self._runs.setdefault(store.path, run)

    def leave(self, store: Store, run: FreshRun) -> None:
        """Leave the run, and end it if nobody else records.

        Raises:
            InputError: the recording cannot be written; what was recorded stays beside it.
        """
        with self.guard:
            run.leave()
            if run.is_deserted:
                self._end(store.path)

    def close(self) -> None:
        """Nothing is held open."""

    def _end(self, path: Path) -> None:
        run = self._runs.pop(path, None)
        if run is not None:
            run.end()

    def _end_all(self) -> None:
        """End the runs that nobody has ended, as the program does."""
        for path in list(self._runs):
            try:
                self._end(path)
            except InputError as error:
                logger.warning("%s", error)


FRESH_RUNS = FreshRuns()


class ReplaceOnCloseWriter:
    """Adds to what a run records afresh. The recording is replaced when the last writer of the run is closed.

    One that is used after that adds to the recording.

    Raises:
        InputError: the recording cannot be written, or is no recording.
    """

    def __init__(self, store: Store, part: ExchangeKind) -> None:
        self._store, self._part = store, part
        self._is_run_over = False
        self._writer = self._join()
        self.meta, self.size, self.tool_size = self._writer.meta, self._writer.size, self._writer.tool_size

    def add_meta(self, meta: JsonObject) -> None:
        self._opened().add_meta(meta)

    def append(self, key: str, exchange: Exchange, *, forget_before: str | None = None) -> None:
        self._opened().append(key, exchange, forget_before=forget_before)

    def append_tool(self, tool: str, exchange: ToolExchange, *, forget_before: str | None = None) -> None:
        self._opened().append_tool(tool, exchange, forget_before=forget_before)

    def close(self) -> None:
        self._writer.close()
        if self._departure.detach() is not None:
            FRESH_RUNS.leave(self._store, self._run)

    def _join(self) -> RecordingWriter:
        """Join the run, which is left when this writer is closed, or gone."""
        self._run = FRESH_RUNS.join(self._store, self._part)
        try:
            writer = self._run.beside.write()
        except InputError:
            FRESH_RUNS.leave(self._store, self._run)
            raise
        self._departure = weakref.finalize(self, self._run.leave)
        self._departure.atexit = False
        return writer

    def _opened(self) -> RecordingWriter:
        if not self._departure.alive and not self._is_run_over:
            self._is_run_over = self._run.has_replaced
            self._writer = self._store.write() if self._is_run_over else self._join()
        return self._writer
