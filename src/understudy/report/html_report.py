"""A run as one page that needs nothing else."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from understudy.report.json_report import compact_json
from understudy.scenarios.result import SuiteResult


def html_report(result: SuiteResult) -> bytes:
    """The run as a page. It asks for nothing from anywhere, and runs and is styled by what we put there alone.

    What was said is in it as JSON, in which no tag can begin; the page's script shows it as text, never as HTML.
    """
    before, _, after = _page().partition(b"{{data}}")
    return before + compact_json(result).replace(b"<", rb"\u003c") + after


@cache
def _page() -> bytes:
    folder = files("understudy.report") / "page"
    page, style, script = (folder.joinpath(name).read_bytes() for name in ("page.html", "page.css", "page.js"))
    parts = {b"{{style_hash}}": _hash(style), b"{{script_hash}}": _hash(script)}
    for name, value in {**parts, b"{{style}}": style, b"{{script}}": script}.items():
        page = page.replace(name, value)
    return page


def _hash(source: bytes) -> bytes:
    """How a content security policy names a script or style."""
    return b"sha256-" + b64encode(sha256(source).digest())
