"""Errors by name: the exception that a fault is told to raise, as a ProviderError that retry and fallbacks handle."""

import builtins
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from offbook import errors
from offbook.errors import InputError, ProviderConnectionError, ProviderError, ProviderTimeoutError
from offbook.text import closest_name

_CLIENTS = ("httpx", "httpx2")


@cache
def error_class(name: str) -> type[ProviderError]:
    """Return a class whose instances are a ProviderError and the exception called `name`.

    The name is one of Python's, of offbook's, of httpx or httpx2: `ValueError`, `RateLimitError`, `httpx.ReadError`.

    Raises:
        InputError: no such exception exists, or it takes more than a message.
    """
    named = _find(name)
    if issubclass(named, ProviderError):
        kind = named
    elif issubclass(named, TimeoutError) or _is_of_client(named, "TimeoutException"):
        kind = _combine(named.__name__, ProviderTimeoutError, named)
    elif issubclass(named, OSError) or _is_of_client(named, "TransportError"):
        kind = _combine(named.__name__, ProviderConnectionError, named)
    else:
        kind = _combine(named.__name__, ProviderError, named)
    try:
        kind("a message", provider="mock")
    except TypeError:
        raise InputError(f"{name} takes more than a message", place="raise", hint=_HINT) from None
    return kind


_HINT = "clean, cut, error_event, malformed, or an exception like ConnectionError, ValueError or httpx.ReadError"


def connect_error(message: str, *, provider: str) -> ProviderConnectionError:
    """Return a ProviderConnectionError. If httpx or httpx2 is loaded, it is also their ConnectError."""
    loaded = tuple(name for name in _CLIENTS if name in sys.modules)
    return _connect_error_class(loaded)(message, provider=provider)


@cache
def _connect_error_class(clients: tuple[str, ...]) -> type[ProviderConnectionError]:
    others = [getattr(import_module(client), "ConnectError") for client in clients]  # noqa: B009 - types are unknown
    return _combine("ProviderConnectionError", ProviderConnectionError, *others)


def _combine(name: str, base: type[ProviderError], *others: type[Exception]) -> type:
    """Return a class of errors of several kinds. In another process it is the error of offbook alone."""
    bases = [base, *(other for other in others if not issubclass(base, other))]
    if len(bases) == 1:
        return base

    def reduce(error: ProviderError) -> tuple[object, ...]:
        plain = base.__new__(base, *error.args)
        plain.args = error.args
        vars(plain).update((key, value) for key, value in vars(error).items() if key != "_request")
        return plain.__reduce__()

    try:
        module = (base if name == base.__name__ else others[0]).__module__
        return type(name, tuple(bases), {"__module__": module, "__reduce__": reduce})
    except TypeError:
        raise InputError(f"{name} cannot be raised as the failure of a model", place="raise", hint=_HINT) from None


def _find(name: str) -> type[Exception]:
    module, _, bare = name.rpartition(".")
    for found in _modules(module):
        kind = getattr(found, bare, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind
    known = [each for found in (builtins, errors) for each in vars(found) if each.endswith("Error")]
    close = closest_name(bare, known)
    raise InputError(
        f"{name!r} is no exception of Python, httpx or offbook",
        place="raise",
        hint=f"did you mean {close!r}?" if close else _HINT,
    )


def _modules(module: str) -> Iterator[object]:
    """Yield where to look for a name, in order."""
    if module in ("", "builtins"):
        yield builtins
    if module in ("", "offbook", "offbook.errors"):
        yield errors
    for client in _CLIENTS:
        if module in ("", client):
            try:
                yield import_module(client)
            except ImportError:
                continue


def _is_of_client(kind: type[Exception], name: str) -> bool:
    return any(issubclass(kind, getattr(sys.modules[client], name)) for client in _CLIENTS if client in sys.modules)
