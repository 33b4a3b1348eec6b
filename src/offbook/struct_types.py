"""Types that msgspec decodes to, made ready for all threads.

msgspec builds what it knows of a Struct, and of all types in it, when it first decodes to it. If two threads do that at
once, for one type or for two that have a third in common, the process crashes. So every type passes through `ready`,
which builds it in one thread.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_ready: set[Any] = set()
_building = RLock()
# or the child of a fork might wait for a thread that it does not have
os.register_at_fork(before=_building.acquire, after_in_parent=_building.release, after_in_child=_building.release)


@overload
def ready(kind: type[T]) -> type[T]: ...
@overload
def ready(kind: Any) -> Any: ...
def ready(kind: Any) -> Any:
    """Return the type, which can then be given to a decoder or to `msgspec.convert` in any thread."""
    if kind not in _ready:
        with _building:
            msgspec.json.Decoder(kind)
            _ready.add(kind)
    return kind
