"""The time of an explored session: real, or virtual and in step with its program.

A program that waits on a shared clock (`subjects/program/guest/`) reports that it has nothing to do before some moment.
If the server has nothing to do either, time moves to the next event: a timer of the program, a due answer, or the end
of the run's patience. So every wait has its length, and takes no real time.

The server asks the program nothing. The program sends `idle`, gets the time, and checks its waits again: an answer may
have arrived, or its timer is due. If neither, it sends `idle` again. Time does not move while there is news for the
program: if the server has received or sent something since its last `idle`, it answers with the unchanged time.

A silent program is answered in real time, because every virtual timer is also a real one.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from offbook.clock import SYSTEM_CLOCK

MESSAGE = struct.Struct("<cd")
IDLE, LATE, NOW, MODULES = b"i", b"l", b"t", b"m"
MAX_MESSAGE_BYTES = 1024 * 1024
QUIET_TURNS = 8
"""The number of quiet loop turns after which a server is idle."""
BUSY_S = 0.0005
STEP_S = 1e-9
"""The distance of two successive moments."""


class Activity:
    """Counts a server's receipts and sends, so that two readings show whether something happened."""

    def __init__(self) -> None:
        self.count = 0


ANY_ACTIVITY = Activity()
"""Counts activity that belongs to no known session: new connections, and their first data."""


class ResponseClock(Protocol):
    """The clock for the due times of a response's parts. `activity` counts receipts and sends."""

    activity: Activity

    def time(self) -> float:
        """Return the time, in seconds."""
        ...

    async def wait(self, leaving: asyncio.Future[None], wait_s: float) -> None:
        """Wait until this time has passed, or until `leaving` is done."""
        ...

    def working(self) -> AbstractContextManager[object]:
        """Return a block in which no virtual time passes, because data is in transit."""
        ...


class LoopClock:
    """The time of the running loop."""

    activity = ANY_ACTIVITY

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, leaving: asyncio.Future[None], wait_s: float) -> None:
        await asyncio.wait([leaving], timeout=wait_s if math.isfinite(wait_s) else None)

    def working(self) -> AbstractContextManager[object]:
        return nullcontext()


LOOP_CLOCK = LoopClock()


class LifeOnClock(Protocol):
    """A process whose waits are on a clock."""

    def limit_s(self) -> float:
        """Return the last moment that it may reach."""
        ...

    def end(self, *, sleeps_s: float) -> None:
        """End it, because it would go beyond that moment: it waits for `sleeps_s`, which may be for ever."""
        ...

    def note_modules(self, names: bytes) -> None:
        """Note what the program has loaded, as JSON: a part, and nothing after the last one."""
        ...


class SessionClock:
    """The virtual time of one run of a program. It starts at 0. All of it happens on the loop of the server."""

    def __init__(self) -> None:
        self.activity = Activity()
        self.now_s = 0.0
        self.last_message_s = SYSTEM_CLOCK.monotonic_s()
        self._life: LifeOnClock | None = None
        self._is_over = False
        self._timers: dict[asyncio.Future[None], float] = {}
        self._stamps = self._busy = 0
        self._answered: tuple[int, int] = (-1, -1)
        self._link: socket.socket | None = None

    def time(self) -> float:
        return self.now_s

    def stamp_s(self) -> float:
        """Return the time, slightly later at every call, so that later events have later times."""
        self._stamps += 1
        self.last_message_s = SYSTEM_CLOCK.monotonic_s()
        return self.now_s + self._stamps * STEP_S

    async def wait(self, leaving: asyncio.Future[None], wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.create_future()
        self._timers[timer] = due_s = self.now_s + wait_s
        real = loop.call_later(wait_s, self._move, due_s) if math.isfinite(wait_s) else None
        try:
            await asyncio.wait([leaving, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._timers.pop(timer, None)
            if real is not None:
                real.cancel()

    @contextmanager
    def working(self) -> Iterator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.activity.count += 1

    def open(self, link: socket.socket, life: LifeOnClock) -> None:
        """Listen to the program, on the running loop."""
        link.setblocking(False)
        self._link, self._life, self._is_over = link, life, False
        asyncio.get_running_loop().add_reader(link, self._on_message)

    def stop(self) -> None:
        """Stop the time of a program that is being killed, so that it does not continue before the signal arrives.

        May be called from any thread.
        """
        self._is_over = True

    def close(self) -> None:
        """Stop listening, after the program's last messages."""
        while self._link is not None:
            if (data := self._receive()) is None or not data:
                asyncio.get_running_loop().remove_reader(self._link)
                self._link.close()
                self._link = None
            elif data[:1] == MODULES and self._life is not None:
                self._life.note_modules(data[1:])

    def _receive(self) -> bytes | None:
        """Return the next message: empty if the program has ended, None if there is no message yet."""
        assert self._link is not None
        try:
            return self._link.recv(MAX_MESSAGE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _on_message(self) -> None:
        data = self._receive()
        if data is None:
            return
        self.last_message_s = SYSTEM_CLOCK.monotonic_s()
        if not data:
            self.close()
        elif data[:1] == MODULES and self._life is not None:
            self._life.note_modules(data[1:])
        else:
            kind, due_s = MESSAGE.unpack(data)
            if kind == IDLE:
                self._settle(self._link, due_s, 0, self._counts)
            else:
                self._move(due_s)
                self._answer()

    @property
    def _counts(self) -> tuple[int, int]:
        return self.activity.count, ANY_ACTIVITY.count

    def _settle(self, link: socket.socket | None, due_s: float, quiet_turns: int, counts: tuple[int, int]) -> None:
        """Run the loop until it has nothing to do, and then let time pass, unless something happened.

        If the program at the other end of the `link` has ended meanwhile, its wait does not count: it must not be taken
        for one of its next life.
        """
        loop = asyncio.get_running_loop()
        if link is not self._link or self._is_over:
            return
        if self._busy:
            loop.call_later(BUSY_S, self._settle, link, due_s, 0, self._counts)
        elif counts != self._counts:
            loop.call_soon(self._settle, link, due_s, 0, self._counts)
        elif quiet_turns < QUIET_TURNS:
            loop.call_soon(self._settle, link, due_s, quiet_turns + 1, counts)
        elif self._answered != counts:
            self._answer()
        elif self._move(min(due_s, min(self._timers.values(), default=math.inf))):
            loop.call_soon(self._settle, link, due_s, 0, self._counts)  # what was due is sent before the program looks
        else:
            self._answer()

    def _move(self, due_s: float) -> bool:
        """Move time to a moment, but not beyond the limit, and return whether a part of a response is due."""
        if self._is_over:
            return False
        limit_s = math.inf if self._life is None else self._life.limit_s()
        before_s, self.now_s = self.now_s, max(self.now_s, min(due_s, limit_s))
        if due_s > limit_s or math.isinf(due_s):
            self._is_over = True
            if self._life is not None:
                self._life.end(sleeps_s=due_s - before_s)
            return False
        due = [timer for timer, at_s in self._timers.items() if at_s <= self.now_s and not timer.done()]
        for timer in due:
            timer.set_result(None)
            self.activity.count += 1
        return bool(due)

    def _answer(self) -> None:
        self._answered = self._counts
        if self._link is not None and not self._is_over:
            try:
                self._link.send(MESSAGE.pack(NOW, self.now_s))
            except OSError:
                self.close()
