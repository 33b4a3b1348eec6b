"""A shared recording as a cache of calls: one process makes a call, and the others wait for its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from offbook.clock import SYSTEM_CLOCK, Clock, pauses_until
from offbook.errors import RecordingUnavailableError
from offbook.events import NULL_SINK, CacheOutcome, CacheUsed, Sink, guard_sink
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.store import SharedCalls, SharedReader, log_warning

T = TypeVar("T")

RETRY_S = 5.0
"""The pause before another attempt at an unreachable recording, if the run continues without it."""


class CacheCounts(Struct):
    """The counts of a cache: `hits` are calls that it answered, `misses` those that were made live and recorded.

    `unreached` calls were made live because the server could not be reached. `waits` counts the calls that waited for
    another process making the same one, and `gone` exchanges that had expired or were evicted.
    """

    hits: int = 0
    misses: int = 0
    unreached: int = 0
    waits: int = 0
    gone: int = 0

    def plus(self, other: CacheCounts) -> CacheCounts:
        """Return the counts of both."""
        fields = zip(astuple(self), astuple(other), strict=True)
        return CacheCounts(*(ours + theirs for ours, theirs in fields))


class CallTurn:
    """The right to make a call. If it `is_answered`, another process has made it, and the recording answers now.

    `release()` lets others make the call, if it is not recorded. It may be called twice, and after the recording. By
    default, it does nothing.
    """

    def __init__(self, release: Callable[[], object] = object, *, call: str = "", is_answered: bool = False) -> None:
        self.call, self.is_answered, self.release = call, is_answered, release


OWN_TURN: CallTurn = CallTurn()
"""The turn of a call in an unshared recording, which no other process makes."""

ANSWERED = CallTurn(is_answered=True)
"""The turn of a call that the recording answers."""


class CallCache:
    """Answers calls from a shared recording, and decides who makes the missing ones.

    Failures are not kept: everybody would get them until they expire. If the server cannot be reached and the location
    says `on_error=live`, calls are made live and not recorded, and the server is tried again after some seconds.
    """

    def __init__(self, shared: SharedCalls, *, sink: Sink = NULL_SINK, clock: Clock = SYSTEM_CLOCK) -> None:
        self._shared, self._sink, self.clock = shared, guard_sink(sink), clock
        self.counts = CacheCounts()
        self._away_until_s: float | None = None

    @property
    def reader(self) -> SharedReader:
        return self._shared.reader

    def has_answer(self, check: Callable[[], bool]) -> bool:
        """Return whether `check`, which reads the recording, finds an answer.

        Raises:
            InputError: the server cannot be reached.
        """
        return self._reach(check, otherwise=False)

    def note_hit(self) -> None:
        """Count a call that the recording has answered."""
        self.counts.hits += 1
        self._emit("hit")

    async def turn(self, call: str, check: Callable[[], bool]) -> CallTurn:
        """Wait until the call is ours to make, or `check` finds that another process has recorded it.

        Raises:
            InputError: the server cannot be reached.
        """
        waiting = WaitingCall(self, call, check)
        for pause_s in pauses_until(waiting.is_over):
            await self.clock.sleep_s(pause_s)
        return waiting.turn()

    def acquire(self, call: str) -> bool:
        """Take the lease of a call, and return whether it is ours now, or the server cannot be asked."""
        return self._reach(lambda: self._shared.acquire(call), otherwise=True)

    def release(self, call: str) -> None:
        """Return the lease of a call. No effect if it is not ours.

        Raises:
            InputError: the server cannot be reached; the lease ends by itself.
        """
        self._reach(lambda: self._shared.release(call), otherwise=None)

    def note_wait(self, waited_s: float) -> None:
        """Count a call that has waited for another process."""
        self.counts.waits += 1
        self._emit("wait", waited_s=waited_s)

    def first_turn(self, call: str, check: Callable[[], bool]) -> CallTurn:
        """Return the turn of a call whose lease is ours, unless it was recorded just before."""
        turn = CallTurn(lambda: self.release(call), call=call)
        with _released_on_error(turn):
            if self._reach(check, otherwise=False):
                turn.release()
                return ANSWERED
        if self._away_until_s is None:
            self.counts.misses += 1
            self._emit("miss")
        else:
            self.counts.unreached += 1
            self._emit("unreached")
        return turn

    def append(self, key: str, exchange: Exchange, *, call: str) -> None:
        """Record the exchange of a call and release it, unless it failed.

        Raises:
            InputError: the exchange cannot be written.
        """
        if not is_failure(exchange):
            self._reach(lambda: self._shared.append(key, exchange, call=call), otherwise=None)

    def append_tool(self, tool: str, exchange: ToolExchange, *, call: str) -> int | None:
        """Record the exchange of a tool call and release the call. An error is a result for the agent: it is kept.

        Returns the exchange's id, or None if the server cannot be reached.

        Raises:
            InputError: the exchange cannot be written.
        """
        return self._reach(lambda: self._shared.append_tool(tool, exchange, call=call), otherwise=None)

    def close(self) -> None:
        self._shared.close()

    def _emit(self, outcome: CacheOutcome, *, waited_s: float = 0.0) -> None:
        gone = self._shared.reader.gone + self._shared.reader.tools.gone - self.counts.gone
        self.counts.gone += gone
        self._sink.emit(CacheUsed(outcome, waited_s, gone))

    def _reach(self, work: Callable[[], T], *, otherwise: T) -> T:
        """Use the recording. If it cannot be reached and the run continues live, return `otherwise`."""
        now_s = self.clock.monotonic_s()
        if self._away_until_s is not None and now_s < self._away_until_s:
            return otherwise
        try:
            result = work()
        except RecordingUnavailableError as error:
            if not self._shared.goes_on_live:
                raise
            if self._away_until_s is None:
                log_warning("offbook.recording", "%s: %s; calls are made live", error.source, error.reason)
            self._away_until_s = self.clock.monotonic_s() + RETRY_S
            return otherwise
        self._away_until_s = None
        return result


class WaitingCall:
    """A call that waits for its turn until it `is_over`. The caller makes the pauses."""

    def __init__(self, cache: CallCache, call: str, check: Callable[[], bool]) -> None:
        self._cache, self._call, self._check = cache, call, check
        self._started_s, self._looks, self._is_answered = cache.clock.monotonic_s(), 0, False

    def is_over(self) -> bool:
        """Return whether another process has made the call, or it is ours to make."""
        self._is_answered = self._looks > 0 and self._cache.has_answer(self._check)
        self._looks += 1
        return self._is_answered or self._cache.acquire(self._call)

    def turn(self) -> CallTurn:
        """Return the turn when the wait is over."""
        if self._looks > 1:
            self._cache.note_wait(self._cache.clock.monotonic_s() - self._started_s)
        return ANSWERED if self._is_answered else self._cache.first_turn(self._call, self._check)


@contextmanager
def _released_on_error(turn: CallTurn) -> Iterator[None]:
    try:
        yield
    except BaseException:
        turn.release()
        raise


def is_failure(exchange: Exchange) -> bool:
    """Return whether the exchange is a failure of a provider: a fault, or an HTTP error."""
    return exchange.fault is not None or (exchange.wire is not None and (exchange.wire.status or 0) >= 400)
