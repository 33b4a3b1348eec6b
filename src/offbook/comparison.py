"""Compares two values of a kind: their corresponding parts, the paths of differences, and their text.

Recordings, requests that a replay refuses, and the answers of live MCP servers are compared with these functions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, TypeVar

import msgspec
import orjson

from offbook.messages import JsonObject
from offbook.text import pluralize

K = TypeVar("K")
V = TypeVar("V")

SHOWN_LINES = 24
SHOWN_COLUMNS = 110
SHOWN_BEFORE = 40
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def paired(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield each name with both values, in the order of `old`, then of `new`; None for a missing name."""
    for name in dict.fromkeys([*old, *new]):
        yield name, old.get(name), new.get(name)


def nearest_pairs(scored: Iterable[tuple[float, int, int]]) -> dict[int, int]:
    """Return pairs of corresponding items of the left and the right, each at most once, the most similar first.

    `scored` has the similarity and both positions of each similar pair. Of equally similar pairs, those with nearer
    positions come first.
    """
    pairs, taken = dict[int, int](), set[int]()
    for _, left, right in sorted(scored, key=lambda pair: (pair[0], -abs(pair[1] - pair[2]), *pair[1:]), reverse=True):
        if left not in pairs and right not in taken:
            pairs[left] = right
            taken.add(right)
    return dict(sorted(pairs.items()))


def differing_leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two JSON values differ, with `[*]` for indexes, and both values.

    Texts that are JSON are compared as JSON. Lists of different lengths differ as a whole.
    """
    if old == new:
        return
    inner = _json_pair(old, new)
    if inner is not None:
        yield from differing_leaves(*inner, path)
    elif isinstance(old, dict) and isinstance(new, dict):
        for name, before, after in sorted(paired(old, new), key=lambda pair: pair[0]):
            yield from differing_leaves(before, after, f"{path}.{name}" if path else str(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from differing_leaves(before, after, f"{path}[*]")
    else:
        yield path, old, new


def _json_pair(old: Any, new: Any) -> tuple[Any, Any] | None:
    if not (isinstance(old, str) and isinstance(new, str) and old[:1] in "{[" and new[:1] in "{["):
        return None
    try:
        return orjson.loads(old), orjson.loads(new)
    except orjson.JSONDecodeError:
        return None


def difference_between(old: JsonObject | None, new: JsonObject) -> str:
    """Return the difference between two requests or answers, field by field and message by message, cut to one screen.

    `old` is None if the recorded entry lacks it.
    """
    if old is None:
        return "  (the entry does not have its request)"
    lines = [f"  {_UNPRINTABLE.sub('·', line)}"[:SHOWN_COLUMNS] for line in _difference(old, new)]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"  … {pluralize(len(lines) - SHOWN_LINES, 'more line')}"]
    if lines:
        return "\n".join(lines)
    is_redacted = "<redacted" in msgspec.json.encode(old).decode()
    why = ": the recorded request was redacted, and this one may have what was removed" if is_redacted else ""
    return f"  (nothing differs that can be shown{why})"


def _difference(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for name, before, after in sorted(paired(old, new), key=lambda pair: pair[0]):
        if name != "messages" and before != after:
            yield f"{name}:"
            yield from _changed_lines(_lines(before), _lines(after))
    messages = zip_longest(old.get("messages", ()), new.get("messages", ()))
    for index, (before, after) in enumerate(messages):
        if before != after:
            yield f"messages[{index}] ({(after or before or {}).get('role', 'no role')}):"
            yield from _changed_lines(_message_lines(before), _message_lines(after))


def _message_lines(message: JsonObject | None) -> list[str]:
    content = None if message is None else message.get("content")
    if message is not None and isinstance(content, str) and set(message) <= {"role", "content"}:
        return [f"{message.get('role')}:", *content.splitlines()]
    return _lines(message)


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode().splitlines()
    except orjson.JSONEncodeError:  # nested too deep to be indented: put it on one line
        return [msgspec.json.encode(value).decode()]


def _changed_lines(old: list[str], new: list[str]) -> Iterator[str]:
    changes = difflib.unified_diff(old, new, lineterm="", n=1)
    lines = [line for line in islice(changes, 2, None) if not line.startswith("@@")]
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if line.startswith("-") and after.startswith("+"):
            yield _from_change(line, after)
        elif line.startswith("+") and before.startswith("-"):
            yield _from_change(line, before)
        else:
            yield line


def _from_change(line: str, other: str) -> str:
    """Return a changed line without most of its long unchanged beginning."""
    pairs = enumerate(zip(line[1:], other[1:], strict=False))
    equal = next((place for place, (left, right) in pairs if left != right), 0)
    return f"{line[0]}…{line[1 + equal - SHOWN_BEFORE :]}" if equal > SHOWN_COLUMNS - SHOWN_BEFORE else line
