"""Unpacking a body that comes compressed though nobody asked for it."""

from __future__ import annotations

import zlib

_EITHER_HEADER = zlib.MAX_WBITS | 32
_KNOWN = frozenset(("gzip", "x-gzip", "deflate"))


class UnpackingError(Exception):
    """A body that is not packed as it says."""


class Unpacker:
    """Unpacks a body of gzip or deflate, piece by piece."""

    def __init__(self) -> None:
        self._inflating = zlib.decompressobj(_EITHER_HEADER)

    def unpack(self, data: bytes) -> bytes:
        """What `data` completes. Raises UnpackingError."""
        unpacked = []
        try:
            while data:
                unpacked.append(self._inflating.decompress(data))
                data = self._inflating.unused_data
                if self._inflating.eof:
                    self._inflating = zlib.decompressobj(_EITHER_HEADER)
        except zlib.error as error:
            raise UnpackingError(str(error)) from None
        return b"".join(unpacked)


def unpacker_of(content_encoding: str) -> Unpacker | None:
    """What unpacks bodies of this encoding, or None if nothing here does."""
    return Unpacker() if content_encoding.strip().lower() in _KNOWN else None
