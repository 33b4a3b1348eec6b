"""Record modes: which calls are made live, and what happens to the exchanges already recorded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, get_args

import msgspec

from offbook.clock import Clock
from offbook.errors import InputError, RecordingWriteError
from offbook.events import NULL_SINK, Sink
from offbook.recording.call_cache import OWN_TURN, CallCache, CallTurn, call_name
from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.replace_on_close import ExchangeKind, ReplaceOnCloseWriter
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader, Store

RecordMode = Literal["append", "once", "new", "all", "fresh"]


def timestamp(clock: Clock) -> str:
    """Return the current time as recordings write it."""
    return clock.utc_now().isoformat(timespec="microseconds")


class ExchangeWriter(Protocol):
    """Something that notes exchanges, like a recording."""

    def append(self, key: str, exchange: Exchange) -> None: ...

    def append_tool(self, tool: str, exchange: ToolExchange) -> None: ...


def open_recording(
    location: str | os.PathLike[str],
    *,
    mode: RecordMode,
    kind: ExchangeKind,
    first_to: ExchangeWriter | None = None,
    sink: Sink = NULL_SINK,
) -> OpenRecording:
    """Open the recording at `location` for a recorder of that kind of exchanges, and create it if it does not exist.

    Each exchange is written to `first_to` before it is recorded. The sink gets an event for each lookup in a shared
    recording.

    Raises:
        InputError: the mode is unknown, the recording cannot be written, or the file is not a recording.
    """
    if mode not in get_args(RecordMode):
        known = ", ".join(get_args(RecordMode))
        raise InputError(f"unknown mode {mode!r}", source="record", hint=f"one of: {known}")
    return OpenRecording(open_store(location), mode=mode, kind=kind, first_to=first_to, sink=sink)


class OpenRecording:
    """A recording that a recorder writes to in one of the record modes. Safe to use from several threads.

    Attributes:
        found_any: there were exchanges when the recording was opened.
        has_answers: the exchanges found when the recording was opened answer calls before anything is called live
            (modes `once` and `new`, if there were any). In mode `new`, those of a shared recording always do.
        cache: decides who makes a call, if other processes share the recording in mode `new`.
        is_live: calls without such an answer are made live. False in mode `once` if the recording has answers.
    """

    def __init__(
        self,
        store: Store,
        *,
        mode: RecordMode,
        kind: ExchangeKind,
        first_to: ExchangeWriter | None = None,
        sink: Sink = NULL_SINK,
    ) -> None:
        self._store, self._mode, self._first_to, self._lock = store, mode, first_to, threading.Lock()
        self._writer = ReplaceOnCloseWriter(store, kind, mode) if mode in ("all", "fresh") else store.write()
        size = self._writer.size if kind == "models" else self._writer.tool_size
        self.cache = self._share(sink) if mode == "new" else None
        self.found_any = self._writer.found_any if isinstance(self._writer, ReplaceOnCloseWriter) else size > 0
        self.has_answers = mode in ("once", "new") and (size > 0 or self.cache is not None)
        self.is_live = mode != "once" or not self.has_answers

    def _share(self, sink: Sink) -> CallCache | None:
        shared = self._store.share()
        return None if shared is None else CallCache(shared, sink=sink)

    def answers(self) -> RecordingReader:
        """Return what to replay if the recording `has_answers`: without the exchanges that this run adds.

        A shared recording is read as it is when a call is made, with what this run and others have added.
        """
        if self.cache is not None:
            return self.cache.reader
        if self._mode == "once":
            return self._store.read()
        return MemoryReader(self._store.load(), source=self._store.location)

    def has_answer(self, check: Callable[[], bool]) -> bool:
        """Return whether `check` finds an answer in the recording. Raises like `check`."""
        return check() if self.cache is None else self.cache.has_answer(check)

    async def turn(self, step_id: str | None, fingerprint: str, check: Callable[[], bool]) -> CallTurn:
        """Wait for the turn to make a call that the recording does not answer; without a shared one, that is now.

        Raises:
            InputError: the recording cannot be reached.
        """
        return OWN_TURN if self.cache is None else await self.cache.turn(call_name(step_id, fingerprint), check)

    def agree_rules(self, rules: NormaliseRules = NO_RULES) -> NormaliseRules:
        """Return the normalise rules of the recording, which are `rules` if it does not have any yet.

        Raises:
            InputError: the recording holds exchanges that were recorded with other rules, or declares its own wrongly.
        """
        declared = rules_from_meta(self._writer.meta, source=self._store.location)
        if rules in (NO_RULES, declared):
            return declared
        if self._writer.size:
            raise InputError(
                "the recording was made with other normalise rules",
                source=self._store.location,
                hint="leave normalise out to use them, or record into a new file",
            )
        self._writer.add_meta({"normalise": msgspec.to_builtins(rules)})
        return rules

    def append(self, key: str, exchange: Exchange, *, turn: CallTurn = OWN_TURN) -> None:
        """Record an exchange. In mode `all`, those of a key replace those found under the key when the run has ended.

        A shared recording keeps no failures. The `turn` ends with the exchange.

        Raises:
            RecordingWriteError: the exchange cannot be written.
        """
        with self._writing():
            if self._first_to is not None:
                self._first_to.append(key, exchange)
            if self.cache is None:
                self._writer.append(key, exchange)
            else:
                self.cache.append(key, exchange, call=turn.call)

    def append_tool(self, tool: str, exchange: ToolExchange, *, turn: CallTurn = OWN_TURN) -> int | None:
        """Record a tool exchange, like `append`. Returns its id in a shared recording."""
        with self._writing():
            if self._first_to is not None:
                self._first_to.append_tool(tool, exchange)
            if self.cache is not None:
                return self.cache.append_tool(tool, exchange, call=turn.call)
            self._writer.append_tool(tool, exchange)
            return None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Translate a failure. A run that could not record a call must not replace what was there."""
        with self._lock:
            try:
                yield
            except InputError as error:
                self.keep()
                raise RecordingWriteError(
                    error.reason, source=error.source, place=error.place, hint=error.hint
                ) from None

    def keep(self) -> None:
        """Let the recording stay as it was, because the run has failed. Without effect in modes that only add to it."""
        if isinstance(self._writer, ReplaceOnCloseWriter):
            self._writer.keep()

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        self._writer.close()
        if self.cache is not None:
            self.cache.close()
