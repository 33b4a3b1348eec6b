"""A connection to an SQLite database that survives forks and tells its failures as ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.errors import InputError, RecordingFormatError

BUSY_TIMEOUT_S = 60.0


class Database:
    """An SQLite database in WAL mode. Each statement outside a transaction is committed by itself."""

    def __init__(self, path: Path, *, source: str) -> None:
        self.path, self.source = path, source
        self._connection: sqlite3.Connection | None = None
        self._pid = 0

    def run(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows that `statement` gives.

        Raises:
            InputError: the database cannot be opened, read or written.
        """
        try:
            return self._connected().execute(statement, values)
        except sqlite3.Error as error:
            raise self._translated(error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside take effect together, or none does."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def close(self) -> None:
        """Let go of the connection. It is opened again when needed."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None or self._pid != os.getpid():
            self._connection = self._connect()
            self._pid = os.getpid()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _translated(self, error: sqlite3.Error) -> InputError:
        told = str(error)
        if "not a database" in told or "malformed" in told or "no such table" in told:
            return RecordingFormatError(f"not a recording: {told}", source=self.source)
        hint = "name a file, not a folder" if self.path.is_dir() else "check the path and its permissions"
        return InputError(told, source=self.source, hint=hint)
