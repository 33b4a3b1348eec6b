"""Builds the recorded exchange from a captured response: its bytes, and what they decode to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from math import isfinite

import orjson
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import Codec
from offbook.codecs.framing import encode_sse_event
from offbook.codecs.status import error_of_status
from offbook.errors import MalformedResponseError, ProviderConnectionError, ProviderError
from offbook.faults import AnyFault, ConnectionReset, StreamTruncate, Timeout, fault_of, stream_fault_of
from offbook.faults.stream import TruncateEnding as TruncatedEnding
from offbook.messages import Accumulator, Response
from offbook.providers.pricing import PriceTable
from offbook.recording.format.exchange import Exchange, TimedPiece, piece_from_delta, recorded_calls
from offbook.recording.format.wire_record import WireRecord, json_documents, replayable_headers, wire_text
from offbook.vendors import PROVIDER_NAMES
from offbook.wire.proxy.capture import CapturedResponse
from offbook.wire.request import ParsedRequest
from offbook.wire.response import Frame, HttpResponse
from offbook.wire.response import ResponseEnding as AnswerEnding

logger = logging.getLogger("offbook.wire")

_TRUNCATED_ENDINGS: dict[AnswerEnding, TruncatedEnding] = {
    "complete": "clean",
    "cut": "cut",
    "reset": "ConnectionError",
    "silence": "TimeoutError",
}


class _DecodedAnswer(Struct, frozen=True):
    """What an answer says: the response, the pieces it came in, and how it failed if it did."""

    response: Response
    chunks: list[TimedPiece] | None = None
    fault: AnyFault | None = None


def provider_name_of(asked: ParsedRequest) -> str:
    """The name under which recordings have the provider of a call, or of plain HTTP the vendor's."""
    codec = asked.route.codec
    return asked.route.vendor if codec is None else PROVIDER_NAMES[codec.name]


def build_exchange(asked: ParsedRequest, heard: CapturedResponse, *, prices: PriceTable, recorded_at: str) -> Exchange:
    """The exchange that is kept of a call. What its codec cannot read is told by a fault, beside the bytes."""
    said, answer = _decode(asked, heard), heard.answer
    is_timeout = isinstance(said.fault, Timeout)
    rest = Exchange(
        latency_ms=0.0 if is_timeout else answer.end_ms,
        chunks=said.chunks or None,
        fault=said.fault,
        recorded_at=recorded_at,
        request_hash=asked.request_hash,
        request=Raw(asked.fields),
        wire=_wire_of(asked, answer),
    )
    return rest if asked.request is None else _with_response(rest, said.response, asked, prices)


def _with_response(rest: Exchange, response: Response, asked: ParsedRequest, prices: PriceTable) -> Exchange:
    provider, model = provider_name_of(asked), response.model
    if rest.fault is None:
        model = model or asked.model
        cost_usd = prices.cost_usd(provider, model, response.usage)
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


def _wire_of(asked: ParsedRequest, answer: HttpResponse) -> WireRecord | None:
    if answer.status is None:
        return None
    headers = replayable_headers(answer.headers)
    if "content-encoding" in answer.headers:  # the bytes are still packed
        headers["content-encoding"] = answer.headers["content-encoding"]
    record = WireRecord(protocol=asked.route.protocol, status=answer.status, headers=headers)
    if answer.is_streamed:
        return replace(record, frames=[(at_ms, wire_text(data)) for at_ms, data in answer.frames])
    content = answer.content
    return replace(record, body=wire_text(content) if content else None)


def _decode(asked: ParsedRequest, heard: CapturedResponse) -> _DecodedAnswer:
    answer, codec = heard.answer, asked.route.codec
    if answer.status is None:
        is_timeout = answer.ending == "silence"
        return _DecodedAnswer(Response(), fault=Timeout(after_ms=answer.end_ms) if is_timeout else ConnectionReset())
    if answer.is_streamed and codec is not None:
        return _decode_stream(asked, heard, codec)
    if answer.ending != "complete" or heard.has_client_left:
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
    """The error for bytes that a codec choked on; passing them on must not suffer from that."""
    logger.exception("an answer of %s could not be read; its bytes are kept", codec.name)
    return MalformedResponseError("unreadable", raw=answer.content.decode("utf-8", "replace"))


def _decode_stream(asked: ParsedRequest, heard: CapturedResponse, codec: Codec) -> _DecodedAnswer:
    answer, chunks, joined = heard.answer, list[TimedPiece](), Accumulator()
    try:
        response = _decode_events(codec, _events(asked, answer), chunks, joined)
    except Exception as error:
        response = joined.join(Response(finish_reason=None))
        return _DecodedAnswer(response, chunks, _stream_fault(error, heard, codec, len(chunks)))
    return _DecodedAnswer(response, chunks, None if answer.ending == "complete" else _truncated(answer, len(chunks)))


def _stream_fault(error: Exception, heard: CapturedResponse, codec: Codec, after_chunks: int) -> AnyFault:
    is_cut_off = heard.answer.ending != "complete" or heard.has_client_left
    if is_cut_off or isinstance(error, ProviderConnectionError):
        return _truncated(heard.answer, after_chunks)
    known = error if isinstance(error, ProviderError) else _unreadable_error(heard.answer, codec)
    return stream_fault_of(known, after_chunks=after_chunks) if after_chunks else fault_of(known, after_ms=0.0)


def _decode_events(codec: Codec, events: Iterator[Frame], chunks: list[TimedPiece], joined: Accumulator) -> Response:
    """The response, after its pieces were put into `chunks` and `joined`, which hold them also if it fails."""
    decoder, at_ms = codec.stream_decoder(), 0.0
    for at_ms, data in events:
        for delta in decoder.feed(data):
            chunks.append((at_ms, piece_from_delta(delta)))
            joined.add(delta)
    deltas, response = decoder.close()
    chunks += [(at_ms, piece_from_delta(delta)) for delta in deltas]
    return response


def _events(asked: ParsedRequest, answer: HttpResponse) -> Iterator[Frame]:
    """The frames, or the items of an array as if they were events."""
    content = answer.content if asked.is_array else b""
    if not content.lstrip().startswith(b"["):
        yield from answer.frames
        return
    for document in json_documents(content):
        yield answer.end_ms, encode_sse_event(orjson.dumps(document))
