"""Virtual time: an event loop that never waits, and the functions of `time` on the same clock."""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import Executor
from types import FunctionType
from typing import Any, ClassVar, TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S = 1e-6
"""The time that asyncio treats as zero: shorter than any wait, and longer than the precision of floats after years."""

_REAL: dict[str, Callable[..., Any]] = {
    name: getattr(time, name)
    for name in ("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns")
}


class VirtualTime:
    """Seconds that pass without being waited for, shared by event loops and threads.

    Real waits for sockets and threads pass on it too, unless `is_exact`: then a wait that ends early takes no time, and
    the same run takes the same time whenever it is made.
    """

    def __init__(self, start_s: float = 0.0, *, is_exact: bool = False) -> None:
        self.start_s = self.now_s = start_s
        self.is_exact = is_exact
        self._deadline_s = math.inf
        self._on_deadline: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    @property
    def passed_s(self) -> float:
        """How much time has passed."""
        return self.now_s - self.start_s

    def call_at(self, limit_s: float, late: Callable[[], object]) -> None:
        """Call `late` when `limit_s` have passed, in the thread that has moved the time there."""
        self._deadline_s, self._on_deadline = self.start_s + limit_s, late

    def advance(self, seconds: float) -> None:
        """Let time pass, but not beyond the deadline."""
        with self._lock:
            self.now_s = min(self.now_s + max(seconds, 0.0), self._deadline_s)
        if self.now_s >= self._deadline_s:
            self._on_deadline()


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the loop's time to the next timer instead of waiting for it.

    It waits in real time only while something outside the loop is in progress: a socket being read or written, or
    work in a thread.
    """

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.clock = clock
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
        self.clock.advance(timeout)
        return ready

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        started_s = _REAL["monotonic"]()
        ready = super().select(timeout)
        if not self.clock.is_exact:
            self.clock.advance(_REAL["monotonic"]() - started_s)
        elif not ready and timeout is not None:
            self.clock.advance(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits: if only timers are pending, it moves to the next.

    It starts at time zero, unless the process has a `shared_clock`.
    """

    is_virtual = True
    shared_clock: ClassVar[VirtualTime | None] = None

    def __init__(self) -> None:
        self._jumping = _JumpingSelector(self.shared_clock or VirtualTime())
        super().__init__(self._jumping)
        self._jumping.settle()
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        return self._jumping.clock.now_s

    def block_s(self, delay_s: float) -> None:
        """Let this time pass at once, as if the code that calls this had blocked the loop for so long."""
        self._jumping.clock.advance(delay_s)

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


YIELD_S = 0.001
"""How long a virtual sleep really waits at most while other threads run, so that they get on."""


def _virtual_functions(clock: VirtualTime, epoch_s: float) -> dict[str, Callable[..., Any]]:
    """Return the functions of `time` on a virtual clock. For the standard library they are the real ones."""

    def sleep(seconds: float, /) -> None:
        if _is_for_standard_library(but_not=_CALLERS):
            _REAL["sleep"](seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        clock.advance(float(seconds))
        if threading.active_count() > 1:
            _REAL["sleep"](min(seconds, YIELD_S))

    def seconds_of(name: str, offset_s: float) -> Callable[[], float]:
        return lambda: _REAL[name]() if _is_for_standard_library() else clock.now_s + offset_s

    def nanoseconds_of(name: str, offset_s: float) -> Callable[[], int]:
        return lambda: _REAL[name]() if _is_for_standard_library() else round((clock.now_s + offset_s) * 1e9)

    offsets_s = {"monotonic": 0.0, "perf_counter": 0.0, "time": epoch_s}
    return {
        "sleep": sleep,
        **{name: seconds_of(name, offset_s) for name, offset_s in offsets_s.items()},
        **{f"{name}_ns": nanoseconds_of(f"{name}_ns", offset_s) for name, offset_s in offsets_s.items()},
    }


_CALLERS = frozenset(("asyncio", "concurrent", "contextlib", "functools", "threading"))
"""Modules of the standard library that never sleep themselves, but call what they are given."""


def _is_for_standard_library(*, but_not: Set[str] = frozenset()) -> bool:
    """Return whether a module of the standard library calls: it waits for locks and processes, which are real."""
    caller = sys._getframe(2).f_globals  # noqa: SLF001
    return _is_standard_library(caller) and _package(caller) not in but_not


def _is_standard_library(module: Mapping[str, Any]) -> bool:
    return _package(module) in sys.stdlib_module_names


def _package(module: Mapping[str, Any]) -> str:
    return str(module.get("__name__")).partition(".")[0]


_Names: TypeAlias = list[tuple[dict[str, Any], str, str]]


class TimeReferences:
    """Where loaded code holds functions of `time` under names of its own: `from time import sleep`, `sleep=time.sleep`.

    Finding them reads all objects in memory. Modules that are loaded later take what `time` has then.
    """

    def __init__(self) -> None:
        holders = gc.get_referrers(*_REAL.values())
        self._names: _Names = [each for holder in holders for each in _module_names(holder)]
        self._functions = [each for each in gc.get_referrers(*holders) if _has_default(each)]

    def follow(self, clock: VirtualTime, *, epoch_s: float) -> None:
        """Let `time`, these references and new event loops follow a virtual clock, until this process ends.

        `epoch_s` is the value of `time.time()` when the clock is at zero.
        """
        virtual = _virtual_functions(clock, epoch_s)
        for name, function in virtual.items():
            setattr(time, name, function)
        for module, alias, name in self._names:
            module[alias] = virtual[name]
        for each in self._functions:
            _replace_defaults(each, virtual)
        asyncio.new_event_loop = asyncio.events.new_event_loop = VirtualTimeLoop
        VirtualTimeLoop.shared_clock = clock


def _name_of(value: object) -> str | None:
    """Return which function of `time` a value is."""
    return next((name for name, real in _REAL.items() if value is real), None)


def _module_names(holder: object) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the names by which a module holds functions of `time`, if it is one, and not of the standard library."""
    if not isinstance(holder, dict) or "__name__" not in holder or _is_standard_library(holder):
        return
    for alias, value in list(holder.items()):
        name = _name_of(value)
        if name is not None:
            yield holder, alias, name


def _has_default(holder: object) -> bool:
    """Return whether a function of time is the default of a parameter, outside the standard library."""
    if not isinstance(holder, FunctionType) or _is_standard_library(holder.__globals__):
        return False
    defaults = [*(holder.__defaults__ or ()), *(holder.__kwdefaults__ or {}).values()]
    return any(_name_of(value) is not None for value in defaults)


def _replace_defaults(function: FunctionType, virtual: Mapping[str, Callable[..., Any]]) -> None:
    if function.__defaults__:
        function.__defaults__ = tuple(virtual.get(_name_of(value) or "", value) for value in function.__defaults__)
    if function.__kwdefaults__:
        named = function.__kwdefaults__.items()
        function.__kwdefaults__ = {name: virtual.get(_name_of(value) or "", value) for name, value in named}
