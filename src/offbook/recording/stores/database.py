"""An SQLite connection that is safe across forks and threads, and raises the package's own errors."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offbook.errors import InputError, RecordingFormatError
from offbook.recording.stores.fork_guard import ForkGuarded

BUSY_TIMEOUT_S = 60.0
_FOREIGN_DATABASE_ERRORS = ("not a database", "malformed", "no such table", "no such column", "has no column")


class SqliteDatabase(ForkGuarded):
    """An SQLite database. Each statement outside a transaction is committed by itself."""

    def __init__(self, path: Path, *, source: str) -> None:
        super().__init__()
        self.path, self.source = path, source
        self._connection: sqlite3.Connection | None = None

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that `statement` gives.

        Raises:
            InputError: the database cannot be opened, read or written.
        """
        try:
            with self.guard:
                return self._connected().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside take effect together, or none does."""
        with self.guard:
            self.run("BEGIN IMMEDIATE")
            try:
                yield
                self.run("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        """Undo the transaction, if its failure has not undone it already."""
        if self._connected().in_transaction:
            self.run("ROLLBACK")

    def read_beside_writing(self) -> None:
        """Let others read while one writes, from now on or from when nobody else is about to ask for the same."""
        try:
            with self.guard:
                self._connected().execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise self._translated(error) from None

    def close(self) -> None:
        """Let go of the connection. It is opened again when needed."""
        with self.guard:
            if self._connection is not None:
                self._disconnect()
            self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._uri(), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._disconnect = weakref.finalize(self, self._connection.close)
            self._connection.execute("PRAGMA synchronous = NORMAL")
        return self._connection

    def _uri(self) -> str:
        """The database's address. In a folder where nothing can be written, reading must do without side files."""
        is_writable = os.access(self.path.parent, os.W_OK, effective_ids=True)
        is_still = not is_writable and not os.access(f"{self.path}-wal", os.F_OK)
        return f"{self.path.as_uri()}?immutable=1" if is_still else self.path.as_uri()

    def _translated(self, error: sqlite3.Error) -> InputError:
        told = str(error)
        if any(sign in told for sign in _FOREIGN_DATABASE_ERRORS):
            return RecordingFormatError(f"not a recording: {told}", source=self.source)
        is_folder = os.path.isdir(self.path)  # noqa: PTH112 - that of Path raises where the path cannot be
        hint = "name a file, not a folder" if is_folder else "check the path, its permissions and the space"
        return InputError(told, source=self.source, hint=hint)
