"""A recording of MCP servers that many processes share in mode `new`: what it answers, and whose turn a call is."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TypeAlias

from offbook.clock import pauses_until
from offbook.errors import InputError, RecordingMismatchError
from offbook.mcp.answer import NOTHING_DUE, DueMessages, FoundAnswer
from offbook.mcp.message import Message, arguments_hash
from offbook.mcp.recorder import UNRECORDED_METHODS, own_arguments
from offbook.mcp.replay import DISCOVERIES, EMPTY_RESULTS, McpReplay
from offbook.recording.call_cache import ANSWERED, CallCache, CallTurn
from offbook.recording.format.exchange import hash_arguments
from offbook.recording.format.keys import mcp_key
from offbook.recording.latency import NO_LATENCY, Latency
from offbook.session.numbers import ToolCallNames
from offbook.session.recorder import RecordedAs
from offbook.session.sources import CachedTools

_Place: TypeAlias = tuple[str, str]
"""What equal calls have in common: the key in the recording, and the hash of the arguments."""

_OWN_METHODS = UNRECORDED_METHODS | EMPTY_RESULTS | set(DISCOVERIES)
"""What every process asks its own server."""


class SharedMcpReplay(McpReplay):
    """Answers the requests of one session to `server` from a recording that other processes add to meanwhile.

    Only what was recorded answers: the rest, such as `ping`, is for the real server, which runs. Equal tool calls are
    numbered, as their results may differ: the second call of every session gets the second answer. So that processes
    agree on the numbers, equal calls of a session are made one after the other.
    """

    def __init__(self, server: str, cache: CallCache, *, latency: Latency = NO_LATENCY) -> None:
        super().__init__(server, CachedTools(cache), latency=latency, lenient_requests=True)
        self._cache = cache
        self._names = ToolCallNames()
        self._lines: dict[_Place, deque[object]] = {}
        self._admitted = set[_Place]()
        self._made: dict[CallTurn, tuple[_Place, object]] = {}
        self._places: dict[int, _Place] = {}

    def shares(self, request: Message) -> bool:
        """Return whether one process makes such a request for all."""
        return request.method not in _OWN_METHODS

    def find(self, request: Message) -> FoundAnswer:
        """Return the answer that is recorded now; see `McpSource`. It is for the first of equal calls that wait.

        Raises:
            RecordingMismatchError: there is none.
            InputError: the recording cannot be reached.
        """
        place = self._place(request)
        is_first = place in self._admitted or not self._lines.get(place)
        self._admitted.discard(place)
        if not is_first or not self._cache.has_answer(lambda: self._has_answer(request)):
            raise RecordingMismatchError("no process has recorded this yet", kind="missing", key=place[0])
        found = super().find(request)
        assert found.stored is not None
        self._places[found.stored.id] = place
        return found

    def use(self, found: FoundAnswer) -> DueMessages:
        """Count an answer as served. The real server is there to send what it sends on its own."""
        assert found.match is not None
        assert found.stored is not None
        self.tools.use(found.match)
        self._names.count(*self._places[found.stored.id])
        return NOTHING_DUE

    async def turn(self, request: Message) -> CallTurn:
        """Wait until a call is ours to make, or `find` has its answer. Equal calls have their turns in order.

        `note_recorded` or `give_up` ends a turn that is ours.

        Raises:
            InputError: the recording cannot be reached.
        """
        place, me = self._place(request), object()
        line = self._lines.setdefault(place, deque())
        line.append(me)
        try:
            for pause_s in pauses_until(lambda: line[0] is me):
                await self._cache.clock.sleep_s(pause_s)
            turn = await self._turn(place, request)
        except BaseException:
            line.remove(me)
            raise
        if turn.is_answered:
            line.remove(me)
            self._admitted.add(place)
        else:
            self._made[turn] = place, me
        return turn

    async def _turn(self, place: _Place, request: Message) -> CallTurn:
        def check() -> bool:
            return self._has_answer(request)

        if self._cache.has_answer(check):
            return ANSWERED
        return await self._cache.turn(self._names.next(*place, is_numbered=bool(request.tool)), check)

    def claim(self, request: Message) -> CallTurn | None:
        """Return the turn to record a call that was made without one: of a batch, or what every process asks for.

        Returns None if that is recorded, or another process does so now.

        Raises:
            InputError: the recording cannot be reached.
        """
        if request.method in UNRECORDED_METHODS:
            return None
        return self._claim(self._place(request), is_numbered=bool(request.tool))

    def claim_own(self, message: Message) -> CallTurn | None:
        """Return the turn to record a message that the server has sent on its own, like `claim`."""
        place = mcp_key(self.server, message.method), hash_arguments(own_arguments(message))
        return self._claim(place, is_numbered=True)

    def _claim(self, place: _Place, *, is_numbered: bool) -> CallTurn | None:
        name = self._names.next(*place, is_numbered=is_numbered)
        if not self._cache.acquire(name):
            return None
        if self._cache.has_answer(lambda: self._use_recorded(place, is_numbered=is_numbered)):
            self._cache.release(name)
            return None
        turn = CallTurn(lambda: self._cache.release(name), call=name)
        self._made[turn] = place, None
        return turn

    def _use_recorded(self, place: _Place, *, is_numbered: bool) -> bool:
        """Return whether a message is recorded. The second of two equal ones is another, if they are numbered."""
        match = self.tools.look_up(place[0], {}, place[1])
        if match.mismatch is not None or match.stored is None:
            return False
        if match.stored.id in self.tools.used_ids:
            return not is_numbered
        self.tools.note_used([match.stored.id])
        self._names.count(*place)
        return True

    def note_recorded(self, turn: CallTurn, recorded: RecordedAs | None) -> None:
        """End a turn of ours by what was recorded: its answer is for other processes."""
        if recorded is None:
            self.give_up(turn)
        elif (place := self._end(turn)) is not None:
            if recorded.id is not None:
                self.tools.note_used([recorded.id])
            self._names.count(*place)

    def give_up(self, turn: CallTurn) -> None:
        """End a turn of ours without an answer. Safe to call twice."""
        if self._end(turn) is not None:
            with suppress(InputError):  # the lease ends by itself
                turn.release()

    def _end(self, turn: CallTurn) -> _Place | None:
        """Let the next one of equal calls have its turn; return None if that was done already."""
        place, me = self._made.pop(turn, (None, None))
        if place is not None and me is not None:
            self._lines[place].remove(me)
        return place

    def _place(self, request: Message) -> _Place:
        return self.key(request), arguments_hash(request)

    def _has_answer(self, request: Message) -> bool:
        key, fingerprint = self._place(request)
        return self.shares(request) and self.tools.look_up(key, {}, fingerprint).mismatch is None
