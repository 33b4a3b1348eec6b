"""Captures responses with their frames and times, and records them: bytes, and the exchange that they decode to."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isfinite

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.codecs.base import Codec, error_of_status
from offbook.codecs.event_stream import EVENT_TYPE
from offbook.codecs.framing import binary_frame, is_framed, splitter_for
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError
from offbook.events import NULL_SINK, CallRecorded, Sink, capture_content, guard_sink
from offbook.faults import AnyFault, ConnectionReset, StreamTruncate, Timeout, fault_of, stream_fault_of
from offbook.faults.stream import TruncateEnding
from offbook.messages import Accumulator, Response, Usage
from offbook.providers.pricing import PriceTable
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import Exchange, TimedPiece, piece_from_delta, recorded_calls
from offbook.recording.format.wire_record import WireRecord, replayable_headers, wire_text
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.folders import FolderNotes
from offbook.recording.redact.redactor import Redactor
from offbook.session.recorder import Recorder, RecordMode
from offbook.vendors import PROVIDER_NAMES
from offbook.wire.request import ParsedRequest, set_cookies
from offbook.wire.response import Frame, HttpResponse, ResponseEnding, stream_events
from offbook.wire.session import CallAttempt

_LAST_FRAME = re.compile(
    rb"^data: ?\[DONE\]"
    rb'|"type": ?"(message_stop|response\.(completed|failed|incomplete))"'
    rb'|"done": ?true',
    re.MULTILINE,
)


def is_last_frame(frame: bytes) -> bool:
    """Return whether a client may treat `frame` as the last. Text never matches, as its quotes are escaped."""
    message = binary_frame(frame)
    if message is None:
        return _LAST_FRAME.search(frame) is not None
    return message.headers.get(EVENT_TYPE) == "metadata" or _LAST_FRAME.search(message.data) is not None


MAX_KEPT_BYTES = 64 * 1024 * 1024
"""The size of the largest captured response. Larger ones are only forwarded."""


class CapturedResponse(Struct, frozen=True):
    """A real API's response as far as it arrived; its frames are due at their arrival times.

    Without a status nothing arrived, and `failure` has the reason. `has_client_left` if the client did not wait for the
    end.
    """

    answer: HttpResponse
    failure: str = ""
    has_client_left: bool = False
    is_too_large: bool = False


class ResponseCapture:
    """Captures one response. Times count from its creation."""

    def __init__(self, parsed: ParsedRequest, clock: Clock) -> None:
        self._parsed, self._clock = parsed, clock
        self._started_s = clock.monotonic_s()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self.is_streamed = False
        self._frames: list[Frame] = []
        self._expected_bytes: int | None = None
        self._captured_bytes = 0
        self._splitter = splitter_for("")

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Capture the head. Header names are lower-case."""
        content_type = headers.get("content-type", "")
        length = headers.get("content-length", "")
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name != "content-length"}
        self._expected_bytes = int(length) if length.isascii() and length.isdigit() else None
        is_model_answer = self._parsed.request is not None and status == 200
        self.is_streamed = self._parsed.is_streamed if is_model_answer else is_framed(content_type)
        self._splitter = splitter_for(content_type if self.is_streamed else "")

    def feed(self, data: bytes) -> bool:
        """Capture a piece of the body, and return whether a client may treat it as the last."""
        self._captured_bytes += len(data)
        if self.is_too_large:
            self._frames.clear()
            self._splitter = splitter_for("")  # it may hold as much again
            return False
        frames = self._splitter.feed(data)
        at_ms = self._elapsed_ms()
        self._frames += [(at_ms, frame) for frame in frames]
        return self._captured_bytes == self._expected_bytes or (self.is_streamed and any(map(is_last_frame, frames)))

    @property
    def is_too_large(self) -> bool:
        """Whether the body is too large to be recorded."""
        return self._captured_bytes > MAX_KEPT_BYTES

    def end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> CapturedResponse:
        """Return all that was captured."""
        end_ms, is_too_large = self._elapsed_ms(), self.is_too_large
        if not is_too_large:
            self._frames += [(end_ms, frame) for frame in self._splitter.close()]
        answer = HttpResponse(self._status, self._headers, tuple(self._frames), self.is_streamed, ending, end_ms)
        return CapturedResponse(answer, failure, has_client_left, is_too_large)

    def _elapsed_ms(self) -> float:
        return round((self._clock.monotonic_s() - self._started_s) * 1000.0, 3)


logger = logging.getLogger("offbook.wire")


class RecordedExchange(Struct, frozen=True):
    """An exchange with its secrets, and the key under which it was recorded without them."""

    key: str
    exchange: Exchange


class WireRecorder(Recorder):
    """Records the responses of real APIs, as bytes and as the exchanges that they decode to."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        mode: RecordMode = "append",
        redactor: Redactor | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
        rules: NormaliseRules = NO_RULES,
        folders: FolderNotes | None = None,
    ) -> None:
        super().__init__(
            location,
            mode=mode,
            kind="models",
            redactor=redactor,
            rules=rules,
            folders=folders,
            sink=sink,
            clock=clock,
        )
        self._sink, self._prices = guard_sink(sink), PriceTable.default()

    def record_response(
        self,
        attempt: CallAttempt,
        captured: CapturedResponse,
        *,
        credentials: Iterable[str] = (),
        turn: CallTurn = OWN_TURN,
    ) -> RecordedExchange | None:
        """Record the response to a call. Return None without recording if it is too large or empty.

        `credentials` of the call are secret in any form.

        Raises:
            RecordingWriteError: the exchange cannot be written.
        """
        parsed, answer = attempt.parsed, captured.answer
        if captured.is_too_large:
            logger.warning("%s: not recorded: the response has more than %d bytes", parsed.place, MAX_KEPT_BYTES)
            return None
        if captured.has_client_left and not (answer.is_streamed and answer.frames):
            return None
        exchange = build_exchange(parsed, captured, prices=self._prices, made_at=self.clock.utc_now())
        is_answered = answer.status is not None
        found = (*credentials, *set_cookies(answer.headers.get("set-cookie", "")))
        key = self.record(attempt.step_id, exchange, credentials=found, turn=turn, is_answered=is_answered)
        self._emit(attempt, exchange, latency_ms=answer.end_ms)
        return RecordedExchange(key, exchange)

    def record_frames(self, attempt: CallAttempt, wire: WireRecord, *, credentials: Iterable[str] = ()) -> str:
        """Record one exchange of a WebSocket session, and return its key. Raises like `record`."""
        parsed = attempt.parsed
        end_ms = wire.frames[-1][0] if wire.frames else 0.0
        exchange = Exchange(
            provider=parsed.route.vendor,
            latency_ms=end_ms,
            request_hash=parsed.request_hash,
            request=Raw(parsed.fields),
            wire=wire,
        )
        key = self.record(None, exchange, credentials=credentials)
        self._emit(attempt, exchange, latency_ms=end_ms)
        return key

    def _emit(self, attempt: CallAttempt, exchange: Exchange, *, latency_ms: float) -> None:
        capture_content(self._sink, lambda: attempt.content(exchange))
        usage = exchange.usage or Usage()
        self._sink.emit(
            CallRecorded(
                step_id=attempt.step_id,
                provider=provider_name_of(attempt.parsed),
                model=exchange.model or attempt.parsed.model,
                latency_s=latency_ms / 1000.0,
                fault_type=None if exchange.fault is None else exchange.fault.type,
                call=attempt.number,
                attempt=attempt.attempt_number,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cost_usd=exchange.cost_usd,
            )
        )


_TRUNCATED_ENDINGS: dict[ResponseEnding, TruncateEnding] = {
    "complete": "clean",
    "cut": "cut",
    "reset": "ConnectionError",
    "silence": "TimeoutError",
}


class _DecodedAnswer(Struct, frozen=True):
    """A captured response, decoded: the response, its timed pieces, and its failure, if any."""

    response: Response
    chunks: list[TimedPiece] | None = None
    fault: AnyFault | None = None


def provider_name_of(parsed: ParsedRequest) -> str:
    """Return the provider's name of a call in recordings; for plain HTTP, the vendor's."""
    codec = parsed.route.codec
    return parsed.route.vendor if codec is None else PROVIDER_NAMES[codec.name]


def build_exchange(
    parsed: ParsedRequest, captured: CapturedResponse, *, prices: PriceTable, made_at: datetime | None = None
) -> Exchange:
    """Build the exchange to record, at the prices of the moment `made_at`.

    Bytes that its codec cannot decode are recorded with a fault.
    """
    captured = _without_packed_body(captured)
    decoded, answer = _decode(parsed, captured), captured.answer
    is_timeout = isinstance(decoded.fault, Timeout)
    rest = Exchange(
        latency_ms=0.0 if is_timeout else answer.end_ms,
        chunks=decoded.chunks or None,
        fault=decoded.fault,
        request_hash=parsed.request_hash,
        request=Raw(parsed.fields),
        wire=_wire_of(parsed, answer),
    )
    return rest if parsed.request is None else _with_response(rest, decoded.response, parsed, prices, made_at)


def _without_packed_body(captured: CapturedResponse) -> CapturedResponse:
    """Return a response with a note in place of a body that is still compressed, because it cannot be searched for
    secrets.
    """
    answer = captured.answer
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity") or not answer.frames:
        return captured
    note = f"a body with the encoding {encoding} is not recorded".encode("ascii", "replace")
    headers = {name: value for name, value in answer.headers.items() if name != "content-encoding"}
    return replace(captured, answer=replace(answer, headers=headers, frames=((answer.end_ms, note),)))


def _with_response(
    rest: Exchange, response: Response, parsed: ParsedRequest, prices: PriceTable, made_at: datetime | None
) -> Exchange:
    provider, model = provider_name_of(parsed), response.model
    if rest.fault is None:
        model = model or parsed.model
        cost_usd = prices.cost_usd(provider, model, response.usage, at=made_at)
        rest = replace(rest, usage=response.usage, cost_usd=cost_usd if isfinite(cost_usd) else 0.0)
    return replace(
        rest,
        content=response.content,
        model=model,
        provider=provider,
        finish_reason=response.finish_reason if rest.fault is None or rest.chunks else UNSET,
        tool_calls=recorded_calls(response.tool_calls),
        reasoning=response.reasoning,
    )


def _wire_of(parsed: ParsedRequest, answer: HttpResponse) -> WireRecord | None:
    if answer.status is None:
        return None
    headers = replayable_headers(answer.headers)
    record = WireRecord(protocol=parsed.route.protocol, status=answer.status, headers=headers)
    if answer.is_streamed:
        return replace(record, frames=[(at_ms, wire_text(data)) for at_ms, data in answer.frames])
    content = answer.content
    return replace(record, body=wire_text(content) if content else None)


def _decode(parsed: ParsedRequest, captured: CapturedResponse) -> _DecodedAnswer:
    answer, codec = captured.answer, parsed.route.codec
    if answer.status is None:
        is_timeout = answer.ending == "silence"
        return _DecodedAnswer(Response(), fault=Timeout(after_ms=answer.end_ms) if is_timeout else ConnectionReset())
    if answer.is_streamed and codec is not None:
        return _decode_stream(parsed, captured, codec)
    if answer.ending != "complete" or captured.has_client_left:
        return _DecodedAnswer(Response(), fault=_truncated(answer, len(answer.frames) if answer.is_streamed else 0))
    if codec is None:
        return _DecodedAnswer(Response())
    return _decode_refusal(answer, codec) if answer.status != 200 else _decode_whole(answer, codec)


def _truncated(answer: HttpResponse, after_chunks: int) -> StreamTruncate:
    return StreamTruncate(after_chunks, _TRUNCATED_ENDINGS[answer.ending])


def _decode_refusal(answer: HttpResponse, codec: Codec) -> _DecodedAnswer:
    error = error_of_status(
        answer.status or 0,
        headers=replayable_headers(answer.headers),
        body=answer.content.decode("utf-8", "replace"),
        message=codec.decode_error(answer.content),
        now=SYSTEM_CLOCK.utc_now(),
    )
    return _DecodedAnswer(Response(), fault=fault_of(error, after_ms=0.0))


def _decode_whole(answer: HttpResponse, codec: Codec) -> _DecodedAnswer:
    try:
        return _DecodedAnswer(codec.decode_response(answer.content))
    except ProviderError as error:
        return _DecodedAnswer(Response(), fault=fault_of(error, after_ms=0.0))
    except Exception:
        return _DecodedAnswer(Response(), fault=fault_of(_unreadable_error(answer, codec), after_ms=0.0))


def _unreadable_error(answer: HttpResponse, codec: Codec) -> MalformedResponseError:
    """Return the error for bytes that a codec cannot decode. They are forwarded nevertheless."""
    logger.exception("a response of %s could not be decoded; its bytes are recorded", codec.name)
    return MalformedResponseError("unreadable", raw=answer.content.decode("utf-8", "replace"))


def _decode_stream(parsed: ParsedRequest, captured: CapturedResponse, codec: Codec) -> _DecodedAnswer:
    answer, chunks, joined = captured.answer, list[TimedPiece](), Accumulator()
    at_ms = 0.0
    try:
        decoder = codec.stream_decoder()
        for at_ms, data in stream_events(answer, is_array=parsed.is_array):
            for delta in decoder.feed(data):
                chunks.append((at_ms, piece_from_delta(delta)))
                joined.add(delta)
        deltas, response = decoder.close()
        chunks += [(at_ms, piece_from_delta(delta)) for delta in deltas]
    except Exception as error:
        response = joined.join(Response(finish_reason=None))
        return _DecodedAnswer(response, chunks, _stream_fault(error, captured, codec, len(chunks)))
    return _DecodedAnswer(response, chunks, None if answer.ending == "complete" else _truncated(answer, len(chunks)))


def _stream_fault(error: Exception, captured: CapturedResponse, codec: Codec, after_chunks: int) -> AnyFault:
    is_cut_off = captured.answer.ending != "complete" or captured.has_client_left
    if is_cut_off or isinstance(error, ProviderConnectionError):
        return _truncated(captured.answer, after_chunks)
    known = error if isinstance(error, ProviderError) else _unreadable_error(captured.answer, codec)
    return stream_fault_of(known, after_chunks=after_chunks) if after_chunks else fault_of(known, after_ms=0.0)
