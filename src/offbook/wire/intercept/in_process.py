"""Interception in this process: HTTP clients' requests go to a stand-in without a socket.

While something is intercepted, the sending methods of httpx, httpx2, requests and aiohttp are replaced, in loaded
libraries at once and in others when they load.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType, TracebackType
from typing import Any, Self, TypeAlias

from offbook.wire.api import InProcessClients
from offbook.wire.intercept.aiohttp_client import replace_connect
from offbook.wire.intercept.interception import InterceptedHosts
from offbook.wire.intercept.requests_client import replace_send
from offbook.wire.transport import is_upstream_call, transport_type

FindAnswers: TypeAlias = Callable[[str, int | None], InProcessClients | None]
"""Returns the source of answers for a host and port; None sends the request over the network."""

Undo: TypeAlias = Callable[[], None]


class InProcessInterception:
    """Lets `answers` answer all requests of this process to vendors' hosts, and to `hosts`, until `close`.

    Used as a block, it closes at the block's end. The latest interception takes precedence. Any thread may use it.

    Raises:
        InputError: an item of `hosts` is not a host.
    """

    def __init__(self, answers: InProcessClients, hosts: Iterable[str] = ()) -> None:
        self.answers = answers
        self.hosts = InterceptedHosts(hosts, environment=os.environ, includes_this_machine=True)
        _ACTIVE.add(self)

    def close(self) -> None:
        """End the interception. Safe to call twice."""
        _ACTIVE.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _ActiveInterceptions:
    """The active interceptions of this process. Libraries are patched while there is at least one."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._interceptions: tuple[InProcessInterception, ...] = ()
        self._patches: _Patches | None = None

    def add(self, interception: InProcessInterception) -> None:
        with self._lock:
            self._interceptions = (*self._interceptions, interception)
            if self._patches is None:
                self._patches = _Patches(self.find)

    def remove(self, interception: InProcessInterception) -> None:
        with self._lock:
            self._interceptions = tuple(each for each in self._interceptions if each is not interception)
            if not self._interceptions and self._patches is not None:
                self._patches.undo()
                self._patches = None

    def find(self, host: str, port: int | None) -> InProcessClients | None:
        """Return the answers of the latest interception of a host, or None."""
        if is_upstream_call.get():
            return None
        latest = (each for each in reversed(self._interceptions) if each.hosts.matches(host.lower(), port))
        return next((each.answers for each in latest), None)


_ACTIVE = _ActiveInterceptions()


class _Patches(importlib.abc.MetaPathFinder):
    """The replaced methods of the loaded libraries. Each library is changed when it loads."""

    def __init__(self, find: FindAnswers) -> None:
        self._find = find
        self._undo: list[Undo] = []
        for name in _REPLACERS:
            if name in sys.modules:
                self._replace_in(sys.modules[name])
        sys.meta_path.insert(0, self)

    def undo(self) -> None:
        sys.meta_path.remove(self)
        for undo in reversed(self._undo):
            undo()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _REPLACERS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _NotifyingLoader(spec.loader, self._replace_in)
        return spec

    def _replace_in(self, module: ModuleType) -> None:
        self._undo.append(_REPLACERS[module.__name__](module, self._find))


class _NotifyingLoader(importlib.abc.Loader):
    """Loads a module as `loader` does, and calls `on_loaded` with it."""

    def __init__(self, loader: Any, on_loaded: Callable[[ModuleType], None]) -> None:
        self._loader, self._on_loaded = loader, on_loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._on_loaded(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # a package asks its loader for its files


def _replace_in_httpx(library: Any, find: FindAnswers) -> Undo:
    """Replace the methods of httpx's or httpx2's transports, which every client has by default."""
    send, send_async = library.HTTPTransport.handle_request, library.AsyncHTTPTransport.handle_async_request

    def handle_request(self: Any, request: Any) -> Any:
        answers = find(request.url.host, _port(request.url))
        if answers is None:
            return send(self, request)
        return transport_type(library)(answers, live=self).handle_request(request)

    async def handle_async_request(self: Any, request: Any) -> Any:
        answers = find(request.url.host, _port(request.url))
        if answers is None:
            return await send_async(self, request)
        return await transport_type(library)(answers, live_async=self).handle_async_request(request)

    library.HTTPTransport.handle_request = handle_request
    library.AsyncHTTPTransport.handle_async_request = handle_async_request

    def undo() -> None:
        library.HTTPTransport.handle_request = send
        library.AsyncHTTPTransport.handle_async_request = send_async

    return undo


def _port(url: Any) -> int | None:
    port: int | None = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return port


_REPLACERS: dict[str, Callable[[Any, FindAnswers], Undo]] = {
    "httpx": _replace_in_httpx,
    "httpx2": _replace_in_httpx,
    "requests": replace_send,
    "aiohttp": replace_connect,
}
