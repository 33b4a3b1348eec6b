"""The synchronous edge: running a coroutine from a script that has no event loop."""

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from offbook.clock import refuse_in_loop

T = TypeVar("T")
_local = threading.local()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on this thread's own event loop, which is kept so that connections are too.

    The loop ends with the thread, or with the program.

    Raises:
        EventLoopError: an event loop is running in this thread already.
    """
    refuse_in_loop(work)
    return _runner().run(work, context=contextvars.copy_context())


def _runner() -> asyncio.Runner:
    runner: asyncio.Runner | None = getattr(_local, "runner", None)
    if runner is None:
        runner = _local.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        weakref.finalize(runner, _end, runner.get_loop())
    return runner


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop that nobody will use again, unless it runs in a daemon thread that the exit is about to cut off."""
    if not loop.is_running():
        loop.close()
