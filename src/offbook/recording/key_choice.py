"""Which key of a recording is meant, where the beginning of one is enough."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.errors import InputError
from offbook.recording.keys import shown

WHOLE_CHARS = 24
BEGINNING_CHARS = 12
SHOWN_KEYS = 12
_CUT = "…"


def short_key(key: str) -> str:
    """The key as tables show it: whole, or if it is long, its beginning and `…`."""
    return key if len(key) <= WHOLE_CHARS else key[:BEGINNING_CHARS] + _CUT


def chosen_key(given: str, keys: Iterable[str], *, source: str) -> str:
    """The key that `given` is, or else the only one that begins so; a `…` at its end is left out.

    Raises:
        InputError: no key begins so, or several do; with what can be given instead.
    """
    known = list(dict.fromkeys(keys))
    if given in known:
        return given
    beginning = given.removesuffix(_CUT)
    fitting = [key for key in known if beginning and key.startswith(beginning)]
    if len(fitting) > 1:
        told = f"{len(fitting)} keys begin with {shown(beginning)}"
        raise InputError(told, source=source, hint=f"give more of one: {_listed(fitting, known)}")
    if not fitting:
        raise InputError(f"no key {shown(given)}", source=source, hint=f"keys: {_listed(known, known) or 'none'}")
    return fitting[0]


def _listed(keys: list[str], known: list[str]) -> str:
    """The first keys, each as far as it must be given."""
    more = ", …" if len(keys) > SHOWN_KEYS else ""
    return ", ".join(_enough_of(key, known) for key in keys[:SHOWN_KEYS]) + more


def _enough_of(key: str, known: list[str]) -> str:
    if len(key) <= WHOLE_CHARS:
        return key
    others = [other for other in known if other != key]
    chars = BEGINNING_CHARS
    while chars < len(key) and any(other.startswith(key[:chars]) for other in others):
        chars += 1
    return key[:chars]
