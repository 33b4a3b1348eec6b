"""Builds an HTML page that needs no other file: style, script and data in one."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files


def standalone_page(name: str, data: bytes) -> bytes:
    """Return the page `name` of the folder `page`, with its style, its script and the JSON that the script shows.

    The page loads nothing, and its policy allows only the script and the style in it. No tag can begin in the data.
    """
    before, _, after = _page(name).partition(b"{{data}}")
    return before + data.replace(b"<", rb"\u003c") + after


@cache
def _page(name: str) -> bytes:
    folder = files("offbook.report") / "page"
    page = folder.joinpath(f"{name}.html").read_bytes()
    style, script = (
        b"".join(folder.joinpath(f"{part}.{suffix}").read_bytes() for part in ("common", name))
        for suffix in ("css", "js")
    )
    hashes = {b"{{style_hash}}": _csp_hash(style), b"{{script_hash}}": _csp_hash(script)}
    for placeholder, value in {**hashes, b"{{style}}": style, b"{{script}}": script}.items():
        page = page.replace(placeholder, value)
    return page


def _csp_hash(source: bytes) -> bytes:
    """Return the source of a script or style as a content security policy names it."""
    return b"sha256-" + b64encode(sha256(source).digest())
