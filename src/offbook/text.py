"""Text for people: counts, money, excerpts and suggestions in messages; and patterns that people write."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from offbook.errors import InputError

if TYPE_CHECKING:
    import regex


MAX_LISTED = 20
CLOSE = 0.7
CHARS_PER_TOKEN = 4
_NOT_PLAIN = re.compile(r"[^ -~\n]")


def pluralize(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 exchange` or `2 exchanges`; with `nouns`, `1 entry` or `2 entries`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def format_usd(cost_usd: float) -> str:
    """Return `0.0123`, or `0.000012` if four digits are not enough, or "" without a cost."""
    if cost_usd == 0:
        return ""
    digits = max(4, 1 - math.floor(math.log10(abs(cost_usd))))
    return f"{cost_usd:.{digits}f}" if digits == 4 else f"{cost_usd:.{digits}f}".rstrip("0")


def call_text(tool: str, arguments: Mapping[str, Any], limit: int = 60) -> str:
    """Return a readable tool call: `refund(42)`, or `book(city=Oslo, nights=2)`."""
    values = {name: value if isinstance(value, str) else _json_text(value) for name, value in arguments.items()}
    only = len(values) == 1
    shown = (" ".join((value if only else f"{name}={value}").split()) for name, value in values.items())
    return shorten(f"{tool}({', '.join(shown)}", limit - 1) + ")"


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def estimate_tokens(chars: int) -> int:
    """Estimate the tokens of a text from its number of characters."""
    return math.ceil(chars / CHARS_PER_TOKEN)


def shorten(text: str, limit: int = 120) -> str:
    """Return `text`, cut to `limit` characters with `…` at the end if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def common_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the length of the common start of two texts or lists."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def path_text(parts: Iterable[str | int]) -> str:
    """Return a path in a document or in arguments, like `items[0].price`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def printable(text: str) -> str:
    """Return the text without terminal control characters. Line breaks stay."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def printable_json(document: str) -> str:
    """Return an equal JSON document with terminal control characters escaped."""
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), document)


def _escaped(letter: str) -> str:
    data = letter.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))


def printable_line(text: str) -> str:
    """Return the text without characters that could control a terminal, on one line."""
    return printable(text).replace("\n", " ")


_PASSWORD = re.compile(r"(rediss?://[^\s:@/]*:)\S*@", re.IGNORECASE)


def mask_password(text: str) -> str:
    """Return the text with `***` for the passwords in URLs of Redis."""
    return _PASSWORD.sub(r"\1***@", text) if "@" in text else text


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def did_you_mean(name: str, known: Iterable[str], *, kind: str = "") -> str:
    """Return the closest known name, else all of them, listed as `kind`, or ""."""
    names = sorted(set(known))
    return _closest(name, names) or (_list_names(names, kind) if kind else "")


def suggestion(name: str, known: Iterable[str], *, kind: str) -> str:
    """Return the closest known name, if one is close, and all of them, listed as `kind`."""
    names = sorted(set(known))
    return " ".join(filter(None, [_closest(name, names), _list_names(names, kind)]))


MAX_FILES = 5
_CLOSE_FILE = 0.6


def did_you_mean_file(path: str | os.PathLike[str], otherwise: str = "") -> str:
    """Return a hint for a missing path: the closest name in its folder, or else the files there with its suffix.

    `otherwise` is added, and is the whole hint if the path exists or nothing is similar.
    """
    with suppress(OSError, ValueError):  # a folder that cannot be read, or text that is no path
        if not Path(path).exists():
            near = _near_file(Path(path))
            return (
                f"{near}{' ' if near.endswith('?') else '; '}{otherwise}" if near and otherwise else near or otherwise
            )
    return otherwise


def shown_path(path: Path) -> Path:
    """Return the path relative to the working directory, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _near_file(missing: Path) -> str:
    folder = missing.parent
    shown = shown_path(folder)
    if not folder.is_dir():
        beside = [each.name for each in folder.parent.iterdir() if each.is_dir()] if folder.parent.is_dir() else []
        if close := closest_name(folder.name, beside, cutoff=_CLOSE_FILE):
            there = shown_path(folder.parent / close)
            return _near_file(folder.parent / close / missing.name) or f"did you mean the folder {str(there)!r}?"
        return f"there is no folder {str(shown)!r}"
    if (hidden := folder / f".{missing.name}").exists():
        return f"did you mean {str(shown / hidden.name)!r}?"
    names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if stem := closest_name(missing.stem, [Path(name).stem for name in names], cutoff=_CLOSE_FILE):
        close = closest_name(missing.name, [name for name in names if Path(name).stem == stem], cutoff=0.0)
        return f"did you mean {str(shown / close)!r}?"
    alike = [name for name in names if missing.suffix and name.endswith(missing.suffix)]
    more = ", …" if len(alike) > MAX_FILES else ""
    where = "" if str(shown) == "." else f" in {shown}"
    return f"{missing.suffix} files{where}: {', '.join(alike[:MAX_FILES])}{more}" if alike else ""


def _closest(name: str, names: list[str]) -> str:
    close = closest_name(name, names)
    return f"did you mean {close!r}?" if close else ""


def closest_name(name: str, names: Iterable[str], *, cutoff: float = CLOSE) -> str:
    """Return the closest known name, ignoring case, or ""."""
    import difflib  # noqa: PLC0415 - only errors need it

    folded = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[close[0]] if close else ""


def _list_names(names: list[str], kind: str) -> str:
    more = ", …" if len(names) > MAX_LISTED else ""
    return f"{kind}: {', '.join(names[:MAX_LISTED]) or 'none'}{more}"


MAX_PATTERN_CHARS = 10_000
ALLOWED_S = 1.0
ALLOWED_S_PER_CHAR = 5e-6
T = TypeVar("T")


class UserPattern:
    """A user's regular expression. It may take one second, and five microseconds for each character it searches.

    A backtracking engine can take exponential time for a pattern like `(a|a)*$`, and a pattern may come with somebody
    else's recording. The module `regex` reads the syntax of `re`, and can stop.

    The time of all searches together is thereby linear in the size of the searched text. It is processor time,
    independent of other load. Every method raises InputError if it is exceeded.
    """

    def __init__(self, pattern: regex.Pattern[str], *, allowed_s: float = ALLOWED_S) -> None:
        self.text: str = pattern.pattern
        self._pattern = pattern
        self._left_s = self._allowed_s = allowed_s

    def sub(self, replacement: str, text: str) -> str:
        """Return `text` with `replacement` instead of each match."""
        return self._search(text, lambda limit_s: self._pattern.sub(lambda _: replacement, text, timeout=limit_s))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the end of each match."""
        return self._search(
            text, lambda limit_s: [found.span() for found in self._pattern.finditer(text, timeout=limit_s)]
        )

    def is_in(self, text: str) -> bool:
        """Return whether `text` contains a match."""
        return self._search(text, lambda limit_s: self._pattern.search(text, timeout=limit_s) is not None)

    def _search(self, text: str, search: Callable[[float], T]) -> T:
        limit_s = self._left_s + len(text) * ALLOWED_S_PER_CHAR
        started_s = time.thread_time()
        try:
            return search(limit_s)
        except (TimeoutError, MemoryError) as error:
            problem = "time" if isinstance(error, TimeoutError) else "memory"
            raise InputError(
                f"the pattern {shorten(self.text)!r} takes too much {problem}",
                hint="do not repeat what can match the same text in several ways, like (a+)+ or (a|a)*",
            ) from None
        finally:
            self._left_s = min(self._allowed_s, max(0.0, limit_s - (time.thread_time() - started_s)))


def compile_pattern(text: str, *, source: str = "", place: str = "") -> UserPattern:
    """Compile a pattern, in the syntax of Python's `re`. `source` and `place` are its origin.

    Raises:
        InputError: it is not a regular expression, or too long.
    """
    try:
        return _compile(text)
    except ValueError as error:
        raise InputError(f"invalid pattern {shorten(text)!r}: {error}", source=source, place=place) from None


@lru_cache(maxsize=512)
def _compile(text: str) -> UserPattern:
    import regex  # noqa: PLC0415 - most runs have no patterns

    if len(text) > MAX_PATTERN_CHARS:
        raise ValueError(f"more than {MAX_PATTERN_CHARS:,} characters")
    try:
        return UserPattern(regex.compile(text, regex.VERSION0))
    except RecursionError:
        raise ValueError("nested too deep") from None
    except (regex.error, OverflowError) as error:
        raise ValueError(str(error)) from None


def replace_spans(texts: list[str], spans: Sequence[tuple[int, int, str]]) -> list[str]:
    """Replace spans, whose positions count over all texts and come in order, each where it starts."""
    replaced, offset, first = [], 0, 0
    for text in texts:
        pieces, done = [], 0
        while first < len(spans) and spans[first][1] <= offset:
            first += 1
        for span_start, span_end, new in islice(spans, first, None):
            start, end = span_start - offset, span_end - offset
            if start >= len(text):
                break
            pieces += [text[done : max(start, 0)], new if start >= 0 else ""]
            done = end
        replaced.append("".join([*pieces, text[done:]]))
        offset += len(text)
    return replaced
