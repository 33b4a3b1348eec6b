"""Virtual time: an event loop that never waits, and the functions of `time` on the same clock."""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import chain, repeat
from traceback import walk_stack
from types import FrameType, FunctionType
from typing import Any, ClassVar, Self, TypeAlias, TypeGuard, TypeVar

T = TypeVar("T")

RESOLUTION_S = 1e-6
"""The time that asyncio treats as zero: shorter than any wait, and longer than the precision of floats after years."""

REAL: dict[str, Callable[..., Any]] = {
    name: getattr(time, name)
    for name in ("sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns")
}

PAUSES_S = (0.001, 0.002, 0.005)
"""Real seconds to wait before checking again whether other threads still work: longer each time."""
YIELD_S = 50e-6
"""Seconds to let other threads run before believing that all of them wait."""


class Wait:
    """A thread that waits until `due_s` on a clock, or forever if only another thread can end the wait.

    `is_woken` says whether another thread has ended the wait. `pause(seconds)` really waits; a non-empty result also
    ends the wait. `files` returns the files that it waits for. A wait may begin within another one of its thread: in a
    signal handler.
    """

    current: ClassVar[dict[int, Wait]] = {}

    def __init__(
        self,
        clock: VirtualTime,
        due_s: float,
        *,
        pause: Callable[[float | None], Any],
        is_woken: Callable[[], bool],
        files: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self.clock, self.due_s, self.pause, self.is_woken, self.files = clock, due_s, pause, is_woken, files
        self._outer: Wait | None = None

    def __enter__(self) -> Self:
        self._outer = self.current.get(threading.get_ident())
        self.current[threading.get_ident()] = self
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer is None:
            del self.current[threading.get_ident()]
        else:
            self.current[threading.get_ident()] = self._outer

    def is_idle(self, ident: int) -> bool | None:
        """Return whether another thread waits at least as long as this one, or None if it waits for something else."""
        other = self.current.get(ident)
        if other is None:
            return None
        if other.is_woken():
            return False
        return math.isinf(other.due_s) or (other.clock is self.clock and other.due_s >= self.due_s)


class VirtualTime:
    """Seconds that pass without real waits, shared by event loops and threads.

    They pass when all threads wait, up to the end of the shortest wait. Earlier threads do not count.

    Real waits for sockets and threads also pass on it, unless `is_exact`: then a wait that ends early takes no time.
    """

    def __init__(self, start_s: float = 0.0, *, is_exact: bool = False) -> None:
        self.start_s, self.is_exact = start_s, is_exact
        self._lock = threading.Lock()
        self._threads = NewThreads()
        self.restart()

    def restart(self) -> None:
        """Be at the start again, without a deadline."""
        self.now_s, self._deadline_s = self.start_s, math.inf
        self._on_deadline: Callable[[], object] = lambda: None

    @property
    def passed_s(self) -> float:
        """The seconds that have passed."""
        return self.now_s - self.start_s

    def call_at(self, limit_s: float, late: Callable[[], object]) -> None:
        """Call `late` after `limit_s`, in the thread that has moved the time there."""
        self._deadline_s, self._on_deadline = self.start_s + limit_s, late

    def advance_to(self, due_s: float) -> None:
        """Let time pass up to a moment, but not beyond the deadline. It never goes back."""
        with self._lock:
            self.now_s = max(self.now_s, min(due_s, self._deadline_s))
        if self.now_s >= self._deadline_s:
            self._on_deadline()

    def wait(
        self,
        seconds: float,
        *,
        pause: Callable[[float | None], T],
        is_woken: Callable[[], bool] = lambda: False,
    ) -> T | None:
        """Let this time pass as soon as all other threads wait longer, or for this one.

        While they work, `pause(seconds)` really waits, in small steps. A non-empty result ends the wait. Other threads
        continue as if this one worked when `is_woken`.
        """
        # Time may pass only when no thread could still do something before `due_s`. Alone, that is certain at once.
        # Else the others are looked at again and again, and while one of them works, this thread really waits, in small
        # steps, so that it is not late if the other one ends its wait.
        due_s = self.now_s + seconds
        if not self._threads.others() and math.isfinite(due_s):
            found = pause(0.0)  # a thread may have ended the wait, and itself, just now
            if not found:
                self.advance_to(due_s)
            return found
        started_s = REAL["monotonic"]()
        with Wait(self, due_s, pause=pause, is_woken=is_woken) as wait:
            answer: T | None = self._pause(wait, started_s + seconds) if math.isfinite(due_s) else pause(None)
        if not self.is_exact:
            self.advance_to(min(self.now_s + REAL["monotonic"]() - started_s, due_s))
        return answer

    def _pause(self, wait: Wait, real_due_s: float) -> Any:
        """Pause until the wait is over: by a pause's result, because no thread works, or in real time."""
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            is_over = self._is_nobody_working(wait) or REAL["monotonic"]() >= real_due_s
            found = wait.pause(0.0 if is_over else pause_s)
            if found or self.now_s >= wait.due_s:
                return found
            if is_over:
                self.advance_to(wait.due_s)
                return found
        raise AssertionError("unreachable")

    def _is_nobody_working(self, wait: Wait) -> bool:
        """Return whether all others wait, now and after they had the chance to run.

        A pool's thread with new work looks idle until it runs: the queue is empty, and since Python 3.13 the thread
        need not have seen its work yet. The system knows that it was woken.
        """
        sleeps = self._threads.sleeps_in_pools()
        if None in sleeps or not self._are_others_idle(wait):
            return False
        REAL["sleep"](YIELD_S)
        return self._are_others_idle(wait) and self._threads.sleeps_in_pools() == sleeps

    def _are_others_idle(self, wait: Wait) -> bool:
        return self._threads.are_idle(self._threads.others(), wait.is_idle, now_s=REAL["monotonic"]())


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the loop's time to the next timer instead of waiting for it.

    It waits in real time only while something outside the loop is in progress: a socket being read or written, or
    work in a thread.
    """

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.clock = clock
        self._own_fds = 0

    def settle(self) -> None:
        """Treat the files registered so far as the loop's own, not as something to wait for."""
        self._own_fds = len(self.get_map())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if len(self.get_map()) > self._own_fds:
            return self._wait_for_files(timeout)
        wait_s, poll = math.inf if timeout is None else timeout, super().select
        return self.clock.wait(wait_s, pause=poll, is_woken=lambda: bool(poll(0))) or []

    def _wait_for_files(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        started_s, before_s = REAL["monotonic"](), self.clock.now_s
        ready = super().select(timeout)
        if not self.clock.is_exact:
            self.clock.advance_to(before_s + REAL["monotonic"]() - started_s)
        elif not ready and timeout is not None:
            self.clock.advance_to(before_s + timeout)
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

    def settle(self) -> None:
        """Do not wait in real time for the presently watched files: time passes as if they were not watched."""
        self._jumping.settle()

    def block_s(self, delay_s: float) -> None:
        """Advance the time as if the caller had blocked the loop."""
        self._jumping.clock.wait(delay_s, pause=_pause)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait for the executor's threads, without a limit (Python 3.12): virtual time would pass it at once."""
        await super().shutdown_default_executor()


def _pause(seconds: float | None) -> None:
    if seconds:  # even for no time at all, the system takes a while
        REAL["sleep"](seconds)


def _virtual_functions(clock: VirtualTime, epoch_s: float) -> dict[str, Callable[..., Any]]:
    """Return the functions of `time` on a virtual clock. The standard library gets the real ones."""

    def sleep(seconds: float, /) -> None:
        if _is_for_standard_library(but_not=_CALLERS):
            REAL["sleep"](seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        clock.wait(float(seconds), pause=_pause)

    def seconds_of(name: str, offset_s: float) -> Callable[[], float]:
        return lambda: REAL[name]() if _is_for_standard_library() else clock.now_s + offset_s

    def nanoseconds_of(name: str, offset_s: float) -> Callable[[], int]:
        return lambda: REAL[name]() if _is_for_standard_library() else round((clock.now_s + offset_s) * 1e9)

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


class TimeReferences:
    """References of loaded code to functions of `time`: `from time import sleep`, `sleep=time.sleep`.

    Finding them reads all objects in memory. Modules loaded later use the functions that `time` has then. Those of the
    standard library keep the real functions, unless `includes_standard_library`.
    """

    def __init__(self, *, includes_standard_library: bool = False) -> None:
        kept = (lambda _: False) if includes_standard_library else _is_standard_library
        holders = [each for each in gc.get_referrers(*REAL.values()) if each is not REAL]
        self._names = [each for holder in holders for each in _module_names(holder, kept)]
        defaults = [each for each in holders if isinstance(each, tuple | dict) and not _is_namespace(each)]
        found = gc.get_referrers(*defaults) if defaults else []  # an empty list would also make it read all objects
        self._functions = [each for each in found if _has_default(each, kept)]

    def follow(self, clock: VirtualTime, *, epoch_s: float) -> None:
        """Let `time`, these references and new event loops follow a virtual clock, until this process ends.

        `epoch_s` is the value of `time.time()` when the clock is at zero.
        """
        self.replace(_virtual_functions(clock, epoch_s))
        asyncio.new_event_loop = asyncio.events.new_event_loop = VirtualTimeLoop
        VirtualTimeLoop.shared_clock = clock

    def replace(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Replace the functions of `time` and of these references."""
        for name, function in functions.items():
            setattr(time, name, function)
        for module, alias, name in self._names:
            module[alias] = functions[name]
        for each in self._functions:
            if each.__defaults__:
                each.__defaults__ = tuple(functions.get(_name_of(value) or "", value) for value in each.__defaults__)
            if each.__kwdefaults__:
                named = each.__kwdefaults__.items()
                each.__kwdefaults__ = {name: functions.get(_name_of(value) or "", value) for name, value in named}


def _name_of(value: object) -> str | None:
    """Return which function of `time` a value is."""
    return next((name for name, real in REAL.items() if value is real), None)


_IsKept: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Whether a module, given by its names, keeps the real functions."""


def _module_names(holder: object, is_kept: _IsKept) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the names by which a module holds functions of `time`."""
    if not _is_namespace(holder) or is_kept(holder):
        return
    names = [(alias, _name_of(value)) for alias, value in list(holder.items())]
    yield from ((holder, alias, name) for alias, name in names if name)


def _is_namespace(holder: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(holder, dict) and "__name__" in holder


def _has_default(holder: object, is_kept: _IsKept) -> bool:
    """Return whether a function of time is the default of a parameter."""
    if not isinstance(holder, FunctionType) or is_kept(holder.__globals__):
        return False
    defaults = [*(holder.__defaults__ or ()), *(holder.__kwdefaults__ or {}).values()]
    return any(_name_of(value) is not None for value in defaults)


STUCK_S = 5.0
"""Seconds at one instruction after which a thread counts as idle: it waits in a way that is not known here."""


class NewThreads:
    """The threads started since this was created, and its creator."""

    def __init__(self) -> None:
        self._old = set(threading.enumerate()) - {threading.current_thread()}
        self._places: dict[int, tuple[FrameType, int, float]] = {}

    def others(self) -> list[int]:
        """Return the identifiers of these threads, without the calling one; 0 for a starting thread."""
        if threading.active_count() == 1:
            return []
        others = [each for each in threading.enumerate() if each not in self._old]
        return [each.ident or 0 for each in others if each.ident != threading.get_ident()]

    def sleeps_in_pools(self) -> list[int | None]:
        """Return how often each thread that waits for work in a pool has fallen asleep, or None for
        one that is awake.
        """
        frames = sys._current_frames()  # noqa: SLF001
        new = [(each, frames.get(each.ident or 0)) for each in threading.enumerate() if each not in self._old]
        return [_count_sleeps(each.native_id) for each, frame in new if frame and _place(frame) == _POOL_WAIT]

    def are_idle(self, idents: list[int], is_waiting: Callable[[int], bool | None], *, now_s: float) -> bool:
        """Return whether all these threads wait at this real time. `is_waiting` says it of those that it knows.

        A thread without a frame is starting, while the one that starts it waits for that.
        """
        frames = sys._current_frames()  # noqa: SLF001 - all frames of the same moment
        if not frames.keys() >= set(idents):
            return False
        self._places = {ident: place for ident, place in self._places.items() if ident in frames}
        verdicts = [(ident, is_waiting(ident)) for ident in idents]
        unknown = [ident for ident, waits in verdicts if waits is None and not is_idle(frames[ident], frames)]
        stuck = [self._is_stuck(ident, frames[ident], now_s) for ident in unknown]
        return all(stuck) and all(waits for _, waits in verdicts if waits is not None)

    def _is_stuck(self, ident: int, frame: FrameType, now_s: float) -> bool:
        last, instruction, since_s = self._places.get(ident, (None, 0, 0.0))
        if last is not frame or instruction != frame.f_lasti:
            self._places[ident] = (frame, frame.f_lasti, now_s)
            return False
        return now_s - since_s >= STUCK_S


def _count_sleeps(native_id: int | None) -> int | None:
    """Return how often a thread of this process has fallen asleep; None if it is awake, 0 where that is unknown."""
    try:
        with open(f"/proc/self/task/{native_id}/status", "rb") as file:  # noqa: PTH123 - often
            lines = dict(line.split(b":", 1) for line in file)
    except OSError:
        return 0
    return int(lines[b"voluntary_ctxt_switches"]) if lines[b"State"].split()[0] == b"S" else None


def is_idle(frame: FrameType, frames: Mapping[int, FrameType]) -> bool:
    """Return whether a thread waits for another one, or for work. `frame` is its innermost frame.

    A thread that was woken but has not run yet still stands where it waited. So its place is not enough: what it waits
    for must not have happened.
    """
    waits = _WAITS.get(_place(frame))
    if waits is not None:
        return waits(frame.f_locals, frames)
    if frame.f_globals.get("__name__") != "selectors":
        return False
    callers = [each for each, _ in walk_stack(frame)]
    return any(_FILE_WAITS[_place(each)](each.f_locals) for each in callers if _place(each) in _FILE_WAITS)


_Locals: TypeAlias = Mapping[str, Any]


def _place(frame: FrameType) -> tuple[str, str]:
    return str(frame.f_globals.get("__name__")), frame.f_code.co_qualname


def _is_not_notified(local: _Locals, _: Mapping[int, FrameType]) -> bool:
    """Return whether no thread has notified a condition: of an event, a queue, a future, a barrier, a semaphore."""
    waiter = local.get("waiter")
    return waiter is not None and waiter.locked() and waiter in local["self"]._waiters  # noqa: SLF001


_POOL_WAIT = ("concurrent.futures.thread", "_worker")
_WAITS: dict[tuple[str, str], Callable[[_Locals, Mapping[int, FrameType]], bool]] = {
    ("threading", "Condition.wait"): _is_not_notified,
    ("threading", "Thread._wait_for_tstate_lock"): lambda local, frames: local["self"].ident in frames,
    ("threading", "Thread.join"): lambda local, frames: local["self"].ident in frames,
    _POOL_WAIT: lambda local, _: bool(local["work_queue"].empty()),
    ("socket", "socket.accept"): lambda *_: True,
}
"""Places where threads wait for something of this process, and checks whether it has not come yet."""

_FILE_WAITS: dict[tuple[str, str], Callable[[_Locals], bool]] = {
    ("concurrent.futures.process", "_ExecutorManagerThread.wait_result_broken_or_wakeup"): (
        lambda local: not local["self"].pending_work_items
    ),
    ("socketserver", "BaseServer.serve_forever"): lambda _: True,
}
"""Who waits for files by a selector without anything in progress."""
