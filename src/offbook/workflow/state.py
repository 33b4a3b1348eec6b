"""The state of a run: what its steps read and write, by dotted paths."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.wording import did_you_mean


def opened(declared: JsonObject, given: JsonObject, *, source: str) -> JsonObject:
    """A fresh state: what the workflow declares, with what is given in place of it.

    Raises:
        InputError: a key is given that the workflow does not declare.
    """
    for key in given:
        if key not in declared:
            hint = did_you_mean(key, declared, kind="declared")
            raise InputError(f"the workflow's state has no key {key!r}", source=source, place="state", hint=hint)
    return deepcopy(declared | given)


def put(state: JsonObject, path: str, value: Any) -> None:
    """Write a value at a dotted path; what is on the way and no mapping becomes one.

    The mappings on the way are replaced, never changed: a shallow copy of a state is a copy.
    """
    *parents, last = path.split(".")
    for key in parents:
        inner = state.get(key)
        state[key] = state = dict(inner) if isinstance(inner, dict) else {}
    state[last] = value
