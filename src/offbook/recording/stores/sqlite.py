"""A recording in an SQLite database: constant time to open, constant memory to replay."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import orjson

from offbook.errors import InputError, RecordingFormatError
from offbook.messages import JsonObject
from offbook.recording.document import VERSION, Document, new_meta
from offbook.recording.entries import each
from offbook.recording.exchange import Exchange
from offbook.recording.file_format import parse_exchange
from offbook.recording.stores.database import Database
from offbook.recording.stores.memory import MemoryRow
from offbook.recording.stores.sibling import claim_sibling
from offbook.recording.stores.sqlite_row import SqliteRow, schema_of
from offbook.recording.tool_exchange import ToolEntry, ToolExchange
from offbook.recording.tool_format import parse_tool_exchange, parse_tools

_METADATA = "CREATE TABLE IF NOT EXISTS metadata (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
_SCHEMA = (_METADATA, *schema_of("exchanges"))
_TOOL_SCHEMA = schema_of("tool_exchanges", prefix="tools_")
_INSERT = "INSERT INTO exchanges (key, fingerprint, recorded_at, listed, entry) VALUES (?, ?, ?, ?, ?)"
_INSERT_TOOL = _INSERT.replace("exchanges", "tool_exchanges")
_FORGET = "DELETE FROM exchanges WHERE key = ? AND recorded_at < ?"
_FORGET_TOOL = _FORGET.replace("exchanges", "tool_exchanges")
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
            _make_tool_table(database)
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
        with self._opened() as database:
            with database.transaction():
                _fill(database, document)
            database.close()

    def update(self, change: Callable[[Document], None]) -> None:
        self._make_folder()
        with self._opened() as database:
            with database.transaction():
                document = SqliteShelf(database).document()
                change(document)
                _fill(database, document)
            database.close()

    def sibling(self) -> SqliteStore:
        try:
            return SqliteStore(claim_sibling(self.path))
        except OSError as error:
            raise self._unusable(error) from None

    def remove(self) -> None:
        for suffix in ("-wal", "-shm", ""):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> InputError:
        reason = error.strerror or str(error)
        return InputError(reason, source=self.location, hint="check the path and its permissions")

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
        for statement in (*_SCHEMA, *_TOOL_SCHEMA):
            database.run(statement)
        database.run(_ADD_METADATA, "_version", orjson.dumps(VERSION))
        database.run(_ADD_METADATA, "_meta", orjson.dumps(new_meta()))


def _fill(database: Database, document: Document) -> None:
    """Put the document in the place of all that the database holds, inside a transaction."""
    database.run("DELETE FROM exchanges")
    database.run("DELETE FROM metadata")
    for statement in (*_TOOL_SCHEMA, "DELETE FROM tool_exchanges"):
        database.run(statement)
    metadata = {"_version": document.version, "_meta": document.meta} | document.rest
    for name, value in metadata.items():
        database.run(_SET_METADATA, name, orjson.dumps(value))
    for key, exchange in document:
        database.run(_INSERT, *_row(key, exchange, listed=isinstance(document.entries[key], list)))
    for tool, call in each(document.tools):
        database.run(_INSERT_TOOL, *_row(tool, call, listed=isinstance(document.tools[tool], list)))


def _has_tool_table(database: Database) -> bool:
    """Whether tools have a table of their own; in a database without it they are metadata."""
    return bool(database.run("SELECT 1 FROM sqlite_master WHERE name = 'tool_exchanges'"))


def _make_tool_table(database: Database) -> None:
    """Give tools their table, and move what the metadata has of them there."""
    if _has_tool_table(database):
        return
    with database.transaction():
        tools = _tools_in_metadata(database)
        for statement in _TOOL_SCHEMA:
            database.run(statement)
        for tool, exchange in each(tools):
            database.run(_INSERT_TOOL, *_row(tool, exchange, listed=isinstance(tools[tool], list)))
        database.run("DELETE FROM metadata WHERE name = '_tools'")


def _tools_in_metadata(database: Database) -> dict[str, ToolEntry]:
    data = orjson.dumps(_metadata(database).get("_tools", {}))
    return parse_tools(data, source=database.source)


def _row(key: str, exchange: Exchange | ToolExchange, *, listed: bool) -> tuple[Any, ...]:
    return key, exchange.fingerprint or "", exchange.recorded_at or "", listed, _encoder.encode(exchange)


class SqliteWriter:
    """Appends to an SQLite recording; each exchange is committed by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        shelf = SqliteShelf(database)
        self.meta, self.size, self.tool_size = shelf.meta, len(shelf), len(shelf.tools)

    def add_meta(self, meta: JsonObject) -> None:
        with self._database.transaction():
            merged = _metadata(self._database)["_meta"] | meta
            self._database.run(_SET_METADATA, "_meta", orjson.dumps(merged))

    def append(self, key: str, exchange: Exchange, *, forget_before: str | None = None) -> None:
        self._append(_INSERT, _row(key, exchange, listed=False), _FORGET, forget_before)

    def append_tool(self, tool: str, exchange: ToolExchange, *, forget_before: str | None = None) -> None:
        self._append(_INSERT_TOOL, _row(tool, exchange, listed=True), _FORGET_TOOL, forget_before)

    def _append(self, insert: str, row: tuple[Any, ...], forget: str, forget_before: str | None) -> None:
        if forget_before is None:
            self._database.run(insert, *row)
            return
        with self._database.transaction():
            self._database.run(forget, row[0], forget_before)
            self._database.run(insert, *row)

    def close(self) -> None:
        self._database.close()


class SqliteShelf(SqliteRow[Exchange]):
    """An SQLite recording, open for reading."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "exchanges", parse_exchange)
        metadata = _metadata(database)
        version, meta = metadata.get("_version"), metadata.get("_meta")
        if not isinstance(version, int) or not 1 <= version <= VERSION or not isinstance(meta, dict):
            raise RecordingFormatError(
                f"expected a recording of version {VERSION} or older, got {version!r}", source=self.source
            )
        self.version: int = version
        self.meta: JsonObject = meta

    @cached_property
    def tools(self) -> SqliteRow[ToolExchange] | MemoryRow[ToolExchange]:
        if _has_tool_table(self._database):
            return SqliteRow(self._database, "tool_exchanges", parse_tool_exchange)
        return MemoryRow(_tools_in_metadata(self._database), source=self.source)

    def document(self) -> Document:
        """All of the recording."""
        metadata = _metadata(self._database)
        rest = {name: value for name, value in metadata.items() if name not in ("_version", "_meta", "_tools")}
        return Document(
            meta=self.meta, entries=self.entries(), rest=rest, version=self.version, tools=self.tools.entries()
        )

    def close(self) -> None:
        self._database.close()


def _metadata(database: Database) -> JsonObject:
    rows = database.run("SELECT name, value FROM metadata")
    try:
        return {name: orjson.loads(value) for name, value in rows}
    except orjson.JSONDecodeError as error:
        raise RecordingFormatError(str(error), source=database.source, place="metadata") from None
