"""The clock for all waits: the system's, or a virtual one that never waits."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offbook.errors import EventLoopError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")
_modules: dict[str, Any] = sys.modules
VIRTUAL_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""The date and time at which virtual time starts."""


MAX_WAIT_MS = 1e10
"""The longest wait in a file, about four months: virtual time passes it in steps of a day."""


FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25
PAUSE_GROWTH = 1.5


def polling_pauses_s() -> Iterator[float]:
    """Yield growing pauses, up to a limit, for polling."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * PAUSE_GROWTH, LONGEST_PAUSE_S)


def pauses_until(is_over: Callable[[], bool]) -> Iterator[float]:
    """Yield the pauses before further looks, until `is_over`. The caller waits in its own way."""
    pauses_s = polling_pauses_s()
    while not is_over():
        yield next(pauses_s)


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
        loop = running_loop()
        return time.monotonic() if loop is None else loop.time()

    def utc_now(self) -> datetime:
        loop = running_loop()
        if loop is None or not getattr(loop, "is_virtual", False):
            return wall_time()
        return VIRTUAL_EPOCH + timedelta(seconds=loop.time())

    async def sleep_s(self, delay_s: float) -> None:
        import asyncio  # noqa: PLC0415 - where this runs, it is loaded

        if delay_s > 0:
            await asyncio.sleep(delay_s)


SYSTEM_CLOCK = SystemClock()


def wall_time() -> datetime:
    """Return the date and time in UTC as programs write them into their texts, whatever the clock of their waits."""
    return datetime.fromtimestamp(time.time(), UTC)


def timestamp(clock: Clock) -> str:
    """Return the current time as recordings write it."""
    return clock.utc_now().isoformat(timespec="microseconds")


def running_loop() -> AbstractEventLoop | None:
    """Return the running event loop of this thread, or None without loading asyncio: before that, no loop runs."""
    try:
        loop: AbstractEventLoop | None = _modules["asyncio.events"]._get_running_loop()  # noqa: SLF001
    except (KeyError, AttributeError):
        return None
    return loop


@asynccontextmanager
async def time_limit(limit_s: float | None, error: Callable[[float], BaseException]) -> AsyncIterator[None]:
    """Cancel the block after `limit_s` seconds and raise `error(limit_s)`; without a limit, let it run.

    A TimeoutError of the block itself is raised unchanged.
    """
    import asyncio  # noqa: PLC0415 - where this runs, it is loaded

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
    if running_loop() is None:
        return
    work.close()
    raise EventLoopError("an event loop is already running here; await the call, like await provider.complete(…)")


def run(work: Coroutine[Any, Any, T], *, virtual_time: bool = False) -> T:
    """Run `work` on a new event loop. With `virtual_time`, sleeps and timeouts take no real time.

    Raises:
        EventLoopError: an event loop is already running in this thread; await `work` there.
    """
    import asyncio  # noqa: PLC0415 - loading it takes as long as half of offbook

    refuse_in_loop(work)
    if not virtual_time:
        with asyncio.Runner() as runner:
            return runner.run(work)
    from offbook.virtual_time import VirtualTimeLoop  # noqa: PLC0415 - it needs asyncio

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
