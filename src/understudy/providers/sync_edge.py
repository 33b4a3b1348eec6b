"""The synchronous edge: running a coroutine from a script that has no event loop."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from understudy.errors import EventLoopError

T = TypeVar("T")
_local = threading.local()


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on this thread's own event loop, which is kept so that connections are too.

    Raises:
        EventLoopError: an event loop is running in this thread already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _runner().run(work)
    work.close()
    raise EventLoopError("this call would block the running event loop; await the async form instead")


def _runner() -> asyncio.Runner:
    runner: asyncio.Runner | None = getattr(_local, "runner", None)
    if runner is None:
        runner = _local.runner = asyncio.Runner()
    return runner
