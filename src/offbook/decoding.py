"""Decodes JSON, MessagePack and plain values to declared types, in any thread."""

from __future__ import annotations

from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

from offbook.system import on_fork

T = TypeVar("T")

# msgspec builds what it knows of a Struct, and of all types in it, when it first decodes to it. If two threads do that
# at once, for one type or for two that have a third in common, the process crashes. So all types are built here, one
# after the other. A fork waits for that, or the lock would stay taken in the child, by a thread that it does not have.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_building = RLock()
on_fork(before=_building.acquire, after=_building.release)


@overload
def decode(data: bytes | bytearray | str | msgspec.Raw, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | bytearray | str | msgspec.Raw, kind: Any) -> Any: ...
def decode(data: bytes | bytearray | str | msgspec.Raw, kind: Any) -> Any:
    """Decode JSON to a value of this type. Raises like `msgspec.json.decode`."""
    return _decoder(kind).decode(data)


def decode_msgpack(data: bytes | memoryview, kind: type[T]) -> T:
    """Decode MessagePack to a value of this type. Raises like `msgspec.msgpack.decode`."""
    _decoder(kind)
    return msgspec.msgpack.decode(data, type=kind)


def convert(value: Any, kind: type[T]) -> T:
    """Convert plain values, as JSON and TOML have them, to a value of this type. Raises like `msgspec.convert`."""
    _decoder(kind)
    return msgspec.convert(value, kind)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder
