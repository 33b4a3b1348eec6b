"""A WebSocket session answered from a recording."""

from __future__ import annotations

from msgspec.structs import replace

from offbook.errors import RequestError
from offbook.recording.match.folders import SAME_FOLDERS
from offbook.recording.match.websocket import (
    SessionMatcher,
    SocketTurn,
    describe_message,
    sent_message,
    turn_fields,
)
from offbook.session.sources import RecordedModels
from offbook.wire.backend import AcceptedCall, accept_in
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse, spoils_answer
from offbook.wire.session import MISS_STATUS, WireSession
from offbook.wire.websocket.connection import WebSocketConnection
from offbook.wire.websocket.framing import SocketMessage
from offbook.wire.websocket.turn import (
    TurnRequest,
    in_frames,
    renamed_frames,
    unknown_fingerprint,
    with_sent,
    with_turn,
)

_NOT_LIVE = "a session that began with recorded answers is not continued at the real API: record it again"


class ReplayedSession:
    """Answers a client with the server's messages of the recorded session.

    An unrecorded message closes the connection with the code 4422.
    """

    def __init__(
        self,
        connection: WebSocketConnection,
        session: WireSession,
        source: RecordedModels,
        *,
        request: HttpRequest,
        handshake: TurnRequest,
    ) -> None:
        self._connection, self._session, self._source = connection, session, source
        self._request, self._handshake = request, handshake
        self._matcher = SessionMatcher(source.tape.websocket_turns, handshake.request_hash, source.tape.but_for)
        self._is_over, self._named = False, frozenset[str]()

    def receive(self, message: SocketMessage) -> None:
        if self._is_over:
            return
        try:
            sent = sent_message(self._as_recorded(message), is_text=message.is_text)
            turns = self._matcher.feed(sent, prefers=lambda turn: self._source.can_answer(turn.fingerprint))
        except RequestError:  # JSON that is nested too deep, or a pattern that takes too long
            turns = None
        if turns is None:
            self._refuse()
        for turn in turns or ():
            self._answer(turn)

    def _as_recorded(self, message: SocketMessage) -> bytes:
        """Return what a client has sent, with the folders of the recording."""
        folders = self._session.folders
        if folders is SAME_FOLDERS or not message.is_text:
            return message.data
        text, named = folders.as_recorded(message.data.decode("utf-8", "surrogateescape"))
        self._named |= named
        return text.encode("utf-8", "surrogateescape")

    def lost(self) -> None:
        """Do nothing."""

    def _answer(self, turn: SocketTurn) -> None:
        renames = self._session.folders.renames(self._named).plus(self._matcher.folders)
        parsed = replace(with_turn(self._handshake, turn), renames=renames)
        accepted = accept_in(self._session, self._request, parsed)
        assert accepted.answer is not None or self._session.is_live
        answer = renamed_frames(in_frames(accepted.answer or _refused()), self._matcher.renamed)
        attempt = accepted.attempt
        if attempt is not None and attempt.fault is not None and spoils_answer(attempt.fault, answer):
            self._matcher.allow_again(turn)
        self._deliver(accepted, answer)

    def _refuse(self) -> None:
        """Close the connection because of a message that the recording does not have."""
        sent = [(0.0, message) for message in self._matcher.unmatched]
        fields = turn_fields(path=self._handshake.place, after=self._matcher.position, sent=sent)
        parsed = with_sent(self._handshake, fields, unknown_fingerprint(fields))
        accepted = accept_in(self._session, self._request, parsed)
        expected = self._source.tape.websocket_turns.expected(self._matcher.position, self._matcher.unmatched)
        reason = "the recorded session has ended" if expected is None else f"expected {describe_message(expected)}"
        is_miss = accepted.answer is None or accepted.answer.status == MISS_STATUS
        answer = in_frames(accepted.answer or _refused(), reason=f"not in the recording: {reason}" if is_miss else "")
        self._deliver(accepted, answer)

    def _deliver(self, accepted: AcceptedCall, answer: HttpResponse) -> None:
        self._is_over = answer.ending != "complete"
        self._connection.deliver(accepted, answer)


def _refused() -> HttpResponse:
    return HttpResponse(MISS_STATUS, frames=((0.0, _NOT_LIVE.encode()),))
