"""The names under which exchanges are kept."""

import re

from understudy.errors import InputError

MAX_KEY_CHARS = 512
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HINT = "a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"


def check_key(key: str, *, source: str = "") -> None:
    """Refuse a key that could mean something else to a terminal, a path or the file format.

    Raises:
        InputError: the key is empty, too long, starts with `_`, climbs (`..`) or has control characters.
    """
    reason = _fault_in(key)
    if reason:
        raise InputError(f"the key {shown(key)} {reason}", source=source, hint=_HINT)


def _fault_in(key: str) -> str:
    if not key:
        return "is empty"
    if len(key) > MAX_KEY_CHARS:
        return f"has {len(key)} characters"
    if key.startswith("_"):
        return "starts with '_', which marks metadata"
    if ".." in key and ".." in re.split(r"[/\\]", key):
        return "climbs out of its folder"
    return "has control characters" if _UNFIT.search(key) else ""


def shown(key: str, limit: int = 60) -> str:
    """The key, quoted and cut for a message."""
    return ascii(key if len(key) <= limit else key[: limit - 1] + "…") if _UNFIT.search(key) else repr(key[:limit])
