"""The keys of a recording: valid ones, their display, and the meaning of a prefix."""

from __future__ import annotations

import re
from collections.abc import Iterable

from offbook.errors import InputError
from offbook.text import shorten

MAX_KEY_CHARS = 512
WHOLE_KEY_CHARS = 24
KEY_PREFIX_CHARS = 12
LISTED_KEYS = 12
_CUT = "…"
KEY_HINT = "a key is up to 512 printable characters, does not start with '_' and has no '..' between slashes"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_PLAIN_NAME = re.compile(rf"[\w-]{{1,{MAX_KEY_CHARS}}}", re.ASCII)
_UNFIT_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
FOLDER_KEY = "_files"
"""The key of a JSON recording that names the folder with its files."""


def unfit_reason(key: str) -> str:
    """Return why a key is not safe for terminals, paths or the file format, or ""."""
    return "starts with '_', which marks metadata" if key.startswith("_") else unfit_tool_reason(key)


def unfit_tool_reason(name: str) -> str:
    """Return why a tool's name is not safe, like `unfit_reason`. It may start with '_'."""
    if _PLAIN_NAME.fullmatch(name):
        return ""  # as fingerprints are, of which there may be thousands
    if not name:
        return "is empty"
    if len(name) > MAX_KEY_CHARS:
        return f"has {len(name)} characters"
    if ".." in name and ".." in re.split(r"[/\\]", name):
        return "leads out of its folder"
    return "has control characters" if _UNFIT_CHARS.search(name) else ""


def tool_key(name: str) -> str:
    """Return the place of a tool's exchanges in a recording, like `_tools.get_weather`. No key is equal to it.

    An MCP tool's is like `_tools.github.create_issue`; a result of `mcp_key` is its own place.
    """
    if is_mcp_key(name):
        return name
    is_plain = all(part.replace("-", "_").isidentifier() for part in name.split("."))
    return f"_tools.{name}" if is_plain else f"_tools[{quote_name(name)}]"


_MCP_PREFIX = "_mcp."


def mcp_key(server: str, method: str) -> str:
    """Return the name for an MCP server's exchanges that are not tool calls.

    It is like `_mcp.github tools/list`. They are kept among the tool exchanges, and in the file under `_mcp`.
    """
    return f"{_MCP_PREFIX}{server} {method.replace(' ', '%20')}"


def is_function_tool(key: str) -> bool:
    """Return whether tool exchanges with this key are of a function, and not of an MCP server."""
    return "." not in key and not is_mcp_key(key)


def is_mcp_key(name: str) -> bool:
    """Return whether a name among the tool exchanges belongs to a method of an MCP server."""
    return name.startswith(_MCP_PREFIX) and " " in name


def split_mcp_key(name: str) -> tuple[str, str]:
    """Return the server and the method of an `mcp_key`."""
    server, _, method = name.removeprefix(_MCP_PREFIX).rpartition(" ")
    return server, method.replace("%20", " ")


def is_fingerprint(key: str) -> bool:
    """Return whether a key is the fingerprint of a request, and not a name."""
    return _FINGERPRINT.fullmatch(key) is not None


def short_fingerprint(key: str) -> str:
    """Return the key; a fingerprint is shortened to its beginning and `…`."""
    return key[:KEY_PREFIX_CHARS] + _CUT if _FINGERPRINT.fullmatch(key) else key


def quote_name(key: str) -> str:
    """Return the key in quotes, cut to 60 characters, for a message."""
    cut = shorten(key, 60)
    return ascii(cut) if _UNFIT_CHARS.search(cut) else repr(cut)


def short_key(key: str) -> str:
    """Return the key as tables show it: a long one is shortened to its beginning and `…`."""
    return key if len(key) <= WHOLE_KEY_CHARS else key[:KEY_PREFIX_CHARS] + _CUT


def find_key(given: str, keys: Iterable[str], *, source: str) -> str:
    """Return the key `given`, or else the only key that starts with it. A `…` at the end is ignored.

    Raises:
        InputError: no key starts with it, or several do; the hint lists what to write instead.
    """
    known = list(dict.fromkeys(keys))
    if given in known:
        return given
    prefix = given.removesuffix(_CUT)
    found = [key for key in known if prefix and key.startswith(prefix)]
    if len(found) > 1:
        reason = f"{len(found)} keys start with {quote_name(prefix)}"
        raise InputError(reason, source=source, hint=f"write more of one: {_key_list(found, known)}")
    if not found:
        raise InputError(
            f"no key {quote_name(given)}", source=source, hint=f"keys: {_key_list(known, known) or 'none'}"
        )
    return found[0]


def _key_list(keys: list[str], known: list[str]) -> str:
    """Return the first keys, each as short as is unique."""
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
