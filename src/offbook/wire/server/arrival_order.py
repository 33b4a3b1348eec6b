"""The order in which requests begin to arrive, which numbers and answers a session's calls."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import cached_property
from typing import Protocol

from offbook.wire.session import WireSession

MAX_WAIT_S = 0.25
"""The maximum wait of a request for those that began before it: their rest may depend on its answer."""


class ArrivingRequest(Protocol):
    """A connection whose request arrives in several pieces, or waits for its turn."""

    def numbering_session(self) -> WireSession | None:
        """Return the session of the request, or None if nothing depends on the order of its requests."""
        ...

    def answer_held(self) -> None:
        """Answer the request, which is complete."""
        ...


class _Arrival:
    """A request that has begun, and the function that ends its wait when it is complete."""

    def __init__(self, request: ArrivingRequest) -> None:
        self._request = request
        self.waiting: ExitStack | None = None

    @cached_property
    def session(self) -> WireSession | None:
        return self._request.numbering_session()


class ArrivalOrder:
    """Answers a session's requests in the order in which they began.

    A client with concurrent calls may send the heads of all of them, and then their bodies: httpx does. The order in
    which the server reads the bodies is random, and with it would be the number of each call, and its answer among
    several. Therefore a complete request waits for incomplete ones of its session that began before it. Their earlier
    data has arrived already, and is read in the next turn of the loop. No virtual time passes meanwhile.

    Sequential requests never wait, nor do those of sessions in which nothing depends on the order.
    """

    def __init__(self) -> None:
        self._begun: dict[ArrivingRequest, _Arrival] = {}
        self._waiting_count = 0

    def begin(self, request: ArrivingRequest) -> _Arrival:
        """Note that the head of a request has arrived, unless it is already known."""
        arrival = self._begun.get(request)
        if arrival is None:
            arrival = self._begun[request] = _Arrival(request)
        return arrival

    def complete(self, request: ArrivingRequest) -> None:
        """Have a complete request answered when it is its turn: mostly now."""
        if next(iter(self._begun), request) is not request:
            arrival = self.begin(request)
            if arrival.session is not None and self._has_earlier(arrival, arrival.session):
                self._wait(request, arrival, arrival.session)
                return
        request.answer_held()
        self.leave(request)

    def leave(self, request: ArrivingRequest) -> None:
        """Remove a request from the order: nothing waits for it any longer, and it is answered now if it waits."""
        arrival = self._begun.pop(request, None)
        if arrival is None:
            return
        if arrival.waiting is not None:
            self._go_on(request, arrival)
        if self._waiting_count:
            self._answer_next()

    def _has_earlier(self, arrival: _Arrival, session: WireSession) -> bool:
        """Return whether a request of the session has begun before this one."""
        return next(each for each in self._begun.values() if each.session is session) is not arrival

    def _wait(self, request: ArrivingRequest, arrival: _Arrival, session: WireSession) -> None:
        timer = asyncio.get_running_loop().call_later(MAX_WAIT_S, self.leave, request)
        arrival.waiting = ExitStack()
        arrival.waiting.enter_context(session.clock.working())
        arrival.waiting.callback(timer.cancel)
        self._waiting_count += 1

    def _answer_next(self) -> None:
        """Answer the requests that wait for nothing."""
        incomplete: set[WireSession | None] = set()
        for request, arrival in list(self._begun.items()):
            if arrival.waiting is None or arrival.session in incomplete:
                incomplete.add(arrival.session)
            else:
                del self._begun[request]
                self._go_on(request, arrival)

    def _go_on(self, request: ArrivingRequest, arrival: _Arrival) -> None:
        assert arrival.waiting is not None
        self._waiting_count -= 1
        with arrival.waiting:
            request.answer_held()
