"""The names under which exchanges are kept."""

import re

MAX_KEY_CHARS = 512
KEY_HINT = "a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def unfit_reason(key: str) -> str:
    """Why the key could mean something else to a terminal, a path or the file format; empty if it could not."""
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
    cut = key if len(key) <= limit else key[: limit - 1] + "…"
    return ascii(cut) if _UNFIT.search(cut) else repr(cut)
