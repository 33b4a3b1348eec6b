"""The values of secret fields and the personal data in a text, and the marks that replace secrets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Literal, TypeAlias, get_args

import orjson

from offbook.errors import InputError
from offbook.recording.redact.secret_kinds import PLAIN_MARK, SecretSpan, searchable, secret_spans
from offbook.text import suggestion

_ESCAPES = (0, 1, 2, 3, 6, 7)
_end = itemgetter(1)
_mark = re.compile(r"<redacted(?::[a-z0-9-]+:[0-9a-f]{8})?>")


def quoted_names(names: Iterable[str]) -> frozenset[bytes]:
    """Return the names as quoted in JSON, in a str in JSON, and in a str in that."""
    return frozenset(name.encode() + b"\\" * escapes for name in names for escapes in _ESCAPES)


class FieldPatterns:
    """Finds the values of fields with these names inside a text.

    It reads JSON, JSON inside a str of other JSON, and the repr of a dict. A truncated value extends to the end of the
    text.
    """

    def __init__(self, names: Iterable[str]) -> None:
        named = "|".join(re.escape(name) for name in sorted(names))
        self._quoted = re.compile(rf"""["'](?:{named})(?=[\\"'])""", re.IGNORECASE)
        self._patterns = {each: re.compile(_field_pattern(named, each), re.IGNORECASE) for each in (0, 1, 3)}

    def spans(self, text: str) -> Iterator[SecretSpan]:
        """Yield the values. A number becomes a str, so JSON stays valid."""
        covered = 0
        for place in self._quoted.finditer(text):
            found = self._match(text, place.start()) if place.start() >= covered else None
            if found is not None:
                covered = found.end()
                yield _field_span(text, found)

    def _match(self, text: str, quote: int) -> re.Match[str] | None:
        """Return the field whose name is quoted at that position."""
        for backslashes, pattern in self._patterns.items():
            if quote >= backslashes and (found := pattern.match(text, quote - backslashes)) is not None:
                return found
        return None


def _field_pattern(named: str, backslashes: int) -> str:
    quote = rf"\\{{{backslashes}}}(?P=quote)"
    closing = rf"(?<!\\)(?:\\{{{2 * backslashes + 2}}})*{quote}"
    value = rf"{quote}(?P<text>[\s\S]*?)(?:{closing}|\Z)|(?P<number>-?\d[\d.e+-]*)"
    return rf"""(?<!\\)\\{{{backslashes}}}(?P<quote>["'])(?P<name>{named}){quote}\s*:\s*(?:{value})"""


def _field_span(text: str, found: re.Match[str]) -> SecretSpan:
    kind = f"field {found['name'].lower()}"
    if found["number"] is None:
        return SecretSpan(*found.span("text"), kind)
    quote = text[found.start() : found.start("name")]
    return SecretSpan(*found.span("number"), kind, quote + PLAIN_MARK + quote)


MIN_NAMED_CHARS = 14


def named_spans(text: str, name: str) -> list[SecretSpan]:
    """Return the secrets of a text that its field name reveals."""
    before = f'{name}": "'
    return [
        SecretSpan(span.start - len(before), span.end - len(before), span.kind, span.mark)
        for span in secret_spans(before + text, searchable(before + text))
        if span.start >= len(before)
    ]


def credential_spans(text: str, credential: str) -> list[SecretSpan]:
    """Return where a credential is in a text."""
    spans, start = [], text.find(credential)
    while start >= 0:
        end = start + len(credential)
        spans.append(SecretSpan(start, end, "credential"))
        start = text.find(credential, end)
    return spans


def in_json(text: str) -> str:
    """Return a text as between JSON quotes."""
    return orjson.dumps(text).decode()[1:-1]


def is_mark(text: str) -> bool:
    """Return whether `text` is exactly a mark."""
    return _mark.fullmatch(text) is not None


def is_secret_value(value: Any) -> bool:
    """Return whether the value of a secret field is a secret: a number, or a non-empty str that is not a mark."""
    if isinstance(value, str):
        return bool(value) and not is_mark(value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def outside_marks(text: str, spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the spans in order, without overlaps with earlier spans or marks in the text."""
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


PersonalKind: TypeAlias = Literal["email", "phone", "card"]
Find: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]

_at = re.compile(r"@(?=[\w-]{1,63}\.)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_before_at = re.compile(r"[\w.!#$%&*+/=?^`{|}~'-]{1,64}\Z")
_phone = re.compile(
    r"(?<![\w.+-])(?:\+\d{1,3}|0\d{1,5}|\(0\d{1,5}\)|\(\d{3}\)|\d{3}(?=[-. ]\d{3}[-. ]\d{4}))"
    r"(?:[ ./-]?(?:\(\d{1,5}\)|\d{1,5})){1,6}(?![\w-])"
)
_card = re.compile(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4,6}){1,2}[ -]?\d{1,5}(?![\w-])")
_MAX_LOCAL_CHARS = 64
_PHONE_DIGITS = range(8, 16)
_CARD_DIGITS = range(13, 20)


def personal_rules(kinds: Iterable[str]) -> list[tuple[str, Find]]:
    """Return the rules for each kind of personal data.

    Raises:
        InputError: the kind is unknown.
    """
    for kind in kinds:
        if kind not in _FIND:
            hint = suggestion(kind, get_args(PersonalKind), kind="kinds")
            raise InputError(f"there is no kind of personal data {kind!r}", source="redaction", hint=hint)
    return [(kind, _FIND[kind]) for kind in dict.fromkeys(kinds)]


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for found in _at.finditer(text) if "@" in text else ():
        local = _before_at.search(text, max(0, found.start() - _MAX_LOCAL_CHARS), found.start())
        if local is not None:
            yield local.start(), found.end()


def _phones(text: str) -> Iterator[tuple[int, int]]:
    return (found.span() for found in _phone.finditer(text) if sum(map(str.isdigit, found[0])) in _PHONE_DIGITS)


def _cards(text: str) -> Iterator[tuple[int, int]]:
    return (found.span() for found in _card.finditer(text) if _has_check_digit(found[0]))


def _has_check_digit(text: str) -> bool:
    """Return whether the last digit satisfies Luhn's formula for card numbers."""
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[1::2])
    return len(digits) in _CARD_DIGITS and (sum(digits[::2]) + sum(doubled)) % 10 == 0


_FIND: dict[str, Find] = {"email": _emails, "phone": _phones, "card": _cards}
