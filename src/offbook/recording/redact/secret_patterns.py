"""The patterns that secrets match in a text, and the marks that replace them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256
from operator import itemgetter

from msgspec import Struct

_WORD = r"(?:[A-Z][a-z]{0,20}+|[a-z]{1,20}+)"
_JOINT = r"(?:[-_./]|\\{1,3}/)"
_PROSE = rf"(?!{_WORD}(?:{_JOINT}++{_WORD}){{0,50}}+{_JOINT}*+(?![\w~+=-]|\\{{1,3}}u002))"
"""Does not match words joined by hyphens and the like, which are not random."""

_ESCAPED = r"\\{1,3}(?:/|u002[BbFf])"
"""A slash or plus that is escaped in JSON."""

SECRET_PATTERNS = {
    "anthropic-key": rf"sk-ant-{_PROSE}[A-Za-z0-9_-]{{16,}}",
    "openai-key": rf"sk-(?!ant-){_PROSE}(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{{16,}}",
    "google-key": r"AIza[A-Za-z0-9_-]{30,}",
    "aws-key": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    "github-token": r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "gitlab-token": r"glpat-[A-Za-z0-9_-]{20,}",
    "slack-token": rf"xox[abeoprs]-{_PROSE}[A-Za-z0-9-]{{10,}}",
    "hugging-face-token": r"hf_[A-Za-z0-9]{30,}",
    "groq-key": r"gsk_[A-Za-z0-9]{30,}",
    "xai-key": r"xai-[A-Za-z0-9]{30,}",
    "stripe-key": r"(?:sk|rk)_live_[A-Za-z0-9]{16,}",
    "json-web-token": r"eyJ[A-Za-z0-9_-]{10,4096}\.eyJ[A-Za-z0-9_-]{10,16384}\.[A-Za-z0-9_-]{10,}",
    "bearer-token": rf"(?i:bearer) {{1,9}}{_PROSE}(?:[A-Za-z0-9._~+/-]|{_ESCAPED}){{16,}}=*",
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    rf"(?:[\s\S]{{1,16384}}?-----END [A-Z ]*PRIVATE KEY-----|(?:(?:\s|\\[nr])+(?:[A-Za-z0-9+/=]|{_ESCAPED}){{16,}})+)",
}

PLAIN_MARK = "<redacted>"
_BEGINNINGS = (b"AIza", b"AKIA", b"ASIA", b"eyJ", b" PRIVATE KEY-----")
_BEFORE_HYPHEN = (b"sk", b"xai", b"glpat", *(b"xox" + bytes([letter]) for letter in b"abeoprs"))
_BEFORE_UNDERSCORE = (*(b"gh" + bytes([letter]) for letter in b"pousr"), b"pat", b"hf", b"gsk", b"live")
_JOINTS = "|".join(
    f"(?<={joint})"
    for joint in ("sk-", "xai-", "glpat-", "xox[abeoprs]-", "gh[pousr]_", "github_pat_", "hf_", "gsk_", "[sr]k_live_")
)
_joints = re.compile(rf"[-_](?:{_JOINTS})(?=[A-Za-z0-9_-]{{10}})".encode())
_ESCAPES = (0, 1, 2, 3, 6, 7)
_end = itemgetter(1)
_mark = re.compile(r"<redacted(?::[a-z-]+:[0-9a-f]{8})?>")
_start = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
_secrets = re.compile(
    _start + "(?:" + "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in SECRET_PATTERNS.items()) + ")"
)


class SecretSpan(Struct, frozen=True, order=True):
    """A secret in a text: its start and end, its kind, and the mark that replaces it."""

    start: int
    end: int
    kind: str
    mark: str = PLAIN_MARK


def may_hold_secrets(data: bytes) -> bool:
    """Return whether JSON could have a secret that matches a well-known pattern. Quick; False is always right."""
    for beginning in _BEGINNINGS:
        if beginning in data:
            return True
    if b"bearer " in data.lower():
        return True
    is_joined = _has_joint(data, b"-", _BEFORE_HYPHEN) or _has_joint(data, b"_", _BEFORE_UNDERSCORE)
    return is_joined and _joints.search(data) is not None


def _has_joint(data: bytes, separator: bytes, before: tuple[bytes, ...]) -> bool:
    """Return whether one of `before` precedes the separator; many times quicker than a regular expression."""
    for piece in data.split(separator):  # noqa: SIM110 - a generator would double the time
        if piece.endswith(before):
            return True
    return False


def quoted_names(names: Iterable[str]) -> frozenset[bytes]:
    """Return the names as they are between quotes in JSON, in a str in JSON, and in a str in that."""
    return frozenset(name.encode() + b"\\" * escapes for name in names for escapes in _ESCAPES)


def may_hold_fields(data: bytes, quoted: frozenset[bytes]) -> bool:
    """Return whether JSON could have a field of one of the `quoted_names`. False is always right."""
    return not quoted.isdisjoint(data.lower().replace(b"'", b'"').split(b'"'))


def secret_spans(text: str) -> Iterator[SecretSpan]:
    """Yield the secrets that match a well-known pattern. Equal secrets have the same mark."""
    for found in _secrets.finditer(text):
        kind = str(found.lastgroup).replace("_", "-")
        digest = sha256(found[0].replace("\\/", "/").encode("utf-8", "replace")).hexdigest()[:8]
        yield SecretSpan(*found.span(), kind, f"<redacted:{kind}:{digest}>")


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
    marked, offset = [], 0
    for text in texts:
        pieces, done = [], 0
        for span in spans:
            start, end = span.start - offset, span.end - offset
            if end > 0 and start < len(text):
                pieces += [text[done : max(start, 0)], span.mark if start >= 0 else ""]
                done = end
        marked.append("".join([*pieces, text[done:]]))
        offset += len(text)
    return marked
