"""Whether a result is what is left of another one, when part of an answer was lost and nobody minded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def is_nothing(result: Any) -> bool:
    """Whether a result says nothing: it is empty, or all that it has is."""
    if isinstance(result, str):
        return not result.strip()
    return result is None or (isinstance(result, dict | list) and not result)


def is_cut(result: Any, whole: Any) -> bool:
    """Whether `result` is `whole` with the ends of some texts missing, or all of them, and nothing else in it."""
    if result == whole or is_nothing(whole):
        return False
    if is_nothing(result):
        return True
    if isinstance(result, str) and isinstance(whole, str):
        return _is_cut_text(result, whole)
    if isinstance(result, dict) and isinstance(whole, dict) and result.keys() == whole.keys():
        return _are_cut([(result[name], whole[name]) for name in whole])
    if isinstance(result, list) and isinstance(whole, list) and len(result) == len(whole):
        return _are_cut(list(zip(result, whole, strict=True)))
    return False


def _is_cut_text(text: str, whole: str) -> bool:
    """Whether the text ends before the other does, or its lines before those of the other."""
    text, whole = text.strip(), whole.strip()
    if whole.startswith(text):
        return text != whole
    lines, whole_lines = text.splitlines(), whole.splitlines()
    pairs = list(zip(lines, whole_lines, strict=False))
    return len(lines) == len(whole_lines) and all(line.startswith(cut.strip()) for cut, line in pairs)


def _are_cut(pairs: Sequence[tuple[Any, Any]]) -> bool:
    return all(one == other or is_cut(one, other) for one, other in pairs)
