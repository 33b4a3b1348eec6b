"""Builds an HTML page that needs no other file: style, script and data in one."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files


def standalone_page(package: str, data: bytes) -> bytes:
    """The page in the folder `page` of a package, with its style, its script and the JSON that the script shows.

    It asks for nothing from anywhere, and runs and is styled by what we put there alone. No tag can begin in the data.
    """
    before, _, after = _page(package).partition(b"{{data}}")
    return before + data.replace(b"<", rb"\u003c") + after


@cache
def _page(package: str) -> bytes:
    folder = files(package) / "page"
    page, style, script = (folder.joinpath(name).read_bytes() for name in ("page.html", "page.css", "page.js"))
    parts = {b"{{style_hash}}": _csp_hash(style), b"{{script_hash}}": _csp_hash(script)}
    for name, value in {**parts, b"{{style}}": style, b"{{script}}": script}.items():
        page = page.replace(name, value)
    return page


def _csp_hash(source: bytes) -> bytes:
    """How a content security policy names a script or style."""
    return b"sha256-" + b64encode(sha256(source).digest())
