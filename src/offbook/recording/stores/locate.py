"""Opens the store that a path or URL names."""

from __future__ import annotations

import os
import re

from offbook.errors import InputError
from offbook.recording.stores.json_file import JsonFileStore
from offbook.recording.stores.sqlite import SqliteStore
from offbook.recording.stores.store import Store

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SQLITE = "sqlite:///"


def open_store(location: str | os.PathLike[str]) -> Store:
    """The store that `location` names: `path.json`, or `sqlite:///path.db`.

    Raises:
        InputError: it names no kind of store that there is.
    """
    text = os.fspath(location)
    is_sqlite = text.startswith(_SQLITE) and text != _SQLITE
    if "\0" in text or not text or (_SCHEME.match(text) and not is_sqlite):
        raise InputError(
            f"{text!r} names no store",
            source="recording",
            hint="use a path like runs/today.json or sqlite:///runs/today.db",
        )
    if is_sqlite:
        return SqliteStore(text.removeprefix(_SQLITE))
    if text.endswith((".db", ".sqlite", ".sqlite3")):
        raise InputError(f"{text!r} looks like a database", source="recording", hint=f"write {_SQLITE}{text}")
    return JsonFileStore(text)
