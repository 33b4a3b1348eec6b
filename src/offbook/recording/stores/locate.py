"""Opens the recording at a path, a URL or in a dict, and computes its digest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from offbook.errors import InputError
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.file import document_from_dict, render_document
from offbook.recording.stores.json_file import JsonFileStore
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader, Store
from offbook.shard import digest_of
from offbook.text import mask_password

RecordingInput: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Document
"""A recording as users give it: a path, `sqlite:///path.db`, `redis://host:6379/0`, or the document itself."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_OPTION = re.compile(r"(ttl|prefix|timeout|on_error)=")
_ONE_SLASH = re.compile(r"(rediss?|sqlite):", re.IGNORECASE)
_SQLITE = "sqlite:///"
_REDIS = ("redis://", "rediss://")


def open_store(location: str | os.PathLike[str]) -> Store:
    """Return the store at `location`: `path.json`, `sqlite:///path.db`, or `redis://host:6379/0?prefix=name`.

    Other schemes are those of installed packages: an entry point of the group `offbook.stores` has the name of a
    scheme, and leads to a function that takes a location and returns its Store.

    Raises:
        InputError: no kind of store has such a location.
    """
    text = os.fspath(location)
    if text.lower().startswith(_REDIS):
        from offbook.recording.stores.redis.store import RedisStore  # noqa: PLC0415 - most programs never use a server

        return RedisStore(text)
    is_sqlite = text.startswith(_SQLITE) and text != _SQLITE
    has_scheme = _SCHEME.match(text) is not None and not is_sqlite
    if has_scheme and (plugin := _plugin(text.partition("://")[0].lower())):
        return plugin(text)
    if "\0" in text or not text or has_scheme:
        raise InputError(
            f"{mask_password(text)!r} is not the location of a recording",
            source="recording",
            hint="use a path like runs/today.json, sqlite:///runs/today.db or redis://host:6379/0?prefix=name",
        )
    place, question, query = text.partition("?")
    if question and _OPTION.match(query):
        prune = f", and remove old exchanges with: offbook recording prune {place} --older-than 30d"
        raise InputError(
            f"only a recording in Redis has options like ?{query}",
            source=mask_password(text),
            hint=f"leave it out{prune if 'ttl=' in query else ''}",
        )
    if is_sqlite:
        from offbook.recording.stores.sqlite import SqliteStore  # noqa: PLC0415 - most programs never load sqlite3

        return SqliteStore(text.removeprefix(_SQLITE))
    if _ONE_SLASH.match(text):
        scheme = text.partition(":")[0]  # what follows may have a password
        hint = f"write {_SQLITE}path.db" if scheme == "sqlite" else f"write {scheme}://host, with two slashes"
        raise InputError(f"{scheme}: is not followed by two slashes", source="recording", hint=hint)
    if text.endswith((".db", ".sqlite", ".sqlite3")):
        raise InputError(f"{text!r} looks like a database", source="recording", hint=f"write {_SQLITE}{text}")
    return JsonFileStore(text)


def _plugin(scheme: str) -> Callable[[str], Store] | None:
    """Return what opens the stores of a scheme, if an installed package does."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - few locations have such a scheme

    for entry_point in entry_points(group="offbook.stores", name=scheme):
        opener: Callable[[str], Store] = entry_point.load()
        return opener
    return None


def is_folder(location: str | os.PathLike[str]) -> bool:
    """Return whether a location is a folder, which may have recordings."""
    path = os.fspath(location)
    return "://" not in path and "\0" not in path and os.path.isdir(path)  # noqa: PTH112 - Path("") is a folder


def recordings_in(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the recordings of a folder and its subfolders: all files named `*.json`.

    Raises:
        InputError: it has none.
    """
    paths = sorted(path for path in Path(folder).rglob("*.json") if path.is_file())
    if not paths:
        hint = "a recording is a file named *.json"
        raise InputError("the folder has no recordings", source=os.fspath(folder), hint=hint)
    return paths


def recording_digest(location: str | os.PathLike[str]) -> str:
    """Return a short digest of a recording's contents.

    Raises:
        InputError: the recording cannot be read.
    """
    return digest_of([render_document(open_store(location).load())])


def last_recorded_at(location: str | os.PathLike[str]) -> str:
    """Return the time of a recording's last exchange, or "" if it is unknown.

    Raises:
        InputError: the recording cannot be read.
    """
    document = open_store(location).load()
    times = [exchange.recorded_at or "" for _, exchange in document]
    return max([*times, *(exchange.recorded_at or "" for _, exchange in each_exchange(document.tools))], default="")


def open_reader(recording: RecordingInput | RecordingReader, *, source: str) -> RecordingReader:
    """Open a recording for reading, unless it is open. `source` is a document's name in error messages.

    Raises:
        InputError: the recording cannot be read.
    """
    if isinstance(recording, str | os.PathLike):
        return open_store(recording).read()
    return recording if isinstance(recording, RecordingReader) else read_document(recording, source=source)


def read_document(document: Mapping[str, Any] | Document, *, source: str) -> MemoryReader:
    """Open a document for reading. `source` is its name in error messages.

    Raises:
        RecordingFormatError: the dict is not a recording.
    """
    if not isinstance(document, Document):
        document = document_from_dict(document, source=source)
    return MemoryReader(document, source=source)
