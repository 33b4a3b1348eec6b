"""A call that came over HTTP, as it came."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class HttpCall(Struct, frozen=True, gc=False):
    """One HTTP request. `path` starts with a slash and has no query; the names of headers are lower-case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def attempt(self) -> int | None:
        """Which try of its call this is, from 1, if the client says so."""
        count = self.headers.get("x-stainless-retry-count", "")
        return int(count) + 1 if count.isascii() and count.isdigit() and len(count) < 6 else None
