"""A recording in an SQLite database: opens in constant time, and replays in constant memory."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol

import msgspec
import orjson

from offbook.errors import InputError, RecordingFormatError
from offbook.files import check_regular
from offbook.messages import JsonObject
from offbook.recording.format.document import (
    FORMAT_VERSION,
    Document,
    E,
    Entries,
    add_exchange,
    each_exchange,
    exchanges_of,
    new_meta,
)
from offbook.recording.format.exchange import CONDITIONAL, Exchange, ToolEntry, ToolExchange
from offbook.recording.format.file import parse_exchange, parse_tool_exchange, parse_tools
from offbook.recording.stores.memory import MemoryIndex
from offbook.recording.stores.store import (
    E_co,
    ForkGuarded,
    StoredExchange,
    create_sibling,
    log_warning,
    no_recording_error,
    refuse_link,
    unusable_error,
)

BUSY_TIMEOUT_S = 60.0
_SIDE_FILES = ("-wal", "-shm", "-journal")  # SQLite would wait for a pipe of such a name
_FOREIGN_DATABASE_ERRORS = ("not a database", "malformed", "no such table", "no such column", "has no column")


class SqliteDatabase(ForkGuarded):
    """An SQLite connection that is safe across forks and threads. A statement outside a transaction commits at once."""

    def __init__(self, path: Path, *, source: str) -> None:
        super().__init__()
        self.path, self.source = path, source
        self._connection: sqlite3.Connection | None = None

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows.

        Raises:
            InputError: the database cannot be opened, read or written.
        """
        try:
            with self.guard:
                return self._connect().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._translate(error) from None
        except UnicodeDecodeError as error:  # of a value, or of SQLite's own message
            raise RecordingFormatError(f"not a recording: not UTF-8: {error.reason}", source=self.source) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements inside as one transaction."""
        with self.guard:
            self.run("BEGIN IMMEDIATE")
            try:
                yield
                self.run("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        """Roll back the transaction, unless its failure already did."""
        if self._connect().in_transaction:
            self.run("ROLLBACK")

    def allow_concurrent_reads(self) -> None:
        """Switch to WAL mode, in which others can read during a write. Do nothing while the database is busy."""
        try:
            with self.guard:
                self._connect().execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise self._translate(error) from None

    def erase_removed(self) -> None:
        """Erase removed rows from free pages and the WAL log. Log a warning if that fails."""
        try:
            self.run("VACUUM")
            ((is_busy, *_),) = self.run("PRAGMA wal_checkpoint(TRUNCATE)")
            reason = "others keep it busy" if is_busy else ""
        except InputError as error:
            reason = error.reason
        if reason:
            message = "%s: %s; what was removed may stay in %s-wal until all who have it open close it"
            log_warning("offbook.recording", message, self.source, reason, self.path.name)

    def close(self) -> None:
        """Close the connection. It is opened again when needed."""
        with self.guard:
            if self._connection is not None:
                self._disconnect()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._uri(), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._disconnect = weakref.finalize(self, self._connection.close)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA secure_delete = ON")
        return self._connection

    def _uri(self) -> str:
        """Return the URI of the database. A read-only folder cannot hold WAL's side files."""
        is_writable = os.access(self.path.parent, os.W_OK, effective_ids=True)
        is_still = not is_writable and not os.access(f"{self.path}-wal", os.F_OK)
        return f"{self.path.as_uri()}?immutable=1" if is_still else self.path.as_uri()

    def _translate(self, error: sqlite3.Error) -> InputError:
        reason = str(error)
        if any(sign in reason for sign in _FOREIGN_DATABASE_ERRORS):
            return RecordingFormatError(f"not a recording: {reason}", source=self.source)
        is_folder = os.path.isdir(self.path)  # noqa: PTH112 - Path.is_dir raises for an invalid path
        return unusable_error(reason, source=self.source, is_folder=is_folder)


class ExchangeParser(Protocol[E_co]):
    """Parses one exchange from its JSON."""

    def __call__(self, key: str, data: bytes, /, *, source: str) -> E_co: ...


def _schema_of(table: str, *, prefix: str = "") -> tuple[str, ...]:
    """Return the statements that create the table and its indexes, named with `prefix`, if missing."""
    return (
        f"""CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
        recorded_at TEXT NOT NULL, listed INTEGER NOT NULL, entry BLOB NOT NULL)""",
        f"CREATE INDEX IF NOT EXISTS {prefix}by_key ON {table} (key, fingerprint, id)",
        f"CREATE INDEX IF NOT EXISTS {prefix}in_order ON {table} (key, id)",
        f"CREATE INDEX IF NOT EXISTS {prefix}by_fingerprint ON {table} (fingerprint, id)",
    )


# Each is a range of the index by key and fingerprint: a LIKE would read all exchanges of the key, for every call.
_AFTER_CONDITIONAL = CONDITIONAL[:-1] + chr(ord(CONDITIONAL[-1]) + 1)
_IS_BEFORE = f"o.fingerprint < '{CONDITIONAL}'"
_IS_CONDITIONAL = f"o.fingerprint >= '{CONDITIONAL}' AND o.fingerprint < '{_AFTER_CONDITIONAL}'"
_IS_BEHIND = f"o.fingerprint >= '{_AFTER_CONDITIONAL}'"


class SqliteIndex(Generic[E]):
    """The exchanges in one table, open for reading without being held in memory."""

    def __init__(self, database: SqliteDatabase, table: str, parse: ExchangeParser[E]) -> None:
        self._database, self._table, self._parse, self.source = database, table, parse, database.source
        same_key = f"EXISTS (SELECT 1 FROM {table} AS o WHERE o.key = e.key AND o.id <> e.id AND"  # noqa: S608 - no values
        self._select = f"""SELECT e.id, e.key, CAST(e.entry AS BLOB),
            NOT {same_key} {_IS_BEFORE}) AND NOT {same_key} {_IS_BEHIND})
            AND (NOT e.listed OR {same_key} {_IS_CONDITIONAL}))
            FROM {table} AS e WHERE"""  # noqa: S608 - no values

    def repeating(self, key: str) -> StoredExchange[E] | None:
        stored = self.find(key=key, fingerprint=None, after=-1)
        while stored is not None and stored.is_conditional:
            stored = self.find(key=key, fingerprint=None, after=stored.id)
        return stored if stored is not None and stored.repeats else None

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E] | None:
        return self._nearest("e.id > ? ORDER BY e.id LIMIT 1", key, fingerprint, after)

    def last(self, *, key: str | None, fingerprint: str | None) -> StoredExchange[E] | None:
        return self._nearest("e.id > ? ORDER BY e.id DESC LIMIT 1", key, fingerprint, -1)

    def _nearest(self, rest: str, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E] | None:
        found = []
        for condition, values in _conditions(key, fingerprint):
            rows = self._database.run(f"{self._select} {condition} AND {rest}", *values, after)
            found += [self._stored(row) for row in rows]
        return (max if "DESC" in rest else min)(found, key=lambda stored: stored.id, default=None)

    def _stored(self, row: tuple[Any, ...]) -> StoredExchange[E]:
        row_id, key, entry, repeats = row
        return StoredExchange(row_id, key, self._parse(key, entry, source=self.source), bool(repeats))

    def __iter__(self) -> Iterator[StoredExchange[E]]:
        after = -1
        while rows := self._database.run(f"{self._select} e.id > ? ORDER BY e.id LIMIT 100", after):
            page = [self._stored(row) for row in rows]
            yield from page
            after = page[-1].id

    def __len__(self) -> int:
        ((count,),) = self._database.run(f"SELECT count(*) FROM {self._table}")  # noqa: S608 - no values
        return int(count)

    def entries(self) -> Entries[E]:
        """Return all exchanges by key."""
        entries: Entries[E] = {}
        for stored in self:
            add_exchange(entries, stored.key, stored.exchange)
        listed = f"SELECT DISTINCT key FROM {self._table} WHERE listed"  # noqa: S608 - no values
        for key in entries.keys() & {key for (key,) in self._database.run(listed)}:  # others were added after reading
            entries[key] = exchanges_of(entries, key)
        return entries


def _conditions(key: str | None, fingerprint: str | None) -> list[tuple[str, tuple[str, ...]]]:
    if key is None:
        return [("e.fingerprint = ?", (fingerprint or "",))]
    if fingerprint is None:
        return [("e.key = ?", (key,))]
    return [("e.key = ? AND e.fingerprint = ?", (key, wanted)) for wanted in (fingerprint, "")]


_METADATA = "CREATE TABLE IF NOT EXISTS metadata (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
_SCHEMA = (_METADATA, *_schema_of("exchanges"))
_TOOL_SCHEMA = _schema_of("tool_exchanges", prefix="tools_")
_INSERT = "INSERT INTO exchanges (key, fingerprint, recorded_at, listed, entry) VALUES (?, ?, ?, ?, ?)"
_INSERT_TOOL = _INSERT.replace("exchanges", "tool_exchanges")
_FIND_ANSWER_TO_ANY = "SELECT 1 FROM exchanges WHERE fingerprint = '' LIMIT 1"
_ADD_METADATA = "INSERT INTO metadata VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_SET_METADATA = "INSERT OR REPLACE INTO metadata VALUES (?, ?)"
_encoder = msgspec.json.Encoder()


class SqliteStore:
    """A recording in the database file at `path`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.location, self.identity = f"sqlite:///{path}", str(self.path)

    def exists(self) -> bool:
        return os.access(self.path, os.F_OK)

    def read(self) -> SqliteReader:
        if not self.exists():
            raise no_recording_error(self.path, source=self.location)
        with self._opened() as database:
            return SqliteReader(database)

    def write(self) -> SqliteWriter:
        self._make_folder()
        with self._opened() as database:
            writer = SqliteWriter(database)
            _make_tool_table(database)
            writer.add_meta({})  # fails now, not at the first exchange, if the database is read-only
            database.allow_concurrent_reads()
            return writer

    def load(self) -> Document:
        with closing(self.read()) as reader:
            return reader.document()

    def save(self, document: Document) -> None:
        self._make_folder()
        with self._opened() as database:
            with database.transaction():
                _replace_all(database, document)
            database.erase_removed()
            database.close()

    def update(self, change: Callable[[Document], bool | None]) -> None:
        self._make_folder()
        with self._opened() as database:
            with database.transaction():
                document = SqliteReader(database).document()
                is_changed = change(document) is not False
                if is_changed:
                    _replace_all(database, document)
            if is_changed:
                database.erase_removed()
            database.close()

    def sibling(self) -> SqliteStore:
        try:
            return SqliteStore(create_sibling(self.path))
        except OSError as error:
            raise unusable_error(error.strerror or str(error), source=self.location) from None

    def beside(self, suffix: str) -> SqliteStore:
        path = f"{self.location.removeprefix('sqlite:///')}{suffix}"
        refuse_link(Path(path), source=f"{self.location}{suffix}")
        return SqliteStore(path)

    def share(self) -> None:
        return None

    def remove(self) -> None:
        for suffix in (*_SIDE_FILES, ""):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        return None

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable_error(error.strerror or str(error), source=self.location) from None

    @contextmanager
    def _opened(self) -> Iterator[SqliteDatabase]:
        """Open the database, and close it after an error. Create missing tables."""
        try:
            check_regular(self.path)
            for suffix in _SIDE_FILES:
                check_regular(f"{os.path.realpath(self.path)}{suffix}", follow=False)
        except OSError as error:
            is_folder = isinstance(error, IsADirectoryError)
            raise unusable_error(error.strerror or str(error), source=self.location, is_folder=is_folder) from None
        database = SqliteDatabase(self.path, source=self.location)
        try:
            if not database.run("SELECT 1 FROM sqlite_master"):
                with database.transaction():
                    for statement in (*_SCHEMA, *_TOOL_SCHEMA):
                        database.run(statement)
                    database.run(_ADD_METADATA, "_version", orjson.dumps(FORMAT_VERSION))
                    database.run(_ADD_METADATA, "_meta", orjson.dumps(new_meta()))
            yield database
        except BaseException:
            database.close()
            raise


def _replace_all(database: SqliteDatabase, document: Document) -> None:
    """Replace everything in the database by the document. To be called inside a transaction."""
    database.run("DELETE FROM exchanges")
    database.run("DELETE FROM metadata")
    for statement in (*_TOOL_SCHEMA, "DELETE FROM tool_exchanges"):
        database.run(statement)
    for name, value in ({"_version": document.version, "_meta": document.meta} | document.rest).items():
        database.run(_SET_METADATA, name, orjson.dumps(value))
    for key, exchange in document:
        database.run(_INSERT, *_row_values(key, exchange, listed=isinstance(document.entries[key], list)))
    for tool, call in each_exchange(document.tools):
        database.run(_INSERT_TOOL, *_row_values(tool, call, listed=isinstance(document.tools[tool], list)))


def _has_tool_table(database: SqliteDatabase) -> bool:
    """Return whether tools have their own table. In older databases they are metadata."""
    return bool(database.run("SELECT 1 FROM sqlite_master WHERE name = 'tool_exchanges'"))


def _make_tool_table(database: SqliteDatabase) -> None:
    """Create the table of tools if missing, and move the tools from the metadata to it."""
    if _has_tool_table(database):
        return
    with database.transaction():
        tools = _tools_in_metadata(database)
        for statement in _TOOL_SCHEMA:
            database.run(statement)
        for tool, exchange in each_exchange(tools):
            database.run(_INSERT_TOOL, *_row_values(tool, exchange, listed=isinstance(tools[tool], list)))
        database.run("DELETE FROM metadata WHERE name = '_tools'")


def _tools_in_metadata(database: SqliteDatabase) -> dict[str, ToolEntry]:
    return parse_tools(orjson.dumps(_metadata(database).get("_tools", {})), source=database.source)


def _row_values(key: str, exchange: Exchange | ToolExchange, *, listed: bool) -> tuple[Any, ...]:
    return key, exchange.fingerprint or "", exchange.recorded_at or "", listed, _encoder.encode(exchange)


class SqliteWriter:
    """Appends to an SQLite recording. Each exchange is a separate transaction."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        reader = SqliteReader(database)
        self.meta, self.size, self.tool_size = reader.meta, len(reader), len(reader.tools)
        self._version = reader.version

    def add_meta(self, meta: JsonObject) -> None:
        with self._database.transaction():
            merged = _metadata(self._database)["_meta"] | meta
            self._database.run(_SET_METADATA, "_meta", orjson.dumps(merged))

    def append(self, key: str, exchange: Exchange) -> None:
        self._append(_INSERT, _row_values(key, exchange, listed=False))

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        self._append(_INSERT_TOOL, _row_values(tool, exchange, listed=True))

    def _append(self, insert: str, row: tuple[Any, ...]) -> None:
        if self._version == FORMAT_VERSION:
            self._database.run(insert, *row)
            return
        with self._database.transaction():
            version = self._version if self._database.run(_FIND_ANSWER_TO_ANY) else FORMAT_VERSION
            self._database.run(insert, *row)
            if version != self._version:
                self._database.run(_SET_METADATA, "_version", orjson.dumps(version))
        self._version = version

    def close(self) -> None:
        self._database.close()


class SqliteReader(SqliteIndex[Exchange]):
    """An SQLite recording, open for reading."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database, "exchanges", parse_exchange)
        metadata = _metadata(database)
        version, meta = metadata.get("_version"), metadata.get("_meta")
        if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION or not isinstance(meta, dict):
            raise RecordingFormatError(
                f"expected a recording of version {FORMAT_VERSION} or older, got {version!r}", source=self.source
            )
        self.version: int = version
        self.meta: JsonObject = meta

    @cached_property
    def tools(self) -> SqliteIndex[ToolExchange] | MemoryIndex[ToolExchange]:
        if _has_tool_table(self._database):
            return SqliteIndex(self._database, "tool_exchanges", parse_tool_exchange)
        return MemoryIndex(_tools_in_metadata(self._database), source=self.source)

    def document(self) -> Document:
        """Return the whole recording."""
        metadata = _metadata(self._database)
        rest = {name: value for name, value in metadata.items() if name not in ("_version", "_meta", "_tools")}
        return Document(
            meta=self.meta, entries=self.entries(), rest=rest, version=self.version, tools=self.tools.entries()
        )

    def close(self) -> None:
        self._database.close()


def _metadata(database: SqliteDatabase) -> JsonObject:
    rows = database.run("SELECT name, value FROM metadata")
    try:
        return {name: orjson.loads(value) for name, value in rows}
    except orjson.JSONDecodeError as error:
        raise RecordingFormatError(str(error), source=database.source, place="metadata") from None
