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
"""What asyncio takes for no time at all: finer than any wait, and coarser than what floats tell apart after years."""
VIRTUAL_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """What may be asked about time, and the one way to wait."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment, for measuring how long something took."""
        ...

    def utc_now(self) -> datetime:
        """The date and time, in UTC."""
        ...

    async def sleep_s(self, delay_s: float) -> None:
        """Wait. A delay of zero or less returns at once."""
        ...


class SystemClock:
    """The time of the running event loop: virtual on a `VirtualTimeLoop`, real on others and where none runs."""

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
    """A selector that, instead of waiting for a timer, tells its loop to jump to it.

    It waits for real only while something outside the loop is under way: a socket being read or
    written, or work in a thread. The time that such a wait takes passes on the virtual clock too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.threads_busy = 0
        self._own_fds = 0

    def settle(self) -> None:
        """Count what is registered now as the loop's own, not as something to wait for."""
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
    """An event loop that starts at time zero and waits for nothing: when only timers are pending, it jumps."""

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
        """Join the executor's threads, however long that takes: a `timeout` would be over at once."""
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
    """Raise an EventLoopError, and close `work`, if an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    work.close()
    raise EventLoopError("an event loop is running here already; await the call, like await provider.complete(…)")


def run(work: Coroutine[Any, Any, T], *, virtual_time: bool = False) -> T:
    """Run `work` on a new event loop, in virtual time if asked: sleeps and timeouts then cost nothing.

    Raises:
        EventLoopError: an event loop is running in this thread already; await `work` there.
    """
    refuse_in_loop(work)
    with asyncio.Runner(loop_factory=VirtualTimeLoop if virtual_time else None) as runner:
        return runner.run(work)
