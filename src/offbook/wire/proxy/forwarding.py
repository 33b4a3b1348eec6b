"""Records a real API's response while a client reads it, and describes API failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec.structs import replace

from offbook.codecs.framing import INFLATED, UNPACKED_AT_ONCE, PackedBodyError, Unpacker
from offbook.errors import InputError, RecordingWriteError
from offbook.faults import HttpError
from offbook.faults.order import OrderFault
from offbook.recording.call_cache import OWN_TURN
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.wire.proxy.recorder import (
    MAX_KEPT_BYTES,
    CapturedResponse,
    RecordedExchange,
    ResponseCapture,
    WireRecorder,
)
from offbook.wire.proxy.upstream import RawHeaders, client_response_headers
from offbook.wire.request import header_dict
from offbook.wire.response import HttpResponse, ResponseEnding, error_response
from offbook.wire.session import CallAttempt, CallOutcome, WireSession

BAD_GATEWAY, GATEWAY_TIMEOUT = 502, 504


def decompressor_for(content_encoding: str) -> Unpacker | None:
    """Return the decompressor of this encoding, or None if it is unknown."""
    encoding = content_encoding.strip().lower()
    return Unpacker(encoding) if encoding in INFLATED else None


def describe_no_answer(captured: CapturedResponse, address: str) -> str:
    """Describe a missing answer from an address."""
    in_time = " in time" if captured.answer.ending == "silence" else ""
    return f"no answer from {address}{in_time} ({captured.failure})"


def describe_failure(exchange: Exchange, captured: CapturedResponse, address: str) -> str:
    """Describe how the API at an address failed, or return ""."""
    if captured.answer.status is None:
        return describe_no_answer(captured, address)
    if exchange.fault is None or captured.has_client_left:
        return ""
    if isinstance(exchange.fault, HttpError):
        return f"status {exchange.fault.status_code} from {address}"
    return f"{exchange.fault.type} from {address}"


def ending_of(error: Exception) -> ResponseEnding:
    """Return the ending of a response that raised this error of httpx2, httpx or offbook."""
    names = {each.__name__ for each in type(error).__mro__}
    if "TimeoutException" in names:
        return "silence"
    return "cut" if "RemoteProtocolError" in names or isinstance(error, PackedBodyError) else "reset"


def describe_error(error: Exception) -> str:
    """Describe an error only by its type, unless it is a connection failure: its text may contain a header."""
    import httpx2  # noqa: PLC0415 - loaded by then

    is_harmless = isinstance(error, httpx2.ConnectError) and bool(str(error))
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


async def decompressed(pieces: AsyncIterator[bytes], decompressor: Unpacker | None) -> AsyncGenerator[bytes, None]:
    """Yield the decompressed pieces of a body.

    Raises:
        PackedBodyError: its compression differs from its header.
    """
    async for piece in pieces:
        data = piece if decompressor is None else decompressor.feed(piece)
        if data:
            yield data


class ForwardedCall:
    """A call that a real API answers: captures the response, records it at its end, and notes the call.

    A fault planned for the call changes what the client gets, not the recording; a response that failed by itself is
    unchanged. `address` names the API in messages. `guard` protects the recorder and the session. `credentials` of the
    request are never recorded. `turn` is the call's right to be made.

    Raises:
        InputError: the call cannot be recorded under its step id.
    """

    def __init__(
        self,
        session: WireSession,
        attempt: CallAttempt,
        recorder: WireRecorder,
        *,
        address: str,
        guard: AbstractContextManager[object] | None = None,
        credentials: tuple[str, ...] = (),
    ) -> None:
        if attempt.step_id is not None and (reason := unfit_reason(attempt.step_id)):
            raise InputError(f"{quote_name(attempt.step_id)} {reason}", source="step", hint=KEY_HINT)
        if isinstance(attempt.fault, OrderFault):  # what the real API answers is not held
            attempt = session.forgive(attempt)
        self.has_fault = attempt.fault is not None
        self._session, self._attempt, self._recorder = session, attempt, recorder
        self._address, self._guard, self._credentials = address, guard or nullcontext(), credentials
        self._capture = ResponseCapture(attempt.parsed, recorder.clock)
        self._decompressor: Unpacker | None = None
        self._captured: CapturedResponse | None = None
        self._recorded: RecordedExchange | None = None
        self.turn = OWN_TURN

    def start(self, status: int, headers: RawHeaders) -> RawHeaders:
        """Capture the head of the response, and return the headers for the client.

        A compressed body is forwarded unchanged, and unpacked only for recording.
        """
        encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
        self._decompressor = decompressor_for(b", ".join(encodings).decode("latin-1"))
        captured = client_response_headers(headers, is_decompressed=self._decompressor is not None)
        self._capture.start(status, header_dict(captured))
        return client_response_headers(headers, is_decompressed=False)

    def capture(self, piece: bytes) -> bool:
        """Capture a piece of the body, and return whether a client may treat it as the last.

        Of a packed body, no more is unpacked than is recorded: a small one may be a very large one.

        Raises:
            PackedBodyError: it is not packed as its header says.
        """
        if self._decompressor is None:
            return self._capture.feed(piece)
        is_last = False
        for start in range(0, len(piece), UNPACKED_AT_ONCE):
            if self._capture.is_too_large:
                break
            is_last = self._capture.feed(self._decompressor.feed(piece[start : start + UNPACKED_AT_ONCE])) or is_last
        return is_last

    def end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> CapturedResponse:
        """Record the response and note the call. Safe to call again: the first call counts.

        Raises:
            RecordingWriteError: the exchange cannot be written; the call counts as refused.
        """
        if self._captured is None:
            captured = self._captured = self._capture.end(ending, failure=failure, has_client_left=has_client_left)
            with self._guard:
                try:
                    self._recorded = self._record(captured)
                except RecordingWriteError as error:
                    attempt, no_answer = replace(self._attempt, fault=None), HttpResponse(None, ending="cut")
                    self._session.note(attempt, no_answer, CallOutcome("refused", unrecorded=error.reason))
                    raise
                if not self._fault_applies(captured):
                    self._note(captured, self._error_response(captured) or captured.answer)
        return self._captured

    def replacement_response(self) -> HttpResponse | None:
        """Return what the client gets instead of the captured response; None if that was forwarded to it."""
        captured = self._captured
        assert captured is not None
        if (error := self._error_response(captured)) is not None:
            return error
        clean = captured.answer.delayed(0.0)
        if self._recorded is None or not self._fault_applies(captured):
            return clean if self.has_fault else None
        response = self._recorded.exchange.response(model=self._attempt.parsed.model, provider="")
        with self._guard:
            return self._session.apply_fault(self._attempt, clean, response, key=self._recorded.key)

    def _record(self, captured: CapturedResponse) -> RecordedExchange | None:
        return self._recorder.record_response(self._attempt, captured, credentials=self._credentials, turn=self.turn)

    def _fault_applies(self, captured: CapturedResponse) -> bool:
        is_sound = self._recorded is not None and self._recorded.exchange.fault is None
        return self.has_fault and is_sound and not captured.has_client_left

    def _error_response(self, captured: CapturedResponse) -> HttpResponse | None:
        """Return the error that the client gets because the captured response cannot be sent; None if it can."""
        if not (self.has_fault and captured.is_too_large) or captured.has_client_left:
            return None
        message = f"the response of {self._address} is too large to apply a fault to it"
        return error_response(self._attempt.parsed.route.any_codec, BAD_GATEWAY, message)

    def _note(self, captured: CapturedResponse, answer: HttpResponse) -> None:
        attempt, recorded = replace(self._attempt, fault=None), self._recorded
        if recorded is None:
            reason = f"the response has more than {MAX_KEPT_BYTES:,} bytes" if captured.is_too_large else ""
            self._session.note(attempt, answer, CallOutcome("passed", unrecorded=reason))
        else:
            exchange = recorded.exchange
            outcome = CallOutcome(
                "recorded",
                recorded.key,
                describe_failure(exchange, captured, self._address),
                cost_usd=exchange.cost_usd,
                tool_calls=exchange.tool_calls if exchange.fault is None else None,
            )
            self._session.note(attempt, answer, outcome)


class InProcessForwarder(ForwardedCall):
    """Captures the response that a client of this process reads from the real API."""

    def __init__(
        self,
        session: WireSession,
        attempt: CallAttempt,
        recorder: WireRecorder,
        *,
        guard: AbstractContextManager[object],
        credentials: tuple[str, ...] = (),
    ) -> None:
        super().__init__(session, attempt, recorder, address="the API", guard=guard, credentials=credentials)
        self._seems_complete = False

    def forwarded_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the pieces of the body, and capture each."""
        with self.capturing():
            for piece in pieces:
                yield self._feed(piece)
        self.end("complete")

    async def forwarded_pieces_async(self, pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces of the body, and capture each."""
        with self.capturing():
            async for piece in pieces:
                yield self._feed(piece)
        self.end("complete")

    def leave(self) -> None:
        """End the capture because the client reads no further. Safe to call twice."""
        self.end("complete", has_client_left=not self._seems_complete)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Capture an error in the block, and a client that leaves in it."""
        try:
            yield
        except Exception as error:
            self.end(ending_of(error), failure=type(error).__name__)
            raise
        except BaseException:
            self.leave()
            raise

    def _feed(self, piece: bytes) -> bytes:
        self._seems_complete = self.capture(piece) or self._seems_complete
        return piece
