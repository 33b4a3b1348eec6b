"""A recording in an SQLite database: constant time to open, constant memory to replay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson

from understudy.errors import InputError, RecordingFormatError
from understudy.messages import JsonObject
from understudy.recording.document import VERSION, Document, new_meta
from understudy.recording.exchange import Exchange
from understudy.recording.file_format import parse_exchange
from understudy.recording.stores.database import Database
from understudy.recording.stores.store import Stored

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS metadata (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS exchanges (id INTEGER PRIMARY KEY, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
       recorded_at TEXT NOT NULL, listed INTEGER NOT NULL, entry BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS by_key ON exchanges (key, fingerprint, id)",
    "CREATE INDEX IF NOT EXISTS in_order ON exchanges (key, id)",
    "CREATE INDEX IF NOT EXISTS by_fingerprint ON exchanges (fingerprint, id)",
)
_COLUMNS = """e.id, e.key, CAST(e.entry AS BLOB),
    NOT e.listed AND NOT EXISTS (SELECT 1 FROM exchanges AS o WHERE o.key = e.key AND o.id <> e.id)"""
_PAGE = f"SELECT {_COLUMNS} FROM exchanges AS e WHERE e.id > ? ORDER BY e.id LIMIT 100"  # noqa: S608 - no values
_INSERT = "INSERT INTO exchanges (key, fingerprint, recorded_at, listed, entry) VALUES (?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM exchanges WHERE key = ? AND recorded_at < ?"
_ADD_METADATA = "INSERT INTO metadata VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_SET_METADATA = "INSERT OR REPLACE INTO metadata VALUES (?, ?)"
_encoder = msgspec.json.Encoder()


class SqliteStore:
    """A recording in the database file at `path`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.location = f"sqlite:///{path}"

    def exists(self) -> bool:
        return os.access(self.path, os.F_OK)

    def read(self) -> SqliteShelf:
        if not self.exists():
            raise InputError("no such recording", source=self.location, hint="record it first, or check the path")
        with self._opened() as database:
            return SqliteShelf(database)

    def write(self) -> SqliteWriter:
        self._make_folder()
        with self._opened() as database:
            writer = SqliteWriter(database)
            writer.add_meta({})  # fails now rather than at the first exchange, where nothing can be written
            database.read_beside_writing()
            return writer

    def load(self) -> Document:
        shelf = self.read()
        try:
            return shelf.document()
        finally:
            shelf.close()

    def save(self, document: Document) -> None:
        self._make_folder()
        metadata = {"_version": document.version, "_meta": document.meta} | document.rest
        with self._opened() as database:
            with database.transaction():
                database.run("DELETE FROM exchanges")
                database.run("DELETE FROM metadata")
                for name, value in metadata.items():
                    database.run(_SET_METADATA, name, orjson.dumps(value))
                for key, exchange in document:
                    listed = isinstance(document.entries[key], list)
                    database.run(_INSERT, *_row(key, exchange, listed=listed))
            database.close()

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(reason, source=self.location, hint="check the path and its permissions") from None

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        """The database, closed if what is done with it fails. One without tables is new, or its maker was cut off."""
        database = Database(self.path, source=self.location)
        try:
            if not database.run("SELECT 1 FROM sqlite_master"):
                _make_tables(database)
            yield database
        except BaseException:
            database.close()
            raise


def _make_tables(database: Database) -> None:
    with database.transaction():
        for statement in _SCHEMA:
            database.run(statement)
        database.run(_ADD_METADATA, "_version", orjson.dumps(VERSION))
        database.run(_ADD_METADATA, "_meta", orjson.dumps(new_meta()))


def _row(key: str, exchange: Exchange, *, listed: bool) -> tuple[Any, ...]:
    return key, exchange.request_hash or "", exchange.recorded_at or "", listed, _encoder.encode(exchange)


class SqliteWriter:
    """Appends to an SQLite recording; each exchange is committed by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        shelf = SqliteShelf(database)
        self.meta, self.size = shelf.meta, len(shelf)

    def add_meta(self, meta: JsonObject) -> None:
        with self._database.transaction():
            merged = _metadata(self._database)["_meta"] | meta
            self._database.run(_SET_METADATA, "_meta", orjson.dumps(merged))

    def append(self, key: str, exchange: Exchange, *, forget_before: str | None = None) -> None:
        row = _row(key, exchange, listed=False)
        if forget_before is None:
            self._database.run(_INSERT, *row)
            return
        with self._database.transaction():
            self._database.run(_FORGET, key, forget_before)
            self._database.run(_INSERT, *row)

    def close(self) -> None:
        self._database.close()


class SqliteShelf:
    """An SQLite recording, open for reading: nothing is kept in memory but where it is."""

    def __init__(self, database: Database) -> None:
        self._database, self.source = database, database.source
        metadata = _metadata(database)
        version, meta = metadata.get("_version"), metadata.get("_meta")
        if not isinstance(version, int) or not 1 <= version <= VERSION or not isinstance(meta, dict):
            raise RecordingFormatError(
                f"expected a recording of version {VERSION} or older, got {version!r}", source=self.source
            )
        self.version: int = version
        self.meta: JsonObject = meta

    def only(self, key: str) -> Stored | None:
        stored = self.find(key=key, fingerprint=None, after=-1)
        return stored if stored is not None and stored.repeats else None

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> Stored | None:
        return self._nearest("e.id > ? ORDER BY e.id LIMIT 1", key, fingerprint, after)

    def last(self, *, key: str | None, fingerprint: str | None) -> Stored | None:
        return self._nearest("e.id > ? ORDER BY e.id DESC LIMIT 1", key, fingerprint, -1)

    def _nearest(self, rest: str, key: str | None, fingerprint: str | None, after: int) -> Stored | None:
        found = []
        for condition, values in _conditions(key, fingerprint):
            query = f"SELECT {_COLUMNS} FROM exchanges AS e WHERE {condition} AND {rest}"  # noqa: S608 - no values
            found += [self._stored(row) for row in self._database.run(query, *values, after)]
        return (max if "DESC" in rest else min)(found, key=lambda stored: stored.id, default=None)

    def _stored(self, row: tuple[Any, ...]) -> Stored:
        row_id, key, entry, repeats = row
        return Stored(row_id, key, parse_exchange(key, entry, source=self.source), bool(repeats))

    def __iter__(self) -> Iterator[Stored]:
        after = -1
        while page := [self._stored(row) for row in self._database.run(_PAGE, after)]:
            yield from page
            after = page[-1].id

    def __len__(self) -> int:
        ((count,),) = self._database.run("SELECT count(*) FROM exchanges")
        return int(count)

    def document(self) -> Document:
        """All of the recording."""
        metadata = _metadata(self._database)
        rest = {name: value for name, value in metadata.items() if name not in ("_version", "_meta")}
        document = Document(meta=self.meta, rest=rest, version=self.version)
        for stored in self:
            document.add(stored.key, stored.exchange)
        for (key,) in self._database.run("SELECT key FROM exchanges WHERE listed"):
            entry = document.entries[key]
            document.entries[key] = entry if isinstance(entry, list) else [entry]
        return document

    def close(self) -> None:
        self._database.close()


def _conditions(key: str | None, fingerprint: str | None) -> list[tuple[str, tuple[str, ...]]]:
    if key is None:
        return [("e.fingerprint = ?", (fingerprint or "",))]
    if fingerprint is None:
        return [("e.key = ?", (key,))]
    return [("e.key = ? AND e.fingerprint = ?", (key, wanted)) for wanted in (fingerprint, "")]


def _metadata(database: Database) -> JsonObject:
    rows = database.run("SELECT name, value FROM metadata")
    try:
        return {name: orjson.loads(value) for name, value in rows}
    except orjson.JSONDecodeError as error:
        raise RecordingFormatError(str(error), source=database.source, place="metadata") from None
