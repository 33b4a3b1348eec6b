"""Records a response of a real API while an in-process client reads it, and describes how an API failed."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from msgspec.structs import replace

from offbook.faults import HttpError
from offbook.recording.format.exchange import Exchange
from offbook.wire.calls import CallAttempt
from offbook.wire.encode import error_response
from offbook.wire.proxy.capture import (
    CapturedResponse,
    DecompressionError,
    Decompressor,
    ResponseCapture,
    decompressor_for,
)
from offbook.wire.proxy.recorder import RecordedExchange, WireRecorder
from offbook.wire.proxy.upstream import RawHeaders, client_response_headers
from offbook.wire.response import HttpResponse, ResponseEnding
from offbook.wire.session import WireSession


def describe_no_answer(heard: CapturedResponse, address: str) -> str:
    """Says that nothing came from an address."""
    in_time = " in time" if heard.answer.ending == "silence" else ""
    return f"no answer from {address}{in_time} ({heard.failure})"


def describe_failure(exchange: Exchange, heard: CapturedResponse, address: str) -> str:
    """Says how an exchange failed that an address answered; empty if it did not."""
    if heard.answer.status is None:
        return describe_no_answer(heard, address)
    if exchange.fault is None or heard.has_client_left:
        return ""
    if isinstance(exchange.fault, HttpError):
        return f"status {exchange.fault.status_code} from {address}"
    return f"{exchange.fault.type} from {address}"


class InProcessForwarder:
    """Hears one answer, and has `recorder` keep it once it has ended, or the client has left. `guard` guards that.

    The fault that is planned for the call strikes what the client gets, not what is kept.
    """

    def __init__(
        self,
        session: WireSession,
        taken: CallAttempt,
        recorder: WireRecorder,
        *,
        guard: AbstractContextManager[object],
    ) -> None:
        self.has_fault = taken.fault is not None
        self._session, self._taken, self._recorder, self._guard = session, taken, recorder, guard
        self._capture = ResponseCapture(taken.asked, recorder.clock)
        self._unpacker: Decompressor | None = None
        self._seems_complete = False
        self._heard: CapturedResponse | None = None
        self._kept: RecordedExchange | None = None

    def begin(self, status: int, headers: RawHeaders) -> RawHeaders:
        """Hear the head of the answer; the headers that go to the client."""
        encoding = dict(headers).get(b"content-encoding", b"").decode("latin-1")
        self._unpacker = decompressor_for(encoding)
        kept = client_response_headers(headers, is_unpacked=self._unpacker is not None)
        self._capture.begin(status, {name.decode("latin-1"): value.decode("latin-1") for name, value in kept})
        return kept

    def forwarded_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces of the body, each heard."""
        with self.listening():
            for piece in pieces:
                yield self._hear(piece)
        self._end("complete")

    async def forwarded_pieces_async(self, pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """The like, as they come on the running loop."""
        with self.listening():
            async for piece in pieces:
                yield self._hear(piece)
        self._end("complete")

    def leave(self) -> None:
        """Hear that the client reads no further. Safe to call twice."""
        self._end("complete", has_client_left=not self._seems_complete)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of what goes wrong in the block, and of a client that leaves there."""
        try:
            yield
        except Exception as error:
            self._end(_ending_of(error), failure=type(error).__name__)
            raise
        except BaseException:
            self.leave()
            raise

    def replacement_response(self) -> HttpResponse:
        """What the call's fault makes of the answer, which has ended. One that failed by itself stays."""
        assert self._heard is not None
        if self._heard.is_too_large:
            route = self._taken.asked.route
            told = "the API answered more than can be held to be broken by a fault"
            return error_response(route.codec or route.vendor_codec, 502, told)
        clean = self._heard.answer.after(0.0)
        if self._kept is None or self._kept.exchange.fault is not None:
            return clean
        response = self._kept.exchange.response(model=self._taken.asked.model, provider="")
        with self._guard:
            return self._session.broken(self._taken, clean, response, key=self._kept.key)

    def _hear(self, piece: bytes) -> bytes:
        data = piece if self._unpacker is None else self._unpacker.unpack(piece)
        self._seems_complete = self._capture.hear(data) or self._seems_complete
        return data

    def _end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> None:
        if self._heard is not None:
            return
        heard = self._heard = self._capture.end(ending, failure=failure, has_client_left=has_client_left)
        with self._guard:
            self._kept = self._recorder.keep(self._taken, heard)
            fault_applies = self.has_fault and self._kept is not None and self._kept.exchange.fault is None
            if not fault_applies or has_client_left:
                self._note(heard)

    def _note(self, heard: CapturedResponse) -> None:
        taken, kept = replace(self._taken, fault=None), self._kept
        if kept is None:
            self._session.note(taken, heard.answer, "passed")
        else:
            failure = describe_failure(kept.exchange, heard, "the API")
            self._session.note(taken, heard.answer, "recorded", key=kept.key, failure=failure)


def _ending_of(error: Exception) -> ResponseEnding:
    """How an answer ended that ended in this error: of httpx2, of httpx, or ours."""
    names = {each.__name__ for each in type(error).__mro__}
    if "TimeoutException" in names:
        return "silence"
    return "cut" if "RemoteProtocolError" in names or isinstance(error, DecompressionError) else "reset"
