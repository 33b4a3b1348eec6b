"""Replaces the body of a function. The function stays the same object for everyone with a reference to it.

A wrapper would be missed by earlier imports, and frameworks that read annotations, sources or closures would find it.
Only the code object is exchanged: name, module, globals, annotations and signature stay. The new code holds the
replacement as a constant, because it cannot use a global of the program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_Body = Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], Any]

_BODY = "body"


def _stub(*args: Any, **kwargs: Any) -> Any:
    body: Any = "body"  # the constant is replaced
    return body(args, kwargs)


async def _async_stub(*args: Any, **kwargs: Any) -> Any:
    body: Any = "body"
    return await body(args, kwargs)


def replace_body(function: FunctionType, body: _Body) -> FunctionType | None:
    """Let calls of a function call `body` instead, with the original function, the arguments and the keywords.

    The body of a coroutine function returns an awaitable. Returns the original function, or None for a generator, whose
    calls run when they are iterated over.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return None
    signature = _signature_of(function)
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__, original.__qualname__ = function.__kwdefaults__, function.__qualname__
    original.__module__, original.__dict__ = function.__module__, dict(function.__dict__)
    function.__code__ = _code_of(function, lambda args, kwargs: body(original, args, kwargs))
    function.__signature__ = signature  # type: ignore[attr-defined]
    return original


def _signature_of(function: FunctionType) -> inspect.Signature:
    """Return the signature, with annotations resolved from strings if possible.

    `inspect.signature` returns an explicitly set signature unchanged, even if asked to resolve the annotations.
    """
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:
        return inspect.signature(function)


def _code_of(function: FunctionType, body: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> CodeType:
    """Return code that calls `body`, at the place of the function in its file."""
    stub = _async_stub if inspect.iscoroutinefunction(function) else _stub
    code, before = stub.__code__, function.__code__
    return code.replace(
        co_consts=tuple(body if each == _BODY else each for each in code.co_consts),
        co_freevars=before.co_freevars,
        co_name=before.co_name,
        co_qualname=before.co_qualname,
        co_filename=before.co_filename,
        co_firstlineno=before.co_firstlineno,
    )
