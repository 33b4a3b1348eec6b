"""Hints for names that are not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_LISTED = 20
CLOSE = 0.7


def did_you_mean(name: str, known: Iterable[str], *, kind: str = "") -> str:
    """The known name that is closest, or else all of them, listed as `kind`; empty if there is nothing to say."""
    names = sorted(set(known))
    if close := difflib.get_close_matches(name, names, n=1, cutoff=CLOSE):
        return f"did you mean {close[0]!r}?"
    if not kind:
        return ""
    if not names:
        return f"{kind}: none"
    more = ", …" if len(names) > MAX_LISTED else ""
    return f"{kind}: {', '.join(names[:MAX_LISTED])}{more}"
