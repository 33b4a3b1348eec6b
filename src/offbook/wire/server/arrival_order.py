"""The order in which requests begin to arrive, in which the calls of a session are numbered and answered."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import cached_property
from typing import Protocol

from offbook.wire.session import WireSession

MAX_WAIT_S = 0.25
"""The maximum wait of a request for those that began before it: their rest may depend on its answer."""


class ArrivingRequest(Protocol):
    """A connection whose request arrives in more than one piece, or waits until it is its turn."""

    def numbering_session(self) -> WireSession | None:
        """Return the session of the request; None if nothing depends on the order of its requests."""
        ...

    def answer_held(self) -> None:
        """Answer the request, which is complete."""
        ...


class _Arrival:
    """A request that has begun, and what ends its wait if it is complete."""

    def __init__(self, request: ArrivingRequest) -> None:
        self._request = request
        self.waiting: ExitStack | None = None

    @cached_property
    def session(self) -> WireSession | None:
        return self._request.numbering_session()


class ArrivalOrder:
    """Has the requests of a session answered in the order in which they have begun.

    A client that makes calls at once may send the heads of all of them, and then their bodies: httpx does. Which body
    is read first depends on the moment at which the server looks, and so would the number of each call, and which of
    several answers to any request it gets. Therefore a request that is complete waits for those of its session that
    began before it and are not complete. What the client has sent of them earlier is there already, and is read in the
    next turn of the loop. Meanwhile no virtual time passes.

    Requests that come one after the other never wait, nor do those of sessions in which nothing depends on the order.
    """

    def __init__(self) -> None:
        self._begun: dict[ArrivingRequest, _Arrival] = {}
        self._waiting_count = 0

    def begin(self, request: ArrivingRequest) -> _Arrival:
        """Note that the head of a request has arrived, unless that is known."""
        arrival = self._begun.get(request)
        if arrival is None:
            arrival = self._begun[request] = _Arrival(request)
        return arrival

    def complete(self, request: ArrivingRequest) -> None:
        """Have a request that has arrived completely answered when it is its turn: mostly now."""
        if next(iter(self._begun), request) is not request:
            arrival = self.begin(request)
            if arrival.session is not None and self._has_earlier(arrival, arrival.session):
                self._wait(request, arrival, arrival.session)
                return
        request.answer_held()
        self.leave(request)

    def leave(self, request: ArrivingRequest) -> None:
        """Let nothing wait for a request any more, nor the request for anything: it is answered now if it waits."""
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
        """Answer those that wait for nothing any more."""
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
