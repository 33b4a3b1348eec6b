"""Formats counts, money, ordinals, excerpts and suggestions for commands, reports and error messages."""

import math
import re
from collections.abc import Iterable

MAX_LISTED = 20
CLOSE = 0.7
CHARS_PER_TOKEN = 4
_NOT_PLAIN = re.compile(r"[^ -~\n]")


def pluralize(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 exchange` or `2 exchanges`; with `nouns`, `1 entry` or `2 entries`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def format_usd(cost_usd: float) -> str:
    """Return `0.0123`, or `0.000012` if four digits are not enough; empty if there was no cost."""
    if cost_usd == 0:
        return ""
    digits = max(4, 1 - math.floor(math.log10(abs(cost_usd))))
    return f"{cost_usd:.{digits}f}" if digits == 4 else f"{cost_usd:.{digits}f}".rstrip("0")


def estimate_tokens(chars: int) -> int:
    """Return about how many tokens a text of that many characters has."""
    return math.ceil(chars / CHARS_PER_TOKEN)


def shorten(text: str, limit: int = 120) -> str:
    """Return `text`, cut to `limit` characters with `…` at the end if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def printable(text: str) -> str:
    """Return the text without characters that could control a terminal. Line breaks stay."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def printable_json(document: str) -> str:
    """Return a JSON document with characters that could control a terminal escaped. It means the same."""
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), document)


def _escaped(letter: str) -> str:
    data = letter.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))


def printable_line(text: str) -> str:
    """Return the text without characters that could control a terminal, on one line."""
    return printable(text).replace("\n", " ")


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def did_you_mean(name: str, known: Iterable[str], *, kind: str = "") -> str:
    """Return the closest known name, else all of them, listed as `kind`; empty if there is neither."""
    names = sorted(set(known))
    return _closest(name, names) or (_list_names(names, kind) if kind else "")


def suggestion(name: str, known: Iterable[str], *, kind: str) -> str:
    """Return the closest known name, if one is close, and all of them, listed as `kind`."""
    names = sorted(set(known))
    return " ".join(filter(None, [_closest(name, names), _list_names(names, kind)]))


def _closest(name: str, names: list[str]) -> str:
    import difflib  # noqa: PLC0415 - only errors need it

    close = difflib.get_close_matches(name, names, n=1, cutoff=CLOSE)
    return f"did you mean {close[0]!r}?" if close else ""


def _list_names(names: list[str], kind: str) -> str:
    more = ", …" if len(names) > MAX_LISTED else ""
    return f"{kind}: {', '.join(names[:MAX_LISTED]) or 'none'}{more}"
