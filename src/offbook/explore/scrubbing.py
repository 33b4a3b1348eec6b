"""Taking out of a text what is another in every run: ports, temporary folders, addresses of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


def scrubbed(text: str, names: Mapping[str, str] | None = None) -> str:
    """The text with other `names` for what is named there, longest first, and without addresses of objects."""
    for name in sorted(names or {}, key=len, reverse=True):
        text = text.replace(name, (names or {})[name])
    return _ADDRESS.sub("0x…", text)
