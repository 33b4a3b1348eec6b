"""The names under which exchanges are kept."""

import re

MAX_KEY_CHARS = 512
SHORT_KEY_CHARS = 12
KEY_HINT = "a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


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
    return "has control characters" if _UNFIT.search(name) else ""


def tool_key(name: str) -> str:
    """Where a recording has the exchanges of a tool, like `_tools.get_weather`: the key of no other exchange."""
    return f"_tools.{name}" if name.replace("-", "_").isidentifier() else f"_tools[{shown(name)}]"


def short(key: str) -> str:
    """The key; a fingerprint is cut to what tells it from others."""
    return f"{key[:SHORT_KEY_CHARS]}…" if _FINGERPRINT.fullmatch(key) else key


def shown(key: str, limit: int = 60) -> str:
    """The key, quoted and cut for a message."""
    cut = key if len(key) <= limit else key[: limit - 1] + "…"
    return ascii(cut) if _UNFIT.search(cut) else repr(cut)
