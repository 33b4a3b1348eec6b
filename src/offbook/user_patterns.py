"""Regular expressions that users write, in files, options and arguments. Matching them takes bounded time.

A backtracking engine can take exponential time for a pattern like `(a|a)*$`, and a pattern may come with a recording
that somebody else has made. The module `regex` reads the syntax of `re`, and can stop: each search has a time limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from offbook.errors import InputError
from offbook.text import shorten

if TYPE_CHECKING:
    import regex

MAX_PATTERN_CHARS = 10_000
ALLOWED_S = 1.0
ALLOWED_S_PER_CHAR = 5e-6
T = TypeVar("T")


class UserPattern:
    """A pattern that may take one second, and five microseconds for each character that it searches.

    What all searches take together is thereby linear in the size of what they search, whatever the pattern. The time
    is that of the processor: a busy machine changes nothing. Every method raises InputError if the time is over.
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
    """Compile a pattern, in the syntax of Python's `re`. `source` and `place` say where it is from.

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
