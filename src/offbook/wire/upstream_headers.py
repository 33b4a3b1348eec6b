"""Which headers go upstream, and which come back from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    )
)
_OURS = b"x-offbook-"
_REPLACED = frozenset((b"host", b"content-length", b"accept-encoding"))
_KEYS = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key"))


def forwarded(headers: Iterable[tuple[bytes, bytes]], *, auth: Mapping[str, str] | None = None) -> RawHeaders:
    """The headers of a client's request, for upstream. With `auth`, those that carry a key are replaced by it."""
    kept = [
        (name, value)
        for name, value in _end_to_end(headers)
        if name not in _REPLACED and not name.startswith(_OURS) and (auth is None or name not in _KEYS)
    ]
    present = {name for name, _ in kept}
    added = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (auth or {}).items()]
    return [*kept, *(header for header in added if header[0] not in present), (b"accept-encoding", b"identity")]


def returned(headers: Iterable[tuple[bytes, bytes]], *, is_unpacked: bool) -> RawHeaders:
    """The headers of upstream's answer, for the client. What tells how bytes were packed goes if they no longer are."""
    told = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in told)
    dropped = [b"content-length"] if is_unpacked or is_chunked else []
    dropped += [b"content-encoding"] if is_unpacked else []
    return [(name, value) for name, value in _end_to_end(told) if name not in dropped]


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers with names in lower case, without those that concern one connection alone."""
    lowered = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    named = {token.strip().lower() for name, value in lowered if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]
