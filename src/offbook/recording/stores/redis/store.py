"""A recording in Redis: created, appended to, edited and removed while others use it, or shared as a cache."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import orjson

from offbook.clock import pauses_until
from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.location import RedisLocation, parse_redis_url
from offbook.recording.stores.redis.reader import Kind, RedisReader, Stamp, parse_fields
from offbook.recording.stores.redis.scripts import (
    ACQUIRE,
    APPEND,
    CREATE,
    DESCRIBE,
    DRAIN,
    OPEN,
    RELEASE,
    REMOVE,
    RENEW,
    SET_FIELDS,
    STAGE,
    SWAP,
)
from offbook.recording.stores.store import log_warning

_encoder = msgspec.json.Encoder()
LOCK = "lock"
"""The name of the lease of the process that edits the recording."""
_CALL_LEASE = "lease:"
"""The prefix of the lease of a call."""

BATCH = 250
BATCH_BYTES = 1_000_000


LEASE_S = 10.0
"""Seconds after which the lease of a dead process is free."""

MAX_HELD_S = 1800.0
"""The age at which a lease is no longer renewed, because its holder has forgotten it."""


class Leases:
    """The leases of this process, renewed by a thread while there are any."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._guard = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.token = secrets.token_hex(8)
        self._process = os.getpid()
        self._held_since_s: dict[str, float] = {}
        self._renewer: threading.Thread | None = None

    def acquire(self, name: str) -> bool:
        """Take a lease, and return whether it was free. Nobody gets it twice, not even in this process.

        Raises:
            InputError: the server cannot be reached.
        """
        with self._guard:
            if self._process != os.getpid():
                self._reset()
            if name in self._held_since_s or not self._connection.run(ACQUIRE, name, self.token, _MS):
                return False
            self._held_since_s[name] = time.monotonic()
            if self._renewer is None or not self._renewer.is_alive():
                self._renewer = threading.Thread(target=self._renew, name="offbook-leases", daemon=True)
                self._renewer.start()
            return True

    def release(self, name: str) -> None:
        """Return a lease. No effect if it is no longer ours.

        Raises:
            InputError: the server cannot be reached; the lease ends by itself.
        """
        if self.forget(name):
            self._connection.run(RELEASE, name, self.token)

    def forget(self, name: str) -> bool:
        """Stop renewing a lease, and return whether we had it."""
        with self._guard:
            return self._held_since_s.pop(name, None) is not None

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Wait for a lease, and hold it while the block runs."""
        for pause_s in pauses_until(lambda: self.acquire(name)):
            time.sleep(pause_s)
        try:
            yield
        finally:
            self.release(name)

    def _renew(self) -> None:
        while True:
            time.sleep(LEASE_S / 3)
            with self._guard:
                since_s = time.monotonic() - MAX_HELD_S
                names = [name for name, held_since_s in self._held_since_s.items() if held_since_s > since_s]
                if not names:
                    self._renewer = None
                    return
            try:
                self._connection.run(RENEW, self.token, _MS, *names)
            except InputError as error:
                log_warning("offbook.recording", "%s: a lease could not be renewed: %s", error.source, error.reason)


_MS = int(LEASE_S * 1000)


class RedisStore:
    """A recording under the prefix of a Redis URL.

    Each exchange expires `ttl` after its write, even if it is read. `location` omits the password.
    """

    def __init__(self, url: str | RedisLocation) -> None:
        self.at = parse_redis_url(url) if isinstance(url, str) else url
        self._connection = RedisConnection(self.at)
        self.location, self.identity = self._connection.source, self.at.identity

    def exists(self) -> bool:
        return bool(self._connection.run(DESCRIBE)[0])

    def read(self) -> RedisReader:
        return RedisReader(RedisConnection(self.at))

    def write(self) -> RedisWriter:
        return RedisWriter(RedisConnection(self.at))

    def load(self) -> Document:
        return self.read().document()[0]

    def save(self, document: Document) -> None:
        leases = Leases(self._connection)
        with leases.held(LOCK):
            self._replace(document, {}, token=leases.token)

    def update(self, change: Callable[[Document], bool | None]) -> None:
        leases = Leases(self._connection)
        with leases.held(LOCK):
            if self.exists():
                document, lifetimes = self.read().document()
            else:
                document, lifetimes = Document(), {}
            if change(document) is not False:
                self._replace(document, lifetimes, token=leases.token)

    def sibling(self) -> RedisStore:
        for number in count(1):
            sibling = self.beside(f".fresh-{number}")
            if sibling.create():
                break
        return sibling

    def beside(self, suffix: str) -> RedisStore:
        return RedisStore(self.at.beside(suffix))

    def share(self) -> RedisSharedCalls:
        return RedisSharedCalls(self.at)

    def create(self) -> bool:
        """Create an empty recording, and return whether there was none."""
        return bool(self._connection.run(CREATE))

    def remove(self) -> None:
        while self._connection.run(REMOVE):
            pass

    def remove_if_empty(self) -> None:
        return None

    def _replace(self, document: Document, lifetimes: dict[Stamp, int], *, token: str) -> None:
        """Write the document as a new generation in batches, and switch the recording to it in one step."""
        version = (b"version", str(document.version).encode())
        fields = [*version, *_fields("meta", document.meta), *_fields("rest", document.rest)]
        run, stage = self._connection.run, f"{secrets.token_hex(4)}:"
        unused = [generation.decode() for generation in run(STAGE, token, stage)]
        try:
            run(SET_FIELDS, "", self.at.ttl_ms, *fields, stage=stage)
            for batch in _batches(self._appends(document, lifetimes)):
                self._connection.run_each(APPEND, batch, stage=stage)
            run(SET_FIELDS, "", self.at.ttl_ms, *version, stage=stage)
            unused.append(run(SWAP, token, stage).decode())
        except InputError:
            unused.append(stage)
            raise
        finally:
            with suppress(InputError):  # what is not removed now is listed, and removed by the next edit
                self._drain(unused)

    def _drain(self, generations: Iterable[str]) -> None:
        for generation in generations:
            while self._connection.run(DRAIN, generation):
                pass

    def _appends(self, document: Document, lifetimes: dict[Stamp, int]) -> Iterator[tuple[Any, ...]]:
        """Yield the arguments that append each exchange of a document."""

        def arguments(kind: Kind, key: str, exchange: Exchange | ToolExchange, *, is_listed: bool) -> tuple[Any, ...]:
            ttl_ms = lifetimes.get((kind, key, exchange.recorded_at), self.at.ttl_ms)
            return ("", kind, key, exchange.fingerprint or "", _value(exchange, is_listed=is_listed), ttl_ms)

        for key, exchange in document:
            yield arguments("m", key, exchange, is_listed=isinstance(document.entries[key], list))
        for tool, call in each_exchange(document.tools):
            yield arguments("t", tool, call, is_listed=isinstance(document.tools[tool], list))


def _batches(appends: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Split an append into batches that do not keep the server busy for long."""
    batch: list[tuple[Any, ...]] = []
    size = 0
    for arguments in appends:
        batch.append(arguments)
        size += len(arguments[4])
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _fields(kind: str, values: JsonObject) -> Iterator[bytes]:
    for name, value in values.items():
        yield f"{kind}:{name}".encode()
        yield orjson.dumps(value)


def _value(exchange: Exchange | ToolExchange, *, is_listed: bool) -> bytes:
    """Return the stored form of an exchange: whether it is always in a list, and its JSON."""
    return (b"1" if is_listed else b"0") + _encoder.encode(exchange)


class RedisWriter:
    """Appends to a recording in Redis. Each exchange is one script: written completely or not at all."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection, self._ttl_ms = connection, connection.location.ttl_ms
        fields = parse_fields(connection.run(OPEN, "", self._ttl_ms), source=connection.source)
        assert fields is not None
        self.meta, self.size, self.tool_size = fields.meta, fields.size, fields.tool_size

    def add_meta(self, meta: JsonObject) -> None:
        self._connection.run(SET_FIELDS, "", self._ttl_ms, *_fields("meta", meta))

    def append(self, key: str, exchange: Exchange) -> None:
        self._append("m", key, exchange, _value(exchange, is_listed=False))

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        self._append("t", tool, exchange, _value(exchange, is_listed=True))

    def append_call(self, key: str, exchange: Exchange, *, lease: str, token: str) -> None:
        """Append an exchange, and release the lease of its call in the same step."""
        self._append("m", key, exchange, _value(exchange, is_listed=False), lease, token)

    def append_tool_call(self, tool: str, exchange: ToolExchange, *, lease: str, token: str) -> int:
        """Append a tool exchange, like `append_call`, and return its id."""
        return self._append("t", tool, exchange, _value(exchange, is_listed=True), lease, token)

    def close(self) -> None:
        self._connection.close()

    def _append(self, kind: Kind, key: str, exchange: Exchange | ToolExchange, value: bytes, *lease: str) -> int:
        arguments = (kind, key, exchange.fingerprint or "", value, self._ttl_ms, *lease)
        return int(self._connection.run(APPEND, "", *arguments))


class RedisSharedCalls:
    """The exchanges under a prefix, and a lease for each call that some process is making."""

    def __init__(self, location: RedisLocation) -> None:
        self._connection = RedisConnection(location)
        self._leases = Leases(self._connection)
        self.goes_on_live = location.on_error == "live"

    @cached_property
    def reader(self) -> RedisReader:
        return RedisReader(self._connection)

    @cached_property
    def _writer(self) -> RedisWriter:
        return RedisWriter(self._connection)

    def acquire(self, call: str) -> bool:
        return self._leases.acquire(f"{_CALL_LEASE}{call}")

    def append(self, key: str, exchange: Exchange, *, call: str) -> None:
        self._writer.append_call(key, exchange, lease=call, token=self._leases.token)
        self._leases.forget(f"{_CALL_LEASE}{call}")

    def append_tool(self, tool: str, exchange: ToolExchange, *, call: str) -> int:
        number = self._writer.append_tool_call(tool, exchange, lease=call, token=self._leases.token)
        self._leases.forget(f"{_CALL_LEASE}{call}")
        return number

    def release(self, call: str) -> None:
        self._leases.release(f"{_CALL_LEASE}{call}")

    def close(self) -> None:
        self._connection.close()
