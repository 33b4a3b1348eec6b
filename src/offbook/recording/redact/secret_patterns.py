"""The values of secret fields in a text, and the marks that replace secrets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter

from offbook.recording.redact.secret_kinds import PLAIN_MARK, SecretSpan

_ESCAPES = (0, 1, 2, 3, 6, 7)
_end = itemgetter(1)
_mark = re.compile(r"<redacted(?::[a-z0-9-]+:[0-9a-f]{8})?>")


def quoted_names(names: Iterable[str]) -> frozenset[bytes]:
    """Return the names as they are between quotes in JSON, in a str in JSON, and in a str in that."""
    return frozenset(name.encode() + b"\\" * escapes for name in names for escapes in _ESCAPES)


def field_patterns(names: Iterable[str]) -> list[re.Pattern[str]]:
    """Return patterns that find the values of fields with these names inside a text: in JSON, in JSON inside a str of
    other JSON, and in the repr of a dict. A value that breaks off extends to the end of the text."""
    named = "|".join(re.escape(name) for name in sorted(names))
    return [re.compile(_field_pattern(named, backslashes), re.IGNORECASE) for backslashes in (0, 1, 3)]


def _field_pattern(named: str, backslashes: int) -> str:
    quote = rf"\\{{{backslashes}}}(?P=quote)"
    closing = rf"(?<!\\)(?:\\{{{2 * backslashes + 2}}})*{quote}"
    value = rf"{quote}(?P<text>[\s\S]*?)(?:{closing}|\Z)|(?P<number>-?\d[\d.e+-]*)"
    return rf"""(?<!\\)\\{{{backslashes}}}(?P<quote>["'])(?P<name>{named}){quote}\s*:\s*(?:{value})"""


def field_spans(text: str, pattern: re.Pattern[str]) -> Iterator[SecretSpan]:
    """Yield the matches of one of the `field_patterns`. A number becomes a str, so that JSON stays valid."""
    for found in pattern.finditer(text):
        kind = f"field {found['name'].lower()}"
        if found["number"] is None:
            yield SecretSpan(*found.span("text"), kind)
        else:
            quote = text[found.start() : found.start("name")]
            yield SecretSpan(*found.span("number"), kind, quote + PLAIN_MARK + quote)


def is_mark(text: str) -> bool:
    """Return whether `text` is a mark and nothing else."""
    return _mark.fullmatch(text) is not None


def outside_marks(text: str, spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the spans in order, without what overlaps an earlier span or a mark in the text."""
    outside: list[SecretSpan] = []
    marks = [found.span() for found in _mark.finditer(text)]
    covered = 0
    for span in sorted(spans):
        for start, end in _clipped(max(span.start, covered), span.end, marks):
            outside.append(SecretSpan(start, end, span.kind, span.mark))
        covered = max(covered, span.end)
    return outside


def _clipped(start: int, end: int, marks: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that are outside the marks."""
    for mark_start, mark_end in marks[bisect_right(marks, start, key=_end) :]:
        if mark_start >= end:
            break
        if start < mark_start:
            yield start, mark_start
        start = mark_end
    if start < end:
        yield start, end


def put_marks(texts: list[str], spans: list[SecretSpan]) -> list[str]:
    """Replace the spans, whose positions count over all texts, by marks. A mark is put where its secret starts."""
    marked, offset, first = [], 0, 0
    for text in texts:
        pieces, done = [], 0
        while first < len(spans) and spans[first].end <= offset:
            first += 1
        for span in islice(spans, first, None):
            start, end = span.start - offset, span.end - offset
            if start >= len(text):
                break
            pieces += [text[done : max(start, 0)], span.mark if start >= 0 else ""]
            done = end
        marked.append("".join([*pieces, text[done:]]))
        offset += len(text)
    return marked
