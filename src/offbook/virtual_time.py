"""The event loop of virtual time, which never waits."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S = 1e-6
"""The time that asyncio treats as zero: shorter than any wait, and longer than the precision of floats after years."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the loop's time to the next timer instead of waiting for it.

    It waits in real time only while something outside the loop is in progress: a socket being read or written, or
    work in a thread. That time passes on the virtual clock too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.threads_busy = 0
        self._own_fds = 0

    def settle(self) -> None:
        """Treat the files registered so far as the loop's own, not as something to wait for."""
        self._own_fds = len(self.get_map())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.threads_busy or len(self.get_map()) > self._own_fds:
            return self._wait(timeout)
        self.now_s += max(timeout, 0.0)
        return ready

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        started_s = time.monotonic()
        try:
            return super().select(timeout)
        finally:
            self.now_s += time.monotonic() - started_s


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at time zero and never waits: if only timers are pending, it moves to the next."""

    is_virtual = True

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._jumping.settle()
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        return self._jumping.now_s

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads_busy += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Join the executor's threads, however long that takes: in virtual time, a `timeout` would expire at once."""
        self._jumping.threads_busy += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.threads_busy -= 1

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._jumping.threads_busy -= 1
