"""A row of exchanges in a table of an SQLite database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol

from offbook.recording.entries import E, Entries, add, exchanges_of
from offbook.recording.stores.database import Database
from offbook.recording.stores.store import E_co, Stored


class Parser(Protocol[E_co]):
    """Reads one exchange from its JSON."""

    def __call__(self, key: str, data: bytes, /, *, source: str) -> E_co: ...


def schema_of(table: str, *, prefix: str = "") -> tuple[str, ...]:
    """The statements that make the table and its indexes, whose names begin with `prefix`, where they are absent."""
    return (
        f"""CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
        recorded_at TEXT NOT NULL, listed INTEGER NOT NULL, entry BLOB NOT NULL)""",
        f"CREATE INDEX IF NOT EXISTS {prefix}by_key ON {table} (key, fingerprint, id)",
        f"CREATE INDEX IF NOT EXISTS {prefix}in_order ON {table} (key, id)",
        f"CREATE INDEX IF NOT EXISTS {prefix}by_fingerprint ON {table} (fingerprint, id)",
    )


class SqliteRow(Generic[E]):
    """The exchanges in one table, open for reading: nothing is kept in memory but where they are."""

    def __init__(self, database: Database, table: str, parse: Parser[E]) -> None:
        self._database, self._table, self._parse, self.source = database, table, parse, database.source
        self._select = f"""SELECT e.id, e.key, CAST(e.entry AS BLOB), NOT e.listed
            AND NOT EXISTS (SELECT 1 FROM {table} AS o WHERE o.key = e.key AND o.id <> e.id)
            FROM {table} AS e WHERE"""  # noqa: S608 - no values

    def only(self, key: str) -> Stored[E] | None:
        stored = self.find(key=key, fingerprint=None, after=-1)
        return stored if stored is not None and stored.repeats else None

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> Stored[E] | None:
        return self._nearest("e.id > ? ORDER BY e.id LIMIT 1", key, fingerprint, after)

    def last(self, *, key: str | None, fingerprint: str | None) -> Stored[E] | None:
        return self._nearest("e.id > ? ORDER BY e.id DESC LIMIT 1", key, fingerprint, -1)

    def _nearest(self, rest: str, key: str | None, fingerprint: str | None, after: int) -> Stored[E] | None:
        found = []
        for condition, values in _conditions(key, fingerprint):
            rows = self._database.run(f"{self._select} {condition} AND {rest}", *values, after)
            found += [self._stored(row) for row in rows]
        return (max if "DESC" in rest else min)(found, key=lambda stored: stored.id, default=None)

    def _stored(self, row: tuple[Any, ...]) -> Stored[E]:
        row_id, key, entry, repeats = row
        return Stored(row_id, key, self._parse(key, entry, source=self.source), bool(repeats))

    def __iter__(self) -> Iterator[Stored[E]]:
        after = -1
        while rows := self._database.run(f"{self._select} e.id > ? ORDER BY e.id LIMIT 100", after):
            page = [self._stored(row) for row in rows]
            yield from page
            after = page[-1].id

    def __len__(self) -> int:
        ((count,),) = self._database.run(f"SELECT count(*) FROM {self._table}")  # noqa: S608 - no values
        return int(count)

    def entries(self) -> Entries[E]:
        """All exchanges by key."""
        entries: Entries[E] = {}
        for stored in self:
            add(entries, stored.key, stored.exchange)
        listed = f"SELECT DISTINCT key FROM {self._table} WHERE listed"  # noqa: S608 - no values
        for key in entries.keys() & {key for (key,) in self._database.run(listed)}:  # others came after reading
            entries[key] = exchanges_of(entries, key)
        return entries


def _conditions(key: str | None, fingerprint: str | None) -> list[tuple[str, tuple[str, ...]]]:
    if key is None:
        return [("e.fingerprint = ?", (fingerprint or "",))]
    if fingerprint is None:
        return [("e.key = ?", (key,))]
    return [("e.key = ? AND e.fingerprint = ?", (key, wanted)) for wanted in (fingerprint, "")]
