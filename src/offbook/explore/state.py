"""The state of the user's world at the end of a run: a function's result, or files and databases."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.run import Run, error_text
from offbook.recording.format.exchange import json_form

State: TypeAlias = Callable[..., Any]
"""Returns the state after a run: a function of no arguments, or of the run."""

MAX_STATE_CHARS = 200_000
_SQLITE = b"SQLite format 3\x00"


def check_state(state: object) -> None:
    """Raise InputError if this is not a function of no arguments or of one."""
    if state is not None and (not callable(state) or inspect.iscoroutinefunction(state)):
        hint = "state=read_balances, a function of no arguments or of the run"
        raise InputError(f"expected a synchronous function, got {state!r}", source="state", hint=hint)


def with_state(run: Run, state: State | None) -> Run:
    """Return a run that has ended with the state that it has left. A function that fails is a check that fails."""
    if state is None or run.hung:
        return run
    try:
        parameters = inspect.signature(state).parameters.values()
        value = state(run) if any(each.default is each.empty for each in parameters) else state()
    except Exception as error:
        return replace(run, broken=(*run.broken, f"state: {type(error).__name__}: {error_text(error)}"))
    return replace(run, state=state_value(value))


def state_value(value: object) -> Any:
    """Return a state as a JSON value: bytes as `content_value` reads them, a path as its contents."""
    if isinstance(value, Path):
        return state_of_path(value)
    if isinstance(value, bytes | bytearray):
        return content_value(bytes(value))
    return json_form(value).value


def state_of_path(path: Path) -> Any:
    """Return a file's content, or a folder's files by name, or None."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return {each.relative_to(path).as_posix(): _file_value(each) for each in files}
    return _file_value(path) if path.is_file() else None


def _file_value(path: Path) -> Any:
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return _database_value(path)
    return content_value(path.read_bytes())


def _database_value(path: Path) -> Any:
    """Return the statements that make a database: equal for equal rows, whatever the bytes."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _shortened("\n".join(database.iterdump()))
    except sqlite3.Error:
        return content_value(path.read_bytes())


def content_value(data: bytes) -> Any:
    """Return the JSON value or the text of these bytes, or a digest."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return _shortened(data.decode())
    except UnicodeDecodeError:
        return f"{len(data):,} bytes, sha256 {sha256(data).hexdigest()}"


def _shortened(text: str) -> str:
    if len(text) <= MAX_STATE_CHARS:
        return text
    return f"{text[:MAX_STATE_CHARS]}… {len(text):,} characters, sha256 {sha256(text.encode()).hexdigest()}"
