"""Transactions: a run records to a separate file. If it succeeds, its exchanges are added, or replace earlier ones."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import pauses_until
from offbook.errors import InputError
from offbook.messages import JsonObject, Usage
from offbook.recording.format.document import PROGRAM_TOOLS, Document, Entries, each_exchange, exchanges_of, new_meta
from offbook.recording.format.exchange import Exchange, ToolExchange, is_conditional
from offbook.recording.format.keys import is_function_tool, is_mcp_key
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import (
    ExchangeIndex,
    ForkGuarded,
    RecordingWriter,
    SharedCalls,
    Store,
    log_warning,
)

E = TypeVar("E", Exchange, ToolExchange)
ExchangeKind = Literal["models", "tools"]
"""The kind of recorded exchanges: model calls, or tool calls."""

ReplaceMode = Literal["all", "fresh"]
"""`fresh` replaces all exchanges that the recording had, `all` only those of the recorded keys."""

FAILED_SUFFIX = ".failed"


class FoundExchanges:
    """The present exchanges of a recording, which can be removed later, after others' additions and edits.

    An exchange is recognised by its content, never by its timestamp: the clocks of two machines may differ. Of equal
    exchanges, the first are removed, and only as many as were found. Hand-written ones with a `when` stay, because no
    run records them.

    Raises:
        InputError: the recording is missing or cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._counts = Counter[tuple[ExchangeKind, str, bytes]]()
        reader = store.read()
        try:
            for stored in reader:
                self._counts["models", stored.key, _digest(stored.exchange)] += not stored.is_conditional
            for call in reader.tools:
                self._counts["tools", call.key, _digest(call.exchange)] += 1
        finally:
            reader.close()

    def replace_in(
        self,
        document: Document,
        calls: Sequence[tuple[str, Exchange]],
        tool_calls: Sequence[tuple[str, ToolExchange]],
        *,
        mode: ReplaceMode,
        kinds: Container[ExchangeKind] = ("models", "tools"),
        keeps_functions: bool = False,
    ) -> list[str]:
        """Replace the found exchanges by a run's recorded ones, of the kinds that it records.

        If it `keeps_functions`, it records no function tools, and theirs stay. Returns the keys whose entries stay
        because the new calls failed.
        """
        kept = keys_to_keep(calls, document)
        is_fresh = mode == "fresh"
        for key in dict.fromkeys(document.entries if is_fresh else (key for key, _ in calls)):
            if key not in kept and "models" in kinds:
                self._remove(document.entries, "models", key)
        for tool in dict.fromkeys(document.tools if is_fresh else (tool for tool, _ in tool_calls)):
            if "tools" in kinds and not (keeps_functions and is_function_tool(tool)):
                self._remove(document.tools, "tools", tool)
        for key, exchange in calls:
            if key not in kept:
                document.add(key, exchange)
        for tool, call in tool_calls:
            document.add_tool(tool, call)
        return kept

    def _remove(self, entries: Entries[E], kind: ExchangeKind, key: str) -> None:
        left = [exchange for exchange in exchanges_of(entries, key) if not self._is_found(kind, key, exchange)]
        entry = entries.pop(key, None)
        if left:
            entries[key] = left if isinstance(entry, list) else left[0]

    def _is_found(self, kind: ExchangeKind, key: str, exchange: Exchange | ToolExchange) -> bool:
        """Return whether the exchange is to be removed, and count it."""
        known = (kind, key, _digest(exchange))
        if is_conditional(exchange.fingerprint) or not self._counts[known]:
            return False
        self._counts[known] -= 1
        return True


def _digest(exchange: Exchange | ToolExchange) -> bytes:
    """Identify an exchange, however its JSON is laid out. Its request is identified by its hash."""
    if isinstance(exchange, Exchange):
        exchange = replace(exchange, request=msgspec.Raw(), usage=exchange.usage or Usage())
    return blake2b(msgspec.json.encode(exchange), digest_size=16).digest()


class NewExchanges(Struct, frozen=True):
    """The exchanges that a run recorded, with their keys or tools, in order, and the metadata."""

    calls: list[tuple[str, Exchange]]
    tool_calls: list[tuple[str, ToolExchange]]
    meta: JsonObject

    @property
    def size(self) -> int:
        return len(self.calls) + len(self.tool_calls)

    @property
    def call_count(self) -> int:
        """The number of model and tool calls among them, without lists of MCP servers."""
        return len(self.calls) + sum(not is_mcp_key(tool) for tool, _ in self.tool_calls)

    @property
    def failure_count(self) -> int:
        """The number of failed model calls among them."""
        return sum(exchange.fault is not None for _, exchange in self.calls)


class Transaction:
    """Records to `aside`, which starts with the document `start`. The recording is not changed until a `commit`.

    Others may write to the recording meanwhile. `found` exchanges are replaced: all of them in mode `fresh`, unless all
    new calls failed, else the entries of the recorded keys. A failure replaces no answer. Without `found`, the new
    exchanges are added.
    """

    def __init__(
        self, store: Store, aside: Store, *, start: Document, mode: str, found: FoundExchanges | None = None
    ) -> None:
        self._store, self.aside, self._start, self._mode, self._found = store, aside, start, mode, found
        aside.save(start)

    def recorded(self) -> NewExchanges:
        """Return the recorded document."""
        now = self.aside.load()
        calls = list(_new_exchanges(self._start.entries, now.entries))
        return NewExchanges(calls, list(_new_exchanges(self._start.tools, now.tools)), now.meta)

    def commit(
        self,
        recorded: NewExchanges,
        *,
        kinds: Container[ExchangeKind] = ("models", "tools"),
        keeps_functions: bool = False,
    ) -> list[str]:
        """Bring the recorded exchanges into the recording, which is created even if they are empty.

        If it `keeps_functions`, the calls of a program's function tools stay, also in mode `fresh`.

        For a recording in Redis in mode `new`, the first commit wins: exchanges that another process recorded meanwhile
        are not added again. Returns the keys whose entries stay because new calls failed.

        Raises:
            InputError: it cannot be written.
        """
        kept = list[str]()
        if self._found is not None:
            replaces = partial(
                self._found.replace_in, calls=recorded.calls, tool_calls=recorded.tool_calls, kinds=kinds
            )
            self._store.update(partial(self._replace, recorded, replaces, kept, keeps_functions=keeps_functions))
            return kept
        writer = self._store.write()
        shared = self._store.share() if self._mode == "new" else None
        try:
            if shared is None:
                _append(writer, recorded.calls, recorded.tool_calls)
            else:
                with _one_at_a_time(shared):
                    calls = _missing(recorded.calls, self._start.entries, shared.reader)
                    _append(writer, calls, _missing(recorded.tool_calls, self._start.tools, shared.reader.tools))
        finally:
            writer.close()
        return kept

    def _replace(
        self,
        recorded: NewExchanges,
        replaces: Callable[..., list[str]],
        kept: list[str],
        document: Document,
        *,
        keeps_functions: bool,
    ) -> None:
        keeps_functions = keeps_functions and PROGRAM_TOOLS in document.meta
        is_fresh = self._mode == "fresh" and recorded.size > 0 and not has_only_failures(recorded.calls, document)
        rules = recorded.meta.get("normalise")
        document.meta |= recorded.meta if is_fresh else {"normalise": rules} if rules else {}
        mode: ReplaceMode = "fresh" if is_fresh else "all"
        kept += replaces(document, mode=mode, keeps_functions=keeps_functions)


_COMMIT = "merge"
"""The name of the lease of the process that commits to a shared recording."""


@contextmanager
def _one_at_a_time(shared: SharedCalls) -> Iterator[None]:
    for pause_s in pauses_until(lambda: shared.acquire(_COMMIT)):
        time.sleep(pause_s)
    try:
        yield
    finally:
        shared.release(_COMMIT)
        shared.close()


def _append(
    writer: RecordingWriter, calls: Iterable[tuple[str, Exchange]], tool_calls: Iterable[tuple[str, ToolExchange]]
) -> None:
    for key, exchange in calls:
        writer.append(key, exchange)
    for tool, call in tool_calls:
        writer.append_tool(tool, call)


def _missing(added: Iterable[tuple[str, E]], before: Entries[E], now: ExchangeIndex[E]) -> Iterator[tuple[str, E]]:
    """Yield the exchanges added after `before` that have no equal one in their place in `now`."""
    places = Counter((key, exchange.fingerprint) for key, exchange in each_exchange(before))
    for key, exchange in added:
        place = key, exchange.fingerprint
        equal, stored = 0, now.find(key=key, fingerprint=exchange.fingerprint, after=-1)
        while stored is not None:
            equal, stored = equal + 1, now.find(key=key, fingerprint=exchange.fingerprint, after=stored.id)
        if equal <= places[place]:
            yield key, exchange
        places[place] += 1


def _new_exchanges(before: Entries[E], now: Entries[E]) -> Iterator[tuple[str, E]]:
    """Yield the exchanges of each key after those of `before`."""
    for key in now:
        for exchange in exchanges_of(now, key)[len(exchanges_of(before, key)) :]:
            yield key, exchange


class FreshRun:
    """A run in progress. It records to a `sibling` of the recording, which does not change until the run ends.

    At the end, the recording's initial exchanges of the recorded kinds are removed, and others' additions stay. If the
    run `has_failed` and the recording had exchanges, the recording does not change, and the run's exchanges are written
    to another file (`kept_at`). So they are if every call of a `fresh` run failed and the recording has answers.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """

    def __init__(self, store: Store, mode: ReplaceMode = "fresh") -> None:
        found = store.write()
        found.close()
        self.found_size, self.found_tool_size = found.size, found.tool_size
        self.has_failed = False
        self.mode = mode
        start = Document(meta=found.meta | new_meta())
        replaced = FoundExchanges(store)
        self._store, self.sibling = store, store.sibling()
        self._transaction = Transaction(store, self.sibling, start=start, mode=mode, found=replaced)
        self.has_replaced = False
        self.kept_at = ""
        self._kinds: set[ExchangeKind] = set()
        self._joined, self._left = 0, list[None]()
        self._process = os.getpid()

    def join(self, kind: ExchangeKind) -> None:
        """Count a writer that records that kind of exchanges."""
        self._kinds.add(kind)
        self._joined += 1

    def leave(self) -> None:
        """Discount a writer, without a lock: the garbage collector may call this."""
        self._left.append(None)

    @property
    def is_deserted(self) -> bool:
        """Whether all writers have left."""
        return len(self._left) >= self._joined

    def end(self) -> None:
        """Replace the recording by the run's exchanges, if any. In a forked child, do nothing.

        Raises:
            InputError: the recording cannot be written; the sibling has the exchanges.
        """
        if os.getpid() != self._process:
            return
        recorded = self._transaction.recorded()
        if recorded.size:
            try:
                why_kept = self._why_kept(recorded)
                if why_kept:
                    self._keep_beside(why_kept)
                elif kept := self._transaction.commit(recorded, kinds=self._kinds):
                    message = "%s: the entries of %s stay as they were, because the new calls failed"
                    log_warning("offbook.recording", message, self._store.location, ", ".join(kept))
                self.has_replaced = not why_kept
            except InputError as error:
                hint = f"what was recorded is in {self.sibling.location}"
                raise InputError(error.reason, source=error.source, place=error.place, hint=hint) from None
        self.sibling.remove()

    def _why_kept(self, recorded: NewExchanges) -> str:
        """Return why the recording must not change, or ""."""
        if self.has_failed and self.found_size + self.found_tool_size > 0:
            return "the run failed"
        if self.mode == "fresh" and has_only_failures(recorded.calls, self._store.load()):
            return "no call got an answer"
        return ""

    def _keep_beside(self, why: str) -> None:
        """Write the run's exchanges to another file, and report it."""
        beside = self._store.beside(FAILED_SUFFIX)
        beside.save(self.sibling.load())
        self.kept_at = beside.location
        message = "%s: %s, so it stays as it was; what was recorded is in %s"
        log_warning("offbook.recording", message, self._store.location, why, beside.location)


def keys_to_keep(recorded: Iterable[tuple[str, Exchange]], document: Document) -> list[str]:
    """Return the keys of failed exchanges that the recording already answers."""
    is_answered: dict[str, bool] = {}
    for key, exchange in recorded:
        is_answered[key] = is_answered.get(key, False) or exchange.fault is None
    failed = [key for key, has_answer in is_answered.items() if not has_answer]
    return [key for key in failed if any(exchange.fault is None for exchange in document.exchanges(key))]


def has_only_failures(recorded: Iterable[tuple[str, Exchange]], document: Document) -> bool:
    """Return whether all recorded exchanges are failures, although the recording has answers."""
    failed = {exchange.fault is not None for _, exchange in recorded}
    return failed == {True} and any(exchange.fault is None for _, exchange in document)


class FreshRuns(ForkGuarded):
    """The runs in progress in this process: all concurrent writers of one recording are one run."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, FreshRun] = {}
        self._kept: dict[str, str] = {}
        atexit.register(self._end_all)

    def join(self, store: Store, kind: ExchangeKind, mode: ReplaceMode) -> FreshRun:
        """Join the run that records to that store, or start one.

        Raises:
            InputError: the recording cannot be written, the file is not a recording, or the run is of another mode.
        """
        with self.guard:
            run = self._runs.get(store.identity)
            if run is not None and run.is_deserted:
                self._end(store.identity)
                run = None
            if run is not None and run.mode != mode:
                reason = f"it is being recorded in mode {run.mode!r}, and cannot be in mode {mode!r} at the same time"
                raise InputError(reason, source=store.location, hint="give all recorders of a recording the same mode")
            run = run or FreshRun(store, mode)
            run.join(kind)
            return self._runs.setdefault(store.identity, run)

    def leave(self, store: Store, run: FreshRun) -> None:
        """Leave the run, and end it after its last writer.

        Raises:
            InputError: the recording cannot be written; the sibling has the exchanges.
        """
        with self.guard:
            run.leave()
            if run.is_deserted:
                self._end(store.identity)

    def fail(self, store: Store) -> None:
        """Note the failure of the run that records to that store, if any."""
        with self.guard:
            run = self._runs.get(store.identity)
            if run is not None:
                run.has_failed = True

    def kept_at(self, store: Store) -> str:
        """Return the file with the last run's exchanges next to that store, or ""."""
        with self.guard:
            return self._kept.get(store.identity, "")

    def close(self) -> None:
        """Do nothing: no resource is held open."""

    def _end(self, identity: str) -> None:
        run = self._runs.pop(identity, None)
        if run is not None:
            run.end()
            self._kept[identity] = run.kept_at

    def _end_all(self) -> None:
        """End the runs still in progress when the program ends."""
        for identity in list(self._runs):
            try:
                self._end(identity)
            except InputError as error:
                log_warning("offbook.recording", "%s", error)


FRESH_RUNS = FreshRuns()


def keep_recording(store: Store) -> None:
    """Keep a recording unchanged, because the run that was to replace it failed.

    Call it before the recorders are closed. It has no effect on a run that only adds.
    """
    FRESH_RUNS.fail(store)


def kept_beside(store: Store) -> str:
    """Return the file with the exchanges of this process's last failed run, or ""."""
    return FRESH_RUNS.kept_at(store)


class ReplaceOnCloseWriter:
    """Adds to the exchanges of a run. Closing the run's last writer replaces the recording.

    A writer used after that adds to the recording.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """

    def __init__(self, store: Store, kind: ExchangeKind, mode: ReplaceMode = "fresh") -> None:
        self._store, self._kind, self._mode = store, kind, mode
        self._is_run_over = False
        self._writer = self._join()
        self.meta, self.size, self.tool_size = self._writer.meta, self._writer.size, self._writer.tool_size
        if mode == "all":
            self.size, self.tool_size = self._run.found_size, self._run.found_tool_size
        self.found_any = self._run.found_size + self._run.found_tool_size > 0

    def add_meta(self, meta: JsonObject) -> None:
        self._open_writer().add_meta(meta)

    def append(self, key: str, exchange: Exchange) -> None:
        self._open_writer().append(key, exchange)

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        self._open_writer().append_tool(tool, exchange)

    @property
    def has_replaced(self) -> bool:
        """Whether the run has ended and replaced the recording."""
        return self._run.has_replaced

    def keep(self) -> None:
        """Keep the recording unchanged when the run ends, because it failed."""
        self._run.has_failed = True

    def close(self) -> None:
        self._writer.close()
        if self._departure.detach() is not None:
            FRESH_RUNS.leave(self._store, self._run)

    def _join(self) -> RecordingWriter:
        """Join the run. This writer leaves it when closed or garbage-collected."""
        self._run = FRESH_RUNS.join(self._store, self._kind, self._mode)
        try:
            writer = self._run.sibling.write()
        except InputError:
            FRESH_RUNS.leave(self._store, self._run)
            raise
        self._departure = weakref.finalize(self, self._run.leave)
        self._departure.atexit = False
        return writer

    def _open_writer(self) -> RecordingWriter:
        if not self._departure.alive and not self._is_run_over:
            self._is_run_over = self._run.has_replaced
            self._writer = self._store.write() if self._is_run_over else self._join()
        return self._writer


def recorded_by_failed_run(location: str, *, since: str) -> Document:
    """Return the exchanges of a failed run that started at `since`, or nothing.

    The failing calls are omitted, because they are made again.

    Raises:
        InputError: the file next to the recording is not a recording.
    """
    beside, recorded = open_store(location).beside(FAILED_SUFFIX), Document()
    if not beside.exists():
        return recorded
    failed = beside.load()
    answered_at = max((exchange.recorded_at or "" for _, exchange in failed if exchange.fault is None), default="")
    for key in failed.entries:
        for exchange in _until_last_answer(failed.exchanges(key)):
            if (exchange.recorded_at or "") >= since:
                recorded.add(key, exchange)
    for tool, call in each_exchange(failed.tools):
        is_final = call.error is not None and (call.recorded_at or "") > answered_at
        if (call.recorded_at or "") >= since and not is_final:
            recorded.add_tool(tool, call)
    return recorded


def _until_last_answer(exchanges: list[Exchange]) -> list[Exchange]:
    answered = [number for number, exchange in enumerate(exchanges, 1) if exchange.fault is None]
    return exchanges[: max(answered, default=0)]


@contextmanager
def go_on_recording(location: str, recorded: Document, mode: ReplaceMode) -> Iterator[None]:
    """Count earlier exchanges as the beginning of the run that the block records at `location`.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """
    store = open_store(location)
    beside = store.beside(FAILED_SUFFIX)
    writer = ReplaceOnCloseWriter(store, "models", mode)
    try:
        for key, exchange in recorded:
            writer.append(key, exchange)
        for tool, call in each_exchange(recorded.tools):
            writer.append_tool(tool, call)
        yield
    except BaseException:
        writer.keep()
        raise
    finally:
        writer.close()
    if writer.has_replaced:
        beside.remove()
