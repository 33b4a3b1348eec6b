"""What a program says of the error that ends it."""

from __future__ import annotations

import re

SHOWN_CHARS = 500
_ERROR = re.compile(r"(?:Uncaught )?[\w.$]*(?:Error|Exception|Timeout|Interrupt|Fault)\b.*")


def last_words(stderr: str) -> str:
    """The last line that names an error, else the last line; empty if there is none."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.fullmatch(line)]
    return (named or lines or [""])[-1][:SHOWN_CHARS]
