"""The state that a command line gives to a run."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.wording import did_you_mean


def given_state(declared: JsonObject, *, settings: list[str], file: str | None) -> JsonObject:
    """The keys of a JSON file, and over them those of `key=value` settings, of which the last one counts.

    A dotted key is set inside what is declared or in the file. A value is JSON where it can be, else text; where a
    text is declared, it stays a text.

    Raises:
        InputError: a file that is no JSON object, a setting that is none, or a key that is not declared.
    """
    state = {} if file is None else _read(file)
    for key in state:
        _check(key, declared, source=str(file))
    for setting in settings:
        _set(state, setting, declared)
    return state


def _read(file: str) -> JsonObject:
    try:
        state = orjson.loads(Path(file).read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), source=file) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"no JSON: {error}", source=file) from None
    if not isinstance(state, dict):
        raise InputError("expected a JSON object", source=file, hint='{"key": "value"}')
    return state


def _set(state: JsonObject, setting: str, declared: JsonObject) -> None:
    path, separator, text = setting.partition("=")
    first, *rest = path.split(".")
    if not separator or not all((first, *rest)):
        raise InputError(f"expected key=value, got {setting!r}", source="--set", hint="--set name=Ada, or --set a.b=1")
    _check(first, declared, source=f"--set {path}")
    if not rest:
        state[first] = _value(text, declared[first])
        return
    inner = state[first] = deepcopy(state.get(first, declared[first]))
    *between, last = rest
    for key in between:
        inner = _mapping(inner, path).setdefault(key, {})
    _mapping(inner, path)[last] = _value(text, _declared(declared, path.split(".")))


def _mapping(value: Any, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InputError(f"there is {_told(value)} where a mapping is expected", source=f"--set {path}")
    return value


def _told(value: Any) -> str:
    return orjson.dumps(value).decode()[:40]


def _declared(declared: Any, keys: list[str]) -> Any:
    """What is declared at the path, if anything is."""
    for key in keys:
        declared = declared.get(key) if isinstance(declared, dict) else None
    return declared


def _value(text: str, declared: Any) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return text if isinstance(declared, str) and not isinstance(value, str) else value


def _check(key: str, declared: JsonObject, *, source: str) -> None:
    if key not in declared:
        hint = did_you_mean(key, declared, kind="declared")
        raise InputError(f"the workflow's state has no key {key!r}", source=source, hint=hint)
