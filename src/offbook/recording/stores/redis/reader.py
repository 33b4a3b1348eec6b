"""Reads a recording in Redis: one round trip for a key, and read-ahead for a replay in the order of the recording."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from typing import Any, Generic, Literal, NamedTuple, TypeAlias

import orjson
from msgspec.structs import replace

from offbook.errors import InputError, RecordingFormatError
from offbook.messages import JsonObject
from offbook.recording.format.document import FORMAT_VERSION, Document, E, Entries, add_exchange, exchanges_of
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.file import parse_exchange, parse_tool_exchange
from offbook.recording.stores.redis.connection import RedisConnection
from offbook.recording.stores.redis.scripts import (
    CHANGES_BATCH,
    CLAIM,
    DESCRIBE,
    FIND,
    GIVE_BACK,
    LAST,
    PAGE,
    READ,
)
from offbook.recording.stores.sqlite import ExchangeParser
from offbook.recording.stores.store import Claim, StoredExchange

Kind: TypeAlias = Literal["m", "t"]
"""Exchanges of models, or of tools."""

Stamp: TypeAlias = tuple[Kind, str, str | None]
"""The kind of an exchange, its key, and when it was recorded."""

BATCH = 1000
FIRST_AHEAD = 16
MAX_AHEAD = 128
NEAR = 3
"""The maximum distance of the ids of successive exchanges in a replay in order: models and tools share one sequence."""

PAGE_SIZE = 250

POSITION_TTL_S = 3600
"""The idle seconds after which a session starts from the beginning."""


class RecordingFields(NamedTuple):
    """The metadata of a recording, and its numbers of model and tool exchanges."""

    version: int
    meta: JsonObject
    rest: JsonObject
    size: int
    tool_size: int


def parse_fields(result: list[Any], *, source: str) -> RecordingFields | None:
    """Parse the scripts' description of a recording, or return None if it does not exist.

    Raises:
        RecordingFormatError: the fields are not those of a recording.
    """
    flat, size, tool_size = result
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    if not fields:
        return None
    try:
        meta = {name[5:].decode(): orjson.loads(value) for name, value in fields.items() if name.startswith(b"meta:")}
        rest = {name[5:].decode(): orjson.loads(value) for name, value in fields.items() if name.startswith(b"rest:")}
        version = int(fields.get(b"version", b"0"))
    except ValueError as error:
        raise RecordingFormatError(f"not a recording: {error}", source=source, place="metadata") from None
    if not 1 <= version <= FORMAT_VERSION:
        reason = f"expected a recording of version {FORMAT_VERSION} or older, got {version}"
        raise RecordingFormatError(reason, source=source)
    return RecordingFields(version, meta, rest, size, tool_size)


class Member(NamedTuple):
    """An exchange in the index of all: its id and its key."""

    id: int
    key: str


def _parse_member(member: bytes) -> Member:
    number, length, rest = member.split(b" ", 2)
    return Member(int(number), rest[: int(length)].decode())


def _parse_value(value: bytes) -> tuple[bool, bytes]:
    """Split the value of an exchange: whether it is always in a list, and its JSON."""
    return value[:1] == b"1", value[1:]


class PageRow(NamedTuple, Generic[E]):
    """An exchange on a page, the number of its key's exchanges, and its remaining lifetime in ms (-1 is for ever)."""

    member: Member
    is_listed: bool
    exchange: E
    size: int
    left_ms: int


class _KeySlot(Generic[E]):
    """The exchanges of a key in order, as far as they were read. `next` is the id to continue after; empty at the end.

    It is not `current` if others may have added to its end since.
    """

    def __init__(self) -> None:
        self.rows: list[StoredExchange[E]] = []
        self.listed: list[bool] = []
        self.next = b"-1"
        self.is_current = False

    def reopen(self) -> None:
        """Continue reading: further exchanges may have been added."""
        self.rows = [replace(stored, repeats=False) if stored.repeats else stored for stored in self.rows]
        self.next, self.is_current = self.next or (b"%d" % self.rows[-1].id if self.rows else b"-1"), False

    def settle(self) -> None:
        """Mark the exchange that answers every call: the only one, unless it is in a list without conditional ones."""
        plain = [place for place, stored in enumerate(self.rows) if not stored.is_conditional]
        if len(plain) == 1 and not self.next and (not self.listed[plain[0]] or len(self.rows) > 1):
            self.rows[plain[0]] = replace(self.rows[plain[0]], repeats=True)
        self.is_current = True

    @property
    def is_settled(self) -> bool:
        """Whether later exchanges cannot change which one answers every call."""
        return not self.next or sum(not stored.is_conditional for stored in self.rows) > 1


class _ReadAhead:
    """Exchanges read ahead of demand, and the number to read next time.

    The number grows with use. A replay in another order reads none ahead, until it asks for two neighbours.
    """

    def __init__(self) -> None:
        self.size = FIRST_AHEAD
        self._read = self._used = self._last = 0
        self._keys: dict[str, tuple[int, dict[int, bytes]]] = {}

    def put(self, rows: list[bytes], *, known: Container[str]) -> None:
        """Keep exchanges, given as the sizes of their keys with the members, and the values."""
        self._read = self._used = 0
        for sized, value in zip(rows[::2], rows[1::2], strict=True):
            size, number, length, rest = sized.split(b" ", 3)
            key = rest[: int(length)].decode()
            if key not in known:
                self._read += 1
                self._keys.setdefault(key, (int(size), {}))[1][int(number)] = value

    def take(self, key: str) -> list[tuple[int, bytes]] | None:
        """Return all exchanges of a key, or None if they were not all read."""
        size, rows = self._keys.pop(key, (0, {}))
        self._used += len(rows)
        return sorted(rows.items()) if rows and len(rows) == size else None

    def adapt(self) -> int:
        """Return the number to read now, according to the use of earlier ones."""
        if self._read:
            self.size = min(self.size * 2, MAX_AHEAD) if self._used * 2 >= self._read else 0
        return self.size

    def note(self, number: int) -> None:
        """Note which exchange was asked for."""
        if not self.size and 0 < number - self._last <= NEAR:
            self.size = FIRST_AHEAD
        self._last = number

    def forget(self, key: str) -> None:
        self._keys.pop(key, None)


class RedisIndex(Generic[E]):
    """The exchanges of one kind, open for reading.

    A key is read in one round trip, or more if it has more than 1,000 exchanges, and kept. A replay in recording order
    finds the next keys read ahead: more of them each time, and fewer if they are not used. `gone` counts exchanges that
    had expired or were evicted.
    """

    def __init__(self, connection: RedisConnection, kind: Kind, parse: ExchangeParser[E], *, size: int) -> None:
        self._connection, self._kind, self._parse = connection, kind, parse
        self.source, self._size, self.gone = connection.source, size, 0
        self._slots: dict[str, _KeySlot[E]] = {}
        self._anywhere: dict[str, list[Member]] = {}
        self._read_ahead = _ReadAhead()

    def repeating(self, key: str) -> StoredExchange[E] | None:
        return next((stored for stored in self._slot(key).rows if stored.repeats), None)

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E] | None:
        if key is None:
            later = (member for member in self._members(fingerprint or "") if member.id > after)
            return next((stored for member in later if (stored := self._stored(member)) is not None), None)
        slot = self._slot(key)
        place = bisect_right(slot.rows, after, key=lambda stored: stored.id)
        while True:
            for stored in slot.rows[place:]:
                if fingerprint is None or stored.fingerprint in (None, fingerprint):
                    return stored
            if not slot.next:
                return None
            place = len(slot.rows)
            self._extend(key, slot)

    def last(self, *, key: str | None, fingerprint: str | None) -> StoredExchange[E] | None:
        if key is None:
            members = reversed(self._members(fingerprint or ""))
            return next((stored for member in members if (stored := self._stored(member)) is not None), None)
        slot = self._slot(key)
        if fingerprint is None and slot.next:
            found = self._connection.run(LAST, self._kind, f"k:{key}")
            if not found:
                return None
            number, value = found
            return StoredExchange(int(number), key, self._parse(key, _parse_value(value)[1], source=self.source), False)
        while slot.next:
            self._extend(key, slot)
        rows = reversed(slot.rows)
        return next((each for each in rows if fingerprint is None or each.fingerprint in (None, fingerprint)), None)

    def __iter__(self) -> Iterator[StoredExchange[E]]:
        for row in self.pages():
            stored = None if row.size == 1 else self._stored(row.member)
            repeats = not row.is_listed if row.size == 1 else stored is not None and stored.repeats
            yield StoredExchange(row.member.id, row.member.key, row.exchange, repeats)

    def __len__(self) -> int:
        return self._size

    def pages(self) -> Iterator[PageRow[E]]:
        """Yield all exchanges in order, with their other stored data."""
        after = b"-1"
        while after:
            rows, after = self._connection.run(PAGE, self._kind, after, PAGE_SIZE)
            for member, value, size, left_ms in zip(*(iter(rows),) * 4, strict=True):
                found, (is_listed, data) = _parse_member(member), _parse_value(value)
                exchange = self._parse(found.key, data, source=self.source)
                yield PageRow(found, is_listed, exchange, size, left_ms)

    def has_read(self, *keys: str) -> bool:
        return any(key in self._slots or key in self._anywhere for key in keys)

    def refresh(self, *keys: str) -> None:
        """Read these keys and fingerprints again, because others may have added to them."""
        for key in keys:
            if (slot := self._slots.get(key)) is not None:
                slot.reopen()
            self._anywhere.pop(key, None)
            self._read_ahead.forget(key)

    def _slot(self, key: str) -> _KeySlot[E]:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _KeySlot()
            ahead = self._read_ahead.take(key)
            if ahead is None:
                self._extend(key, slot, ahead=self._read_ahead.adapt())
            else:
                self._add(key, slot, ahead)
                slot.next = b""
            if slot.rows:
                self._read_ahead.note(slot.rows[-1].id)
        elif not slot.is_current:
            self._extend(key, slot)
        if not slot.is_current:
            while not slot.is_settled:
                self._extend(key, slot)
            slot.settle()
        return slot

    def _extend(self, key: str, slot: _KeySlot[E], *, ahead: int = 0) -> None:
        """Read further exchanges of a key, and some of those that follow in the recording."""
        arguments = (self._kind, key, slot.next, BATCH, ahead)
        result = self._connection.run(READ, *arguments)
        head, *rows = result.split(b"\n", 1) if isinstance(result, bytes) else result
        gone, slot.next, *ids = head.split(b" ")
        self.gone += int(gone)
        self._add(key, slot, zip(map(int, ids), rows, strict=False))
        if ahead:
            self._read_ahead.put(rows[len(ids) :], known=self._slots)

    def _add(self, key: str, slot: _KeySlot[E], rows: Iterable[tuple[int, bytes]]) -> None:
        for number, value in rows:
            is_listed, data = _parse_value(value)
            exchange = self._parse(key, data, source=self.source)
            slot.rows.append(StoredExchange(number, key, exchange, False))
            slot.listed.append(is_listed)

    def _members(self, fingerprint: str) -> list[Member]:
        """Return the places of exchanges with a fingerprint, under any key."""
        members = self._anywhere.get(fingerprint)
        if members is None:
            members, after = self._anywhere.setdefault(fingerprint, []), b"-1"
            while after:
                gone, after, found = self._connection.run(FIND, self._kind, fingerprint, after, BATCH)
                members += [_parse_member(member) for member in found]
                self.gone += gone
        return members

    def _stored(self, member: Member) -> StoredExchange[E] | None:
        """Return an exchange among those of its key, or None if it is gone."""
        found = self.find(key=member.key, fingerprint=None, after=member.id - 1)
        return found if found is not None and found.id == member.id else None


class RedisReader(RedisIndex[Exchange]):
    """A recording in Redis, open for reading.

    Raises:
        InputError: there is no recording, or the server cannot be reached.
    """

    def __init__(self, connection: RedisConnection) -> None:
        fields = parse_fields(connection.run(DESCRIBE), source=connection.source)
        if fields is None:
            hint = "record it first, or check the database and prefix= in the URL"
            raise InputError("no such recording", source=connection.source, hint=hint)
        super().__init__(connection, "m", parse_exchange, size=fields.size)
        self.version, self.meta, self._rest = fields.version, fields.meta, fields.rest
        self._tool_size = fields.tool_size

    @cached_property
    def tools(self) -> RedisIndex[ToolExchange]:
        return RedisIndex(self._connection, "t", parse_tool_exchange, size=self._tool_size)

    def document(self) -> tuple[Document, dict[Stamp, int]]:
        """Return the whole recording, and the lifetime of its exchanges: ms from now, or 0 for ever."""
        lifetimes: dict[Stamp, int] = {}
        entries, tools = _entries(self, "m", lifetimes), _entries(self.tools, "t", lifetimes)
        document = Document(meta=self.meta, entries=entries, rest=self._rest, version=self.version, tools=tools)
        return document, lifetimes

    def position(self, group: str, session: str) -> RedisPosition:
        """Return the position of a session, which all servers of the group share."""
        return RedisPosition(self._connection, group=group, session=session)

    def close(self) -> None:
        self._connection.close()


def _entries(index: RedisIndex[E], kind: Kind, lifetimes: dict[Stamp, int]) -> Entries[E]:
    entries: Entries[E] = {}
    listed: set[str] = set()
    for row in index.pages():
        key = row.member.key
        add_exchange(entries, key, row.exchange)
        listed |= {key} if row.is_listed else set()
        lifetimes[kind, key, row.exchange.recorded_at] = max(row.left_ms, 1) if row.left_ms >= 0 else 0
    for key in listed:
        entries[key] = exchanges_of(entries, key)
    return entries


class RedisPosition:
    """The position of a session: the served exchanges, and a log of changes. Each process reads the new ones.
    A claim is one round trip, or more if there are more than 1,000 changes to read.
    """

    def __init__(self, connection: RedisConnection, *, group: str, session: str) -> None:
        self._connection = connection
        self._name = blake2b(f"{group}\0{session}".encode(), digest_size=16).hexdigest()
        self._epoch, self._read = b"", 0

    def claim(self, *ids: int) -> Claim:
        claim = self._claim_once(ids)
        while claim.id is None and len(claim.changes) % CHANGES_BATCH == 0 and claim.changes:
            more = self._claim_once(ids)
            changes = more.changes if more.is_restarted else claim.changes + more.changes
            claim = Claim(more.id, changes, claim.is_restarted or more.is_restarted)
        return claim

    def give_back(self, served: int) -> None:
        self._connection.run(GIVE_BACK, self._name, self._epoch, served)

    def _claim_once(self, ids: tuple[int, ...]) -> Claim:
        """Claim, unless there are more changes to read than one answer holds."""
        known, arguments = (
            self._epoch,
            (self._name, POSITION_TTL_S * 1000, self._epoch, self._read, secrets.token_hex(8)),
        )
        self._epoch, claimed, changes = self._connection.run(CLAIM, *arguments, *ids)
        is_restarted = known not in (b"", self._epoch)
        self._read = (0 if is_restarted else self._read) + len(changes)
        return Claim(int(claimed) if claimed else None, [int(change) for change in changes], is_restarted)
