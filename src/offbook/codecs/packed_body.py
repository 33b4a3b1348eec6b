"""Unpacks bodies by their content encoding, within bounds: gzip, deflate, and zstd and br by their packages."""

from __future__ import annotations

import zlib
from importlib import import_module

MAX_UNPACKED_BYTES = 64 * 1024 * 1024


class PackedBodyError(ValueError):
    """A body that cannot be unpacked: its encoding is unknown, it is broken, or it is too large."""


def unpack_body(body: bytes, content_encoding: str) -> bytes:
    """Return a body as it was before its `content-encoding`.

    Raises:
        PackedBodyError: it cannot be unpacked.
    """
    for name in reversed([name.strip() for name in content_encoding.lower().split(",")]):
        if name not in ("", "identity"):
            body = _unpack(name, body)
    return body


_PACKAGES = {"br": "brotli", "zstd": "zstandard"}


def _unpack(encoding: str, data: bytes) -> bytes:
    try:
        if encoding in ("gzip", "x-gzip", "deflate"):
            return _inflate(data)
        if encoding == "zstd":
            return _unpack_zstd(data)
        if encoding == "br":
            return _unpack_brotli(data)
    except ImportError:
        package = _PACKAGES[encoding]
        raise PackedBodyError(
            f"the encoding {encoding} needs the package {package}: install it, for example with pip install {package}"
        ) from None
    except PackedBodyError:
        raise
    except Exception as error:  # each package has errors of its own
        raise PackedBodyError(f"the body is not {encoding}: {error}") from None
    raise PackedBodyError(f"the encoding {encoding[:40]!r} is unknown")


def _inflate(data: bytes) -> bytes:
    is_raw = data[:2] != b"\x1f\x8b" and (len(data) < 2 or data[0] & 15 != 8 or (data[0] << 8 | data[1]) % 31)
    left, unpacked = data, b""
    while left:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
        unpacked += inflate.decompress(left, MAX_UNPACKED_BYTES + 1 - len(unpacked))
        _check_size(len(unpacked))
        if not inflate.eof:
            raise PackedBodyError("the body is cut off")
        left = inflate.unused_data
    return unpacked


def _unpack_zstd(data: bytes) -> bytes:
    zstandard, pieces, size = import_module(_PACKAGES["zstd"]), list[bytes](), 0
    while data:  # one frame after the other
        frame, start = zstandard.ZstdDecompressor().decompressobj(), 0
        while start < len(data) and not frame.eof:
            pieces.append(frame.decompress(data[start : start + _STEP]))
            start, size = start + _STEP, size + len(pieces[-1])
            _check_size(size)
        if not frame.eof:
            raise PackedBodyError("the body is cut off")
        data = frame.unused_data + data[start:]
    return b"".join(pieces)


def _unpack_brotli(data: bytes) -> bytes:
    decompressor, pieces, size = import_module(_PACKAGES["br"]).Decompressor(), list[bytes](), 0
    for start in range(0, len(data), _STEP):
        pieces.append(decompressor.process(data[start : start + _STEP]))
        size += len(pieces[-1])
        _check_size(size)
    if not decompressor.is_finished():
        raise PackedBodyError("the body is cut off")
    return b"".join(pieces)


def _check_size(size: int) -> None:
    if size > MAX_UNPACKED_BYTES:
        raise PackedBodyError(f"the body has more than {MAX_UNPACKED_BYTES:,} bytes when it is unpacked")


_STEP = 256
"""How many bytes are unpacked at a time: they can become many, but not all at once."""
