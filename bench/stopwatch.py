"""Timing: the garbage collector is run before and rests during what is timed, as `timeit` does it."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up the time of several laps, in µs."""

    def __init__(self) -> None:
        self.total_us = 0.0

    @contextmanager
    def lap(self) -> Iterator[None]:
        """Add what the body takes."""
        started_ns = time.perf_counter_ns()
        yield
        self.total_us += (time.perf_counter_ns() - started_ns) / 1000.0


@contextmanager
def settled() -> Iterator[None]:
    """Leave what is in memory now alone when garbage is collected inside, which would take a while each time."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def quiet() -> Iterator[None]:
    """Collect garbage now, and none inside."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
