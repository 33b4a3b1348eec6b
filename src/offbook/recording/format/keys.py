"""The keys of a recording: which are valid, how they are shown, and which one a prefix means."""

from __future__ import annotations

import re
from collections.abc import Iterable

from offbook.errors import InputError

MAX_KEY_CHARS = 512
SHORT_KEY_CHARS = 12
KEY_HINT = "a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_UNFIT_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def unfit_reason(key: str) -> str:
    """Why the key could mean something else to a terminal, a path or the file format; empty if it could not."""
    return "starts with '_', which marks metadata" if key.startswith("_") else unfit_tool_reason(key)


def unfit_tool_reason(name: str) -> str:
    """The like for the name of a tool, which may start with '_'."""
    if not name:
        return "is empty"
    if len(name) > MAX_KEY_CHARS:
        return f"has {len(name)} characters"
    if ".." in name and ".." in re.split(r"[/\\]", name):
        return "climbs out of its folder"
    return "has control characters" if _UNFIT_CHARS.search(name) else ""


def tool_key(name: str) -> str:
    """Where a recording has the exchanges of a tool, like `_tools.get_weather`: the key of no other exchange."""
    return f"_tools.{name}" if name.replace("-", "_").isidentifier() else f"_tools[{quote_name(name)}]"


def short_fingerprint(key: str) -> str:
    """The key; a fingerprint is cut to what tells it from others."""
    return f"{key[:SHORT_KEY_CHARS]}…" if _FINGERPRINT.fullmatch(key) else key


def quote_name(key: str, limit: int = 60) -> str:
    """The key, quoted and cut for a message."""
    cut = key if len(key) <= limit else key[: limit - 1] + "…"
    return ascii(cut) if _UNFIT_CHARS.search(cut) else repr(cut)


WHOLE_KEY_CHARS = 24
KEY_PREFIX_CHARS = 12
LISTED_KEYS = 12
_CUT = "…"


def short_key(key: str) -> str:
    """The key as tables show it: whole, or if it is long, its beginning and `…`."""
    return key if len(key) <= WHOLE_KEY_CHARS else key[:KEY_PREFIX_CHARS] + _CUT


def find_key(given: str, keys: Iterable[str], *, source: str) -> str:
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
        told = f"{len(fitting)} keys begin with {quote_name(beginning)}"
        raise InputError(told, source=source, hint=f"give more of one: {_key_list(fitting, known)}")
    if not fitting:
        raise InputError(
            f"no key {quote_name(given)}", source=source, hint=f"keys: {_key_list(known, known) or 'none'}"
        )
    return fitting[0]


def _key_list(keys: list[str], known: list[str]) -> str:
    """The first keys, each as far as it must be given."""
    more = ", …" if len(keys) > LISTED_KEYS else ""
    return ", ".join(_unique_prefix(key, known) for key in keys[:LISTED_KEYS]) + more


def _unique_prefix(key: str, known: list[str]) -> str:
    if len(key) <= WHOLE_KEY_CHARS:
        return key
    others = [other for other in known if other != key]
    chars = KEY_PREFIX_CHARS
    while chars < len(key) and any(other.startswith(key[:chars]) for other in others):
        chars += 1
    return key[:chars]
