"""Changes valid input at random: its bytes, its words, and the values of its JSON. The lot decides everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

Mutation: TypeAlias = Callable[[bytes, Sequence[bytes], Random], bytes]

MOST_CHANGES = 4
LONGEST = 200_000
_WORDS = re.compile(rb"[A-Za-z_]+|\d+|\s+|[^\w\s]")
NASTY_WORDS = (
    *(b"", b"0", b"-1", b"1e400", b"-1e400", b"NaN", b"Infinity", b"9223372036854775808", b"9" * 5000, b"0x10", b"1_0"),
    *(b"null", b"~", b"true", b"yes", b'""', b"''", b"[]", b"{}", b"[", b"}", b'"', b"'", b'"""', b":", b"- ", b"?"),
    *(
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\u0000",
        b"\xe2\x80\xae",
        b"\xef\xbb\xbf",
        b"\x1b[2J",
        b"\x85",
    ),
    *(
        b"\r",
        b"\n",
        b"\r\n\r\n",
        b"\t",
        b"&a",
        b"*a",
        b"<<",
        b"!!python/object:os.system",
        b"%s",
        b"{{",
        b"}}",
        b"${x}",
    ),
    *(b"[" * 3000, b'{"a":' * 3000, b"(" * 3000, b"((a+)+)+$", b"a" * 3000, b"../" * 40, b"/dev/zero", b"1970-01-01"),
)
NASTY_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400),
    *("", "x", "\0", "\ud800", "\u202e", "0", "null", "a" * 5000, "((a+)+)+$", "../../etc/passwd", "\x1b[2J", "1e400"),
    *([], {}, [None], [[]], {"": None}, ["x"] * 2000),
)
_DEEP = "deep"


def mutate(corpus: Sequence[bytes], lot: Random) -> bytes:
    """Return one of the corpus with one to four changes."""
    data = lot.choice(corpus)
    for _ in range(lot.randint(1, MOST_CHANGES)):
        data = lot.choice(_MUTATIONS)(data, corpus, lot)[:LONGEST]
    return data


def _flip(data: bytes, _: Sequence[bytes], lot: Random) -> bytes:
    """Replace a few bytes by others."""
    changed = bytearray(data)
    for _number in range(lot.randint(1, 4) if changed else 0):
        changed[lot.randrange(len(changed))] = lot.randrange(256)
    return bytes(changed)


def _cut(data: bytes, _: Sequence[bytes], lot: Random) -> bytes:
    """Remove a part, often the end."""
    start, end = _span(data, lot)
    return data[:start] + (data[end:] if lot.random() < 0.6 else b"")


def _repeat(data: bytes, _: Sequence[bytes], lot: Random) -> bytes:
    """Have a part twice, or often."""
    start, end = _span(data, lot)
    return data[:end] + data[start:end] * lot.choice((1, 1, 2, 50)) + data[end:]


def _splice(data: bytes, corpus: Sequence[bytes], lot: Random) -> bytes:
    """Put a part of another valid input in the place of a part."""
    other = lot.choice(corpus)
    (start, end), (other_start, other_end) = _span(data, lot), _span(other, lot)
    return data[:start] + other[other_start:other_end] + data[end:]


def _change_words(data: bytes, corpus: Sequence[bytes], lot: Random) -> bytes:
    """Remove, repeat, exchange or replace words, numbers and marks."""
    words = _WORDS.findall(data) or [b""]
    for _number in range(lot.randint(1, 3)):
        place = lot.randrange(len(words))
        words[place] = lot.choice((b"", words[place] * 2, lot.choice(words), _new_word(corpus, lot)))
    return b"".join(words)


def _new_word(corpus: Sequence[bytes], lot: Random) -> bytes:
    """Return what readers find difficult, or a word of another valid input."""
    if lot.random() < 0.7:
        return lot.choice(NASTY_WORDS)
    words: list[bytes] = _WORDS.findall(lot.choice(corpus))
    return lot.choice(words or [b""])


def _change_json(data: bytes, corpus: Sequence[bytes], lot: Random) -> bytes:
    """Change one value, field or item of a JSON document, or of one line of it; words if there is none."""
    lines = data.split(b"\n")
    for place in (None, lot.randrange(len(lines))):
        try:
            document = json.loads(data if place is None else lines[place].removeprefix(b"data: "))
        except (ValueError, RecursionError):
            continue
        changed = _as_json(_with_change(document, lot))
        if place is None:
            return changed
        prefix = b"data: " if lines[place].startswith(b"data: ") else b""
        return b"\n".join([*lines[:place], prefix + changed, *lines[place + 1 :]])
    return _change_words(data, corpus, lot)


def _with_change(document: Any, lot: Random) -> Any:
    """Change the document at a random place: the deeper, the likelier."""
    holders = [holder for holder in _holders(document) if holder]
    if not holders or lot.random() < 0.03:
        return _new_value(document, lot)
    holder = lot.choice(holders)
    if isinstance(holder, list):
        _change_item(holder, lot)
    else:
        _change_field(holder, lot)
    return document


def _change_item(items: list[Any], lot: Random) -> None:
    place = lot.randrange(len(items))
    kind = lot.randrange(4)
    if kind == 0:
        del items[place]
    elif kind == 1:
        items.insert(place, items[lot.randrange(len(items))])
    else:
        items[place] = _new_value(items[place], lot)


def _change_field(fields: dict[str, Any], lot: Random) -> None:
    names = sorted(fields)
    name, kind = lot.choice(names), lot.randrange(6)
    if kind == 0:
        del fields[name]
    elif kind == 1:
        fields[lot.choice(("", "_meta", "type", name + "x", name.upper(), "\ud800", "a" * 500))] = fields.pop(name)
    elif kind == 2:
        fields[name] = fields[lot.choice(names)]
    else:
        fields[name] = _new_value(fields[name], lot)


def _new_value(value: Any, lot: Random) -> Any:
    kind = lot.randrange(5)
    if kind == 0:
        return [value]
    if kind == 1:
        return {lot.choice(("a", "type", "id", "content")): value}
    if kind == 2 and isinstance(value, str):
        return lot.choice((value + "\0", value[:1], value * 3, value.upper(), value + "\ud800", [value, value]))
    if kind == 2 and isinstance(value, int | float):
        return lot.choice((-value, value * 2, str(value), [value, 0.5], 10**30))
    return {_DEEP: lot.randint(200, 3000)} if lot.random() < 0.03 else lot.choice(NASTY_VALUES)


def _holders(value: Any) -> list[Any]:
    """Return all lists and objects in a value."""
    found, waiting = [], [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            found.append(holder)
            waiting += holder.values() if isinstance(holder, dict) else holder
    return found


def _as_json(document: Any) -> bytes:
    """Return JSON as nobody should write it: with lone surrogates, numbers that are none, and endless nesting."""
    text = json.dumps(document, ensure_ascii=True)
    return re.sub(r'\{"deep": (\d+)\}', _nested, text).encode()


def _nested(depth: re.Match[str]) -> str:
    return "[" * int(depth[1]) + "]" * int(depth[1])


def _span(data: bytes, lot: Random) -> tuple[int, int]:
    """Return the start and end of a part, mostly a short one."""
    start = lot.randrange(len(data) + 1)
    length = lot.choice((1, 4, 20, 100, len(data)))
    return start, min(len(data), start + lot.randint(0, length))


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _cut, _repeat, _splice),
    *([_change_words] * 3),
    *([_change_json] * 5),
)
