"""Threads that may be left behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """Runs each piece of work in a daemon thread of its own.

    Work that never ends thus takes no place from other work, and holds up neither the end of an event
    loop nor that of the program, as it would in a pool.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        Thread(target=_fulfil, args=(future, fn, args, kwargs), daemon=True).start()
        return future


DAEMON_THREADS = DaemonThreads()


def _fulfil(future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        future.set_result(function(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)
