"""The recorder: decides which calls are made live, writes them without secrets, and replaces older exchanges."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock, timestamp
from offbook.errors import InputError, RecordingWriteError
from offbook.events import NULL_SINK, Sink
from offbook.recording.call_cache import OWN_TURN, CallCache, CallTurn
from offbook.recording.format.document import PROGRAM_TOOLS, AnyExchange, RecordedProgram, rules_from_meta
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import quote_name, unfit_tool_reason
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.folders import FolderNotes
from offbook.recording.redact.redactor import Redactor
from offbook.recording.redact.rules import note_credentials, redactor_in_force
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader, StoredExchange
from offbook.recording.transaction import ExchangeKind, ReplaceOnCloseWriter
from offbook.session.numbers import call_name

RecordMode = Literal["append", "once", "new", "all", "fresh"]


class ExchangeWriter(Protocol):
    """An object that notes exchanges, like a recording."""

    def append(self, key: str, exchange: Exchange) -> None: ...

    def append_tool(self, tool: str, exchange: ToolExchange) -> None: ...


MAX_KNOWN_CREDENTIALS = 8


class RecordedAs(Struct, frozen=True):
    """The place of a recorded exchange: its key, and its id in a shared recording."""

    key: str
    id: int | None = None


class Recorder:
    """Records exchanges at a location in one of the record modes. Safe to use from several threads.

    Secrets are removed before anything is written. A run without an answered call adds nothing to an existing
    recording.

    Attributes:
        has_answers: the exchanges found when the recording was opened answer calls before anything is called live
            (modes `once` and `new`, if there were any). In mode `new`, those of a shared recording always do.
        cache: decides who makes a call, if other processes share the recording in mode `new`.
        is_live: calls without such an answer are made live. False in mode `once` if the recording has answers.
        rules: the parts that fingerprints ignore.

    Args:
        location: the recording: a path, or `sqlite:///path.db`. It is created if missing.
        mode: `append` adds every call to the recording. `once` answers only from an existing recording. `new` answers
            from an existing recording and adds missing calls. `all` replaces the entries that this run
            uses, `fresh` the whole recording when the recorder is closed.
        kind: the recorded kind of exchanges; the record mode applies only to it.
        redactor: decides what is a secret; by default, the active rules.
        rules: the parts that the fingerprints of a new recording ignore.
        first_to: gets each exchange before it is recorded.
        folders: the folders of the run, if it is that of a program.
        sink: gets an event for each lookup in a shared recording.

    Raises:
        InputError: the mode is unknown, the recording cannot be written, the file is not a recording, or it has
            exchanges that were recorded with other rules.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        mode: RecordMode,
        kind: ExchangeKind,
        redactor: Redactor | None = None,
        rules: NormaliseRules = NO_RULES,
        first_to: ExchangeWriter | None = None,
        folders: FolderNotes | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if mode not in get_args(RecordMode):
            known = ", ".join(get_args(RecordMode))
            raise InputError(f"unknown mode {mode!r}", source="record", hint=f"one of: {known}")
        store = open_store(location)
        self._store, self._mode, self._first_to, self._lock = store, mode, first_to, threading.Lock()
        self._redactor, self.clock = redactor or redactor_in_force(), clock
        self._known_credentials: tuple[str, ...] = ()
        self._knowing_redactor = self._redactor
        self._folders = folders
        self._program: RecordedProgram | None = None
        self._writer = ReplaceOnCloseWriter(store, kind, mode) if mode in ("all", "fresh") else store.write()
        size = self._writer.size if kind == "models" else self._writer.tool_size
        self.cache = self._share(sink) if mode == "new" else None
        self._found_any = self._writer.found_any if isinstance(self._writer, ReplaceOnCloseWriter) else size > 0
        self.has_answers: bool = mode in ("once", "new") and (size > 0 or self.cache is not None)
        self.is_live = mode != "once" or not self.has_answers
        self._held_back: list[tuple[str, Exchange]] = []
        self._is_asked = self._is_answered = False
        try:
            self.rules: NormaliseRules = self._agree_rules(rules)
        except InputError:
            self._writer.close()
            raise

    def _share(self, sink: Sink) -> CallCache | None:
        shared = self._store.share()
        return None if shared is None else CallCache(shared, sink=sink)

    def answers(self) -> RecordingReader:
        """Return the recording to replay if it `has_answers`, without this run's additions.

        A shared recording is read at the time of a call, including the additions of other processes.
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
        """Wait for the turn to make an unrecorded call; without a shared recording, that is now.

        Raises:
            InputError: the recording cannot be reached.
        """
        return OWN_TURN if self.cache is None else await self.cache.turn(call_name(step_id, fingerprint), check)

    def _agree_rules(self, rules: NormaliseRules) -> NormaliseRules:
        """Return the normalise rules of the recording, which become `rules` if it has none."""
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

    def record(
        self,
        step: str | None,
        exchange: Exchange,
        *,
        credentials: Iterable[str] = (),
        turn: CallTurn = OWN_TURN,
        is_answered: bool = True,
    ) -> str:
        """Record an exchange of a step, and return its key: the step, or the fingerprint of the request.

        In mode `all`, a key's new exchanges replace the found ones when the run ends. In a recording with other
        exchanges, unanswered ones wait for an answered one. A shared recording keeps no failures. The `turn` ends with
        the exchange. `credentials` of the call are secret in any form.

        Raises:
            RecordingWriteError: the exchange cannot be written.
        """
        redactor = self._knowing(credentials)
        exchange = exchange if self._folders is None else self._folders.rename(exchange)
        key = (exchange.request_hash or "") if step is None else redactor.text(step)
        self._is_asked, self._is_answered = True, self._is_answered or is_answered
        self._held_back.append((key, redactor.redact(replace(exchange, recorded_at=timestamp(self.clock)))))
        if self._is_answered or not self._found_any:
            ready, self._held_back = self._held_back, []
            for name, each in ready:
                self._append(name, each, turn)
        return key

    def _knowing(self, credentials: Iterable[str]) -> Redactor:
        """Return a redactor that knows these credentials and those of earlier calls, which later ones may repeat."""
        found = tuple(credentials)
        if not set(found).issubset(self._known_credentials):
            note_credentials(found)
            earlier = [each for each in self._known_credentials if each not in found]
            self._known_credentials = (*earlier[-MAX_KNOWN_CREDENTIALS:], *found)
            self._knowing_redactor = self._redactor.knowing(self._known_credentials)
        return self._knowing_redactor

    def copy(self, stored: StoredExchange[Exchange]) -> None:
        """Record another recording's exchange unchanged. Raises like `record`."""
        self._append(stored.key, stored.exchange, OWN_TURN)

    def _append(self, key: str, exchange: Exchange, turn: CallTurn) -> None:
        with self._writing():
            self._note_folders(exchange)
            if self._first_to is not None:
                self._first_to.append(key, exchange)
            if self.cache is None:
                self._writer.append(key, exchange)
            else:
                self.cache.append(key, exchange, call=turn.call)

    def record_tool(
        self, tool: str, exchange: ToolExchange, *, credentials: Iterable[str] = (), turn: CallTurn = OWN_TURN
    ) -> RecordedAs:
        """Record an exchange of a tool, by the rules of `record`."""
        redactor = self._knowing(credentials)
        exchange = exchange if self._folders is None else self._folders.rename(exchange)
        key = redactor.text(tool)
        redacted = redactor.redact_tool(replace(exchange, recorded_at=timestamp(self.clock)))
        return self._append_tool(key, redacted, turn)

    def _note_folders(self, exchange: AnyExchange) -> None:
        meta = None if self._folders is None else self._folders.note(exchange, self._writer.meta)
        if meta is not None:
            self._writer.add_meta(meta)

    def note_program(self, noted: RecordedProgram) -> None:
        """Note in the recording that its function tools are a program's, and what is known of them.

        Raises like `record`.
        """
        before = self._program or RecordedProgram.from_meta(self._writer.meta, source=self._store.location)
        known = before | noted
        if self._program is None or known != before:
            self._program = known
            with self._writing():
                self._writer.add_meta({PROGRAM_TOOLS: msgspec.to_builtins(known)})

    def copy_tool(self, stored: StoredExchange[ToolExchange]) -> None:
        """Record another recording's tool exchange unchanged. Raises like `record`."""
        self._append_tool(stored.key, stored.exchange, OWN_TURN)

    def _append_tool(self, key: str, exchange: ToolExchange, turn: CallTurn) -> RecordedAs:
        with self._writing():
            if reason := unfit_tool_reason(key):
                place = f"tool {quote_name(key)}"
                raise InputError(f"the name {reason}", source=self._store.location, place=place, hint="rename it")
            self._note_folders(exchange)
            if self._first_to is not None:
                self._first_to.append_tool(key, exchange)
            if self.cache is not None:
                return RecordedAs(key, self.cache.append_tool(key, exchange, call=turn.call))
            self._writer.append_tool(key, exchange)
            return RecordedAs(key)

    @property
    def got_no_answer(self) -> bool:
        """Whether calls were made and none was answered."""
        return self._is_asked and not self._is_answered

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Translate a failure. A run that could not record a call must not replace the recording."""
        with self._lock:
            try:
                yield
            except InputError as error:
                self.keep()
                raise RecordingWriteError(
                    error.reason, source=error.source, place=error.place, hint=error.hint
                ) from None

    def keep(self) -> None:
        """Keep the recording unchanged, because the run failed. No effect in modes that only add."""
        if isinstance(self._writer, ReplaceOnCloseWriter):
            self._writer.keep()

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        self._writer.close()
        if self.cache is not None:
            self.cache.close()
