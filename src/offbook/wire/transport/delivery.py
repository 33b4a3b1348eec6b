"""Delivers an HttpResponse to an in-process client: on time, within read timeouts, and with its broken endings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from math import isfinite
from typing import Literal, TypeAlias

from offbook.clock import SYSTEM_CLOCK
from offbook.wire.response import HttpResponse

ConnectionFailure = Literal["cut", "reset", "timeout"]
ErrorTypes: TypeAlias = Mapping[ConnectionFailure, Callable[[str], Exception]]
"""What a client library raises when a connection is `cut` off or `reset`, or when a read takes too long."""

DeliveryStep: TypeAlias = float | bytes
"""Seconds to wait, or bytes that have come."""

_ERROR_TEXTS: dict[ConnectionFailure, str] = {
    "cut": "peer closed connection without sending complete message body (incomplete chunked read)",
    "reset": "[Errno 104] Connection reset by peer",
    "timeout": "timed out",
}


class Delivery:
    """An answer on its way to a client. Times count from when it was made.

    Every read waits until something is due, but no longer than `read_timeout_s`; None waits for ever. A read that
    fails raises what `raised` names.
    """

    def __init__(self, answer: HttpResponse, *, read_timeout_s: float | None, raised: ErrorTypes) -> None:
        self.headers = answer.sent_headers
        self._answer, self._read_timeout_s, self._raised = answer, read_timeout_s, raised
        self._started_s = SYSTEM_CLOCK.monotonic_s()

    def open(self) -> int:
        """Wait for the head of the answer, in this thread, and return its status."""
        for wait_s in self._until_head():
            _sleep(wait_s)
        return self._status

    async def open_async(self) -> int:
        """The like, on the running loop."""
        for wait_s in self._until_head():
            await _sleep_async(wait_s)
        return self._status

    def __iter__(self) -> Iterator[bytes]:
        for step in self._body():
            if isinstance(step, bytes):
                yield step
            else:
                _sleep(step)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._body():
            if isinstance(step, bytes):
                yield step
            else:
                await _sleep_async(step)

    @property
    def _status(self) -> int:
        assert self._answer.status is not None
        return self._answer.status

    def _until_head(self) -> Iterator[float]:
        """A whole answer comes all at once, one in pieces begins at once, and one without a status never does."""
        answer = self._answer
        if answer.status is None:
            yield from self._end()
        elif answer.is_at_once and answer.frames:
            yield from self._until(answer.frames[0][0])

    def _body(self) -> Iterator[DeliveryStep]:
        for at_ms, data in self._answer.frames:
            yield from self._until(at_ms)
            yield data
        if not self._answer.is_at_once:
            yield from self._end()

    def _end(self) -> Iterator[float]:
        yield from self._until(self._answer.end_ms)
        if self._answer.ending != "complete":
            raise self._broken("cut" if self._answer.ending == "cut" else "reset")

    def _until(self, due_ms: float) -> Iterator[float]:
        wait_s = due_ms / 1000.0 - (SYSTEM_CLOCK.monotonic_s() - self._started_s)
        if self._read_timeout_s is not None and wait_s > self._read_timeout_s:
            yield self._read_timeout_s
            raise self._broken("timeout")
        if wait_s > 0:
            yield wait_s

    def _broken(self, how: ConnectionFailure) -> Exception:
        return self._raised[how](_ERROR_TEXTS[how])


def _sleep(wait_s: float) -> None:
    threading.Event().wait(wait_s if wait_s < threading.TIMEOUT_MAX else None)


async def _sleep_async(wait_s: float) -> None:
    if isfinite(wait_s):
        await SYSTEM_CLOCK.sleep_s(wait_s)
    else:
        await asyncio.get_running_loop().create_future()
