"""What a plain word in a YAML file means, by the core schema of YAML 1.2."""

from __future__ import annotations

import re
from math import isfinite

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MAX_DIGITS = 19
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_value(word: str) -> str | int | float | bool | None:
    """The value of an unquoted word: only `true` and `false` are truth values, `yes`, `on` and `1:30` are texts.

    Raises:
        ValueError: it is a number that JSON cannot hold.
    """
    if word in NULLS:
        return None
    if word in BOOLEANS:
        return BOOLEANS[word]
    if _INTEGER.fullmatch(word):
        return _integer(word)
    if _NUMBER.fullmatch(word):
        return _finite(float(word), word)
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{word} is no number that can be used here")
    return word


def _integer(word: str) -> int:
    if len(word) > MAX_DIGITS + 2:
        raise ValueError(f"the number {word[:20]}… is too large")
    value = int(word, 0) if word[:2] in ("0o", "0x") else int(word)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the number {word} is too large")
    return value


def _finite(value: float, word: str) -> float:
    if not isfinite(value):
        raise ValueError(f"the number {word[:20]} is too large")
    return value
