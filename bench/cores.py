"""Which core a process runs on: a server and who asks it should not wait for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SERVER, CLIENT = 0, 1


@contextmanager
def on_core(place: int) -> Iterator[None]:
    """Processes that are started inside run on one core alone, where there are two and the system lets us choose."""
    if not hasattr(os, "sched_setaffinity") or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        yield
        return
    os.sched_setaffinity(0, {cores[place]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
