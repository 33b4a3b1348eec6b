"""The clock that everything waits on: the system's, or a virtual one that never waits."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar, TypeVarTuple

from offbook.errors import EventLoopError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S = 1e-6
"""The time that asyncio treats as zero: shorter than any wait, and longer than the precision of floats after years."""
VIRTUAL_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Reads the time, and waits."""

    def monotonic_s(self) -> float:
        """Return the seconds since some fixed moment, to measure durations."""
        ...

    def utc_now(self) -> datetime:
        """Return the date and time in UTC."""
        ...

    async def sleep_s(self, delay_s: float) -> None:
        """Wait. A delay of zero or less returns immediately."""
        ...


class SystemClock:
    """The time of the running event loop: virtual on a `VirtualTimeLoop`, else real, also without a loop."""

    def monotonic_s(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def utc_now(self) -> datetime:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return datetime.now(UTC)
        if isinstance(loop, VirtualTimeLoop):
            return VIRTUAL_EPOCH + timedelta(seconds=loop.time())
        return datetime.now(UTC)

    async def sleep_s(self, delay_s: float) -> None:
        if delay_s > 0:
            await asyncio.sleep(delay_s)


SYSTEM_CLOCK = SystemClock()


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


@asynccontextmanager
async def time_limit(limit_s: float | None, error: Callable[[float], BaseException]) -> AsyncIterator[None]:
    """Cancel the block after `limit_s` seconds and raise `error(limit_s)`; without a limit, let it run.

    A TimeoutError that the block itself raises is left as it is.
    """
    if limit_s is None:
        yield
        return
    try:
        async with asyncio.timeout(limit_s) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise error(limit_s) from None


def refuse_in_loop(work: Coroutine[Any, Any, Any]) -> None:
    """Close `work` and raise an EventLoopError if an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    work.close()
    raise EventLoopError("an event loop is already running here; await the call, like await provider.complete(…)")


def run(work: Coroutine[Any, Any, T], *, virtual_time: bool = False) -> T:
    """Run `work` on a new event loop. With `virtual_time`, sleeps and timeouts take no real time.

    Raises:
        EventLoopError: an event loop is already running in this thread; await `work` there.
    """
    refuse_in_loop(work)
    with asyncio.Runner(loop_factory=VirtualTimeLoop if virtual_time else None) as runner:
        return runner.run(work)
