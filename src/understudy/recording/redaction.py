"""Keeping secrets out of recordings: what looks like one is replaced by a mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import replace

from understudy.errors import InputError
from understudy.recording.exchange import ABSENT, CallPiece, Exchange, Piece, TimedPiece

SECRET_SHAPES = {
    "anthropic-key": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "openai-key": r"sk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{16,}",
    "google-key": r"AIza[A-Za-z0-9_-]{30,}",
    "aws-key": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "github-token": r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "gitlab-token": r"glpat-[A-Za-z0-9_-]{20,}",
    "slack-token": r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "hugging-face-token": r"hf_[A-Za-z0-9]{30,}",
    "groq-key": r"gsk_[A-Za-z0-9]{30,}",
    "xai-key": r"xai-[A-Za-z0-9]{30,}",
    "stripe-key": r"(?:sk|rk)_live_[A-Za-z0-9]{16,}",
    "json-web-token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "bearer-token": r"(?i:bearer) +(?!<redacted)[A-Za-z0-9._~+/-]{16,}=*",
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----",
}
SECRET_FIELDS = frozenset(
    (
        *("authorization", "proxy-authorization", "x-api-key", "api-key", "api_key", "apikey", "x-goog-api-key"),
        *("cookie", "set-cookie", "openai-organization", "access_token", "refresh_token", "client_secret", "password"),
    )
)
_BEGINNINGS = (
    *(
        b"sk-",
        b"aiza",
        b"akia",
        b"asia",
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
        b"github_pat_",
        b"glpat-",
        b"xox",
    ),
    *(b"hf_", b"gsk_", b"xai-", b"k_live_", b"eyj", b"bearer ", b"private key-----"),
)
_shapes = re.compile("|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in SECRET_SHAPES.items()))


class Finding(Struct, frozen=True):
    """Something that looks like a secret: where it stands, and what kind it is."""

    path: str
    kind: str


class Redactor:
    """Replaces secrets: the well-known shapes and fields, and what a user adds.

    Args:
        patterns: further regular expressions; what they match becomes `<redacted>`.
        fields: further names of JSON fields whose values become `<redacted>`, in any case.

    A secret of a well-known shape becomes `<redacted:kind:digest>`, the same mark for the same secret.
    """

    def __init__(self, *, patterns: tuple[str, ...] = (), fields: tuple[str, ...] = ()) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._fields = SECRET_FIELDS | {name.lower() for name in fields}
        self._field_marks = tuple(b'"' + name.encode() + b'"' for name in self._fields)

    def redact(self, exchange: Exchange) -> Exchange:
        """The exchange without secrets; the same object if it holds none."""
        if not self._suspicious(msgspec.json.encode(exchange)):
            return exchange
        return replace(
            exchange,
            content=self.text(exchange.content),
            reasoning=exchange.reasoning and self.text(exchange.reasoning),
            tool_calls=exchange.tool_calls
            and [replace(call, arguments=self.value(call.arguments)) for call in exchange.tool_calls],
            chunks=exchange.chunks and self._chunks(exchange.chunks),
            fault=exchange.fault
            and msgspec.convert(self.value(msgspec.to_builtins(exchange.fault)), type(exchange.fault)),
            request=self._raw(exchange.request),
            wire=self._raw(exchange.wire),
        )

    def value(self, value: Any, field: str = "") -> Any:
        """A JSON value without secrets."""
        if isinstance(value, str):
            return self.text(value) if field not in self._fields or is_mark(value) else "<redacted>"
        if isinstance(value, dict):
            return {name: self.value(item, str(name).lower()) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, field) for item in value]
        return value

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self._substituted(text, lambda mark, _: mark)

    def findings(self, exchange: Exchange) -> list[Finding]:
        """What in the exchange looks like a live secret."""
        data = msgspec.json.encode(exchange)
        if not self._suspicious(data):
            return []
        return list(self._search(msgspec.json.decode(data), "", ""))

    def _search(self, value: Any, path: str, field: str) -> Iterator[Finding]:
        if isinstance(value, str):
            if field in self._fields and value and not is_mark(value):
                yield Finding(path, f"field {field}")
            elif (kind := self._kind_in(value)) is not None:
                yield Finding(path, kind)
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from self._search(item, f"{path}.{name}" if path else name, str(name).lower())
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._search(item, f"{path}[{index}]", field)

    def _kind_in(self, text: str) -> str | None:
        if found := _shapes.search(text):
            return _kind(found)
        return next(("user pattern" for pattern in self._patterns if pattern.search(text)), None)

    def _suspicious(self, data: bytes) -> bool:
        """Quick to say no: whether a closer look could find anything."""
        lowered = data.lower()
        return (
            any(mark in lowered for mark in _BEGINNINGS)
            or any(mark in lowered for mark in self._field_marks)
            or any(pattern.search(data.decode()) for pattern in self._patterns)
        )

    def _raw(self, raw: Raw) -> Raw:
        return Raw(orjson.dumps(self.value(msgspec.json.decode(raw)))) if bytes(raw) else ABSENT

    def _substituted(self, text: str, put: Callable[[str, re.Match[str]], str]) -> str:
        text = _shapes.sub(lambda found: put(_mark(found), found), text)
        for pattern in self._patterns:
            text = pattern.sub(lambda found: put("<redacted>", found), text)
        return text

    def _chunks(self, chunks: list[TimedPiece]) -> list[TimedPiece]:
        """The chunks without secrets, also those that are spread over several chunks of one kind."""
        texts = [_text_of(piece) for _, piece in chunks]
        for kind in {_kind_of(piece) for _, piece in chunks}:
            places = [place for place, (_, piece) in enumerate(chunks) if _kind_of(piece) == kind]
            cleaned = self._spread([texts[place] for place in places])
            for place, text in zip(places, cleaned, strict=True):
                texts[place] = text
        return [(at_ms, _with_text(piece, text)) for (at_ms, piece), text in zip(chunks, texts, strict=True)]

    def _spread(self, texts: list[str]) -> list[str]:
        """The texts redacted as one; a mark stands in the text in which its secret began."""
        joined = "".join(texts)
        if self.text(joined) == joined:
            return texts
        owners = [place for place, text in enumerate(texts) for _ in text]
        letters: list[list[str]] = [[] for _ in texts]
        covered = 0
        for start, end, mark in sorted(self._spans(joined)):
            for position in range(covered, start):
                letters[owners[position]].append(joined[position])
            if start >= covered:
                letters[owners[start]].append(mark)
            covered = max(covered, end)
        for position in range(covered, len(joined)):
            letters[owners[position]].append(joined[position])
        return ["".join(kept) for kept in letters]

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        for found in _shapes.finditer(text):
            yield *found.span(), _mark(found)
        for pattern in self._patterns:
            for found in pattern.finditer(text):
                yield *found.span(), "<redacted>"


def is_mark(text: str) -> bool:
    """Whether `text` is a mark that redaction has left."""
    return text.startswith("<redacted") or text.lower().startswith("bearer <redacted")


def _kind(found: re.Match[str]) -> str:
    return str(found.lastgroup).replace("_", "-")


def _mark(found: re.Match[str]) -> str:
    return f"<redacted:{_kind(found)}:{sha256(found[0].encode()).hexdigest()[:8]}>"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(f"cannot read the pattern {pattern!r}: {error}", source="redaction") from None


def _text_of(piece: str | Piece) -> str:
    if isinstance(piece, str):
        return piece
    return piece.tool_call.arguments if piece.tool_call is not None else piece.reasoning or ""


def _kind_of(piece: str | Piece) -> tuple[str, int]:
    if isinstance(piece, str):
        return "text", 0
    return ("call", piece.tool_call.index) if piece.tool_call is not None else ("reasoning", 0)


def _with_text(piece: str | Piece, text: str) -> str | Piece:
    if isinstance(piece, str):
        return text
    if piece.tool_call is None:
        return Piece(reasoning=text)
    call = piece.tool_call
    return Piece(tool_call=CallPiece(call.index, call.id, call.name, text))
