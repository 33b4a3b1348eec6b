"""A writer for a run whose recording takes the place of what was there."""

from __future__ import annotations

import weakref

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.recording.exchange import Exchange
from offbook.recording.fresh_run import RUNS, Part
from offbook.recording.stores.store import Store, Writer
from offbook.recording.tool_exchange import ToolExchange


class FreshWriter:
    """Adds to what a run records afresh. The recording is replaced when the last writer of the run is closed.

    One that is used after that adds to the recording.

    Raises:
        InputError: the recording cannot be written, or is no recording.
    """

    def __init__(self, store: Store, part: Part) -> None:
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
            RUNS.leave(self._store, self._run)

    def _join(self) -> Writer:
        """Join the run, which is left when this writer is closed, or gone."""
        self._run = RUNS.join(self._store, self._part)
        try:
            writer = self._run.beside.write()
        except InputError:
            RUNS.leave(self._store, self._run)
            raise
        self._departure = weakref.finalize(self, self._run.leave)
        self._departure.atexit = False
        return writer

    def _opened(self) -> Writer:
        if not self._departure.alive and not self._is_run_over:
            self._is_run_over = self._run.has_replaced
            self._writer = self._store.write() if self._is_run_over else self._join()
        return self._writer
