"""Remembers what SDKs make of messages: in every call, they check every message of the conversation against its types.

That takes them some hundred microseconds for each, and a long conversation sends it many times. What they make of a
value depends on the value and its types alone, so it is kept by both: the value as bytes, and each caller gets a copy
of the result. A value that has a part of another than a plain type has no such bytes, and is left to the SDK.
"""

from __future__ import annotations

import inspect
import marshal
import sys
from collections.abc import Callable
from typing import Any

MODULES = ("openai._utils._transform",)
NAMES = ("_transform_recursive", "_async_transform_recursive")
PARAMETERS = ["data", "annotation", "inner_type"]
MAX_RESULTS, MAX_BYTES = 4096, 65_536
_VERSION = 2
"""The last format of `marshal` whose bytes do not depend on who else refers to the parts of a value."""

_Function = Callable[..., Any]
_Key = tuple[int, int, bytes]


def remember_transforms() -> None:
    """Let the SDKs that are loaded remember, unless their functions are others than those that are known here."""
    for name in MODULES:
        module = sys.modules.get(name)
        if module is not None and all(_is_known(module, each) for each in NAMES):
            memory = TransformMemory()
            for each, remembering in zip(NAMES, (memory.remembering, memory.remembering_async), strict=True):
                setattr(module, each, remembering(getattr(module, each)))


def _is_known(module: Any, name: str) -> bool:
    """Return whether a module has its own function of this name, and not a mock or instrumentation."""
    function = getattr(module, name, None)
    if not inspect.isfunction(function) or function.__code__.co_filename != module.__file__:
        return False
    return list(inspect.signature(function).parameters) == PARAMETERS


class TransformMemory:
    """What a function has made of the items of lists: only those have an `inner_type`."""

    def __init__(self) -> None:
        self._results: dict[_Key, bytes] = {}
        self._types: list[Any] = []

    def remembering(self, real: _Function) -> _Function:
        """Return the function, which calls the real one for what is not known."""

        def transform(data: Any, *, annotation: Any, inner_type: Any = None) -> Any:
            key = _key(data, annotation, inner_type)
            if key in self._results:
                return self._copy(key)
            return self._keep(key, real(data, annotation=annotation, inner_type=inner_type), annotation, inner_type)

        return transform

    def remembering_async(self, real: _Function) -> _Function:
        """Return the same for a coroutine function."""

        async def transform(data: Any, *, annotation: Any, inner_type: Any = None) -> Any:
            key = _key(data, annotation, inner_type)
            if key in self._results:
                return self._copy(key)
            made = await real(data, annotation=annotation, inner_type=inner_type)
            return self._keep(key, made, annotation, inner_type)

        return transform

    def _copy(self, key: _Key) -> Any:
        return marshal.loads(self._results[key])  # noqa: S302 - these are bytes of this process

    def _keep(self, key: _Key | None, result: Any, *types: Any) -> Any:
        """Keep a result, and its types, so that no others get their ids; return it."""
        if key is not None and len(self._results) < MAX_RESULTS:
            written = _bytes_of(result)
            if written is not None:
                self._results[key] = written
                self._types += types
        return result


def _key(data: Any, annotation: Any, inner_type: Any) -> _Key | None:
    """Return by what a result is kept; None if it is not."""
    written = _bytes_of(data) if inner_type is not None and type(data) is dict else None
    return None if written is None else (id(annotation), id(inner_type), written)


def _bytes_of(value: Any) -> bytes | None:
    try:
        written = marshal.dumps(value, _VERSION)
    except ValueError:
        return None
    return written if len(written) <= MAX_BYTES else None
