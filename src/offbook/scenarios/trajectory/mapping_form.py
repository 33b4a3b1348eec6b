"""Trajectories written as mappings: `{"toolCalls": {"matchMode": "strict", "expected": [{"name": "search"}]}}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from offbook.errors import InputError
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory, expected
from offbook.text import did_you_mean

SOURCE = "assertions"
_TOOL_CALLS = {"tool_calls": "tool_calls"}
_TRAJECTORY = {"match_mode": "mode", "mode": "mode", "expected": "expected", "forbidden": "forbidden"}
_CALL = {
    "name": "tool",
    "tool": "tool",
    "args": "args",
    "arg_match_mode": "match",
    "match": "match",
    "at_least": "at_least",
    "at_most": "at_most",
    "exactly": "exactly",
}


def parse_assertions(given: object) -> tuple[Trajectory, ...]:
    """Return declared assertions: a Trajectory, a mapping, or several of them. Keys are in snake_case or camelCase.

    Raises:
        InputError: something is neither, or a key of a mapping is unknown.
    """
    if given is None:
        return ()
    if isinstance(given, Trajectory | Mapping):
        return (_trajectory(given, ""),)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _not_an_assertion(given, "")
    return tuple(_trajectory(each, f"[{index}]") for index, each in enumerate(given))


def _trajectory(given: object, place: str) -> Trajectory:
    if isinstance(given, Trajectory):
        return given
    if not isinstance(given, Mapping):
        raise _not_an_assertion(given, place)
    name = next(iter(given), "toolCalls")
    inner = _fields(given, _TOOL_CALLS, place).get("tool_calls")
    place = f"{place}.{name}".removeprefix(".")
    if not isinstance(inner, Mapping):
        raise InputError(f"expected a dict, got {inner!r}", source=SOURCE, place=place, hint=_EXAMPLE)
    fields = _fields(inner, _TRAJECTORY, place)
    if "mode" not in fields:
        raise InputError("matchMode is missing", source=SOURCE, place=place, hint=_EXAMPLE)
    wanted, forbidden = (_calls(fields.get(key, ()), f"{place}.{key}") for key in ("expected", "forbidden"))
    return _build(lambda: Trajectory(fields["mode"], wanted, forbidden=forbidden), place)


def _calls(given: object, place: str) -> list[Expectation | str]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a list, got {given!r}", source=SOURCE, place=place, hint=_EXAMPLE)
    return [_call(each, f"{place}[{index}]") for index, each in enumerate(given)]


def _call(given: object, place: str) -> Any:
    """Return an expectation; what is not a mapping is left to Trajectory."""
    if not isinstance(given, Mapping):
        return given
    fields = _fields(given, _CALL, place)
    if fields.get("match") == "ignore":
        fields.pop("args", None)
    return _build(lambda: expected(fields.pop("tool", ""), **fields), place)


def _fields(given: Mapping[str, Any], known: Mapping[str, str], place: str) -> dict[str, Any]:
    """Return the fields under the names of our own arguments."""
    fields = {}
    for key, value in given.items():
        name = known.get(_snake_case(str(key)))
        if name is None:
            hint = did_you_mean(_snake_case(str(key)), known, kind="keys")
            raise InputError(f"unknown key {key!r}", source=SOURCE, place=place, hint=hint)
        fields[name] = value
    return fields


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


T = TypeVar("T")


def _build(make: Callable[[], T], place: str) -> T:
    """Return what `make` makes, with the place in an InputError that it raises."""
    try:
        return make()
    except InputError as error:
        where = f"{place}.{error.place}" if error.place else place
        raise InputError(error.reason, source=SOURCE, place=where, hint=error.hint) from None


_EXAMPLE = '{"toolCalls": {"matchMode": "strict", "expected": [{"name": "search"}]}}'


def _not_an_assertion(given: object, place: str) -> InputError:
    hint = 'Trajectory("strict", ["search"])'
    return InputError(f"expected a Trajectory, got {given!r}", source=SOURCE, place=place, hint=hint)
