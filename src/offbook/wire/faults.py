"""Applies a fault to an HTTP response: the bytes, delays and broken endings that the client gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import singledispatch
from typing import Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, SystemClock
from offbook.codecs.base import AWS_RETRY_AFTER, Codec, retry_after_s
from offbook.codecs.framing import encode_frame
from offbook.errors import MalformedResponseError, ProviderError
from offbook.faults import (
    AnyFault,
    ContextOverflow,
    Fault,
    FaultedCall,
    HttpError,
    SlowDrip,
    StreamStall,
    StreamTruncate,
    WrongContentType,
    WrongShape,
)
from offbook.faults.fault import INJECTED_ERROR, add_mark
from offbook.faults.order import OrderFault
from offbook.faults.stream import MALFORMED
from offbook.messages import Reply, Request, Response, WholeReply, deltas_of
from offbook.wire.patch import patch_response
from offbook.wire.request import ParsedRequest
from offbook.wire.response import (
    JSON_TYPE,
    Frame,
    HttpResponse,
    ResponseEnding,
    array_piece,
    encode_model_response,
    error_response,
    split_events,
    whole_response,
)

T = TypeVar("T")
DRIP_PIECES = 16
"""The number of pieces in which an unstreamed response drips."""

_ENDINGS: dict[str, ResponseEnding] = {"ConnectionError": "reset", "TimeoutError": "silence", "cut": "cut"}
_EVENT_NAMES = {"anthropic": "content_block_delta", "bedrock": "contentBlockDelta", "bedrock_anthropic": "chunk"}
"""The event that carries a piece of an answer, in protocols that name their events."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_INVALID_HEADER_TEXT = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


class FaultTarget(Struct, frozen=True):
    """The call that a fault applies to: the request, its answer without the fault, and the response in it.

    In an exploration, every injected text carries the `mark`; elsewhere it is empty.
    """

    parsed: ParsedRequest
    clean: Callable[[], HttpResponse]
    response: Callable[[], Response]
    mark: str = ""

    def marked(self, text: str) -> str:
        """Return the text with the mark, if any."""
        return add_mark(text, self.mark)

    @property
    def codec(self) -> Codec:
        return self.parsed.route.any_codec

    @property
    def body_type(self) -> str:
        """The content type of an answer to the request."""
        return self.codec.stream_type if self.parsed.is_streamed and not self.parsed.is_array else JSON_TYPE


class _CountedWaits(SystemClock):
    """A clock without real waits, which counts their length."""

    def __init__(self) -> None:
        self.waited_ms = 0.0

    async def sleep_s(self, delay_s: float) -> None:
        self.waited_ms += max(delay_s, 0.0) * 1000.0


@singledispatch
def apply_fault(fault: Fault | OrderFault, target: FaultTarget) -> HttpResponse:
    """Return the answer to the client with `fault` applied.

    The fault is applied to the model's response. Its change is made in the recorded bytes, or the response is encoded
    in the call's protocol; an error becomes a response that makes a client raise a corresponding error. If the fault
    waits, the answer is late. A plain HTTP call has no such response, but can fail and be late.
    """
    parsed, clock = target.parsed, _CountedWaits()
    before: list[Response] = []

    async def clean() -> Reply:
        before.append(Response() if parsed.request is None else target.response())
        return WholeReply(before[-1])

    async def apply() -> Response:
        request = parsed.request or Request(messages=(), model=parsed.model)
        return await (await fault.apply(FaultedCall(request, clean, clock, "", target.mark))).collect()

    try:
        after = _result_without_waiting(apply())
    except ProviderError as error:
        return _failed_response(error, target, waited_ms=clock.waited_ms)
    return _late(_changed_response(target, before[0] if before else None, after), clock.waited_ms)


def _changed_response(target: FaultTarget, before: Response | None, after: Response) -> HttpResponse:
    """Return the answer with the response `after`, made from `before` or from nothing."""
    parsed, codec = target.parsed, target.codec
    clean = target.clean() if before is not None or parsed.request is None else None
    if clean is not None and (parsed.request is None or clean.status != 200 or clean.ending != "complete"):
        return clean
    patched = None if clean is None or before is None else patch_response(clean, before, after, codec)
    return patched or encode_model_response(after, deltas_of(after), parsed, codec)


def _late(answer: HttpResponse, delay_ms: float) -> HttpResponse:
    if not delay_ms:
        return answer
    frames = tuple((at_ms + delay_ms, data) for at_ms, data in answer.frames)
    return replace(answer, frames=frames, end_ms=answer.end_ms + delay_ms)


def _failed_response(error: ProviderError, target: FaultTarget, *, waited_ms: float) -> HttpResponse:
    """Return the response that makes a client raise an error like `error`."""
    match error:
        case MalformedResponseError():
            return whole_response(200, error.raw.encode("utf-8", "replace"), content_type=target.body_type)
        case TimeoutError():
            return HttpResponse(None, ending="silence", end_ms=waited_ms or float("inf"))
        case ConnectionError():
            return HttpResponse(None, ending="reset")
        case _:
            return error_response(
                target.codec, error.status_code or 500, str(error), headers=_sendable(error.headers, target.codec)
            )


def _result_without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise AssertionError("a fault of the model's response waited")


@apply_fault.register
def _(fault: OrderFault, target: FaultTarget) -> HttpResponse:
    return target.clean()  # when it is sent is up to the server


@apply_fault.register
def _(fault: HttpError, target: FaultTarget) -> HttpResponse:
    headers, text = _sendable(fault.headers, target.codec), fault.said(target.mark)
    if not fault.body:
        return error_response(target.codec, fault.status_code, text, headers=headers)
    return whole_response(fault.status_code, text.encode("utf-8", "replace"), headers=headers)


def _sendable(headers: dict[str, str], codec: Codec) -> dict[str, str]:
    """Drop headers with invalid names, and replace invalid characters by `?`.

    AWS has its own header for the wait.
    """
    named = {name: value for name, value in headers.items() if _HEADER_NAME.fullmatch(name)}
    wait_s = retry_after_s(named, now=SYSTEM_CLOCK.utc_now()) if codec.name.startswith("bedrock") else None
    if wait_s is not None:
        named = {AWS_RETRY_AFTER: f"{wait_s * 1000:.0f}"} | named
    return {name: _INVALID_HEADER_TEXT.sub("?", value) for name, value in named.items()}


@apply_fault.register
def _(fault: ContextOverflow, target: FaultTarget) -> HttpResponse:
    if not target.codec.name.startswith("openai"):
        return error_response(target.codec, fault.status_code, target.marked(fault.message))
    return whole_response(fault.status_code, target.marked(fault.body).encode())


@apply_fault.register
def _(fault: WrongShape, target: FaultTarget) -> HttpResponse:
    raw = target.marked(fault.raw).encode("utf-8", "replace")
    if target.body_type != JSON_TYPE:
        on_one_line = orjson.dumps(orjson.loads(raw))
        raw = encode_frame(target.body_type, on_one_line, "chunk" if target.codec.name == "bedrock_anthropic" else "")
    return whole_response(200, raw, content_type=target.body_type)


@apply_fault.register
def _(fault: WrongContentType, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    return replace(clean, headers=clean.headers | {"content-type": fault.content_type})


@apply_fault.register
def _(fault: StreamTruncate, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    if clean.status is None:
        return clean
    sent = fault.paced(split_events(clean)) if clean.is_streamed else _first_half(clean)
    last_ms = sent[-1][0] if sent else 0.0
    match fault.ending_on_wire:
        case "clean":
            return replace(clean, frames=sent, end_ms=last_ms)
        case "error_event":
            event = _error_event(target, is_first=not sent) if clean.is_streamed else b""
            return replace(clean, frames=(*sent, (last_ms, event)), end_ms=last_ms)
        case "malformed":
            return replace(clean, frames=(*sent, (last_ms, _malformed_event(target, clean))), end_ms=last_ms)
        case _:
            return end_as_recorded(fault, replace(clean, frames=sent, end_ms=last_ms))


def _first_half(clean: HttpResponse) -> tuple[Frame, ...]:
    data = clean.content
    return ((0.0, data[: len(data) // 2]),)


def _malformed_event(target: FaultTarget, clean: HttpResponse) -> bytes:
    if not clean.is_streamed or target.parsed.is_array:
        return MALFORMED
    return encode_frame(target.codec.stream_type, MALFORMED, _EVENT_NAMES.get(target.codec.name, ""))


def _error_event(target: FaultTarget, *, is_first: bool) -> bytes:
    event = target.codec.encode_stream_error(target.marked(INJECTED_ERROR))
    return array_piece(event, is_first=is_first, is_last=True) if target.parsed.is_array else event


@apply_fault.register
def _(fault: StreamStall, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    return replace(clean, frames=fault.paced(split_events(clean)), end_ms=clean.end_ms + fault.for_ms)


@apply_fault.register
def _(fault: SlowDrip, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    frames = fault.paced(split_events(clean) if clean.is_streamed else _in_pieces(clean.content))
    return replace(clean, frames=frames, end_ms=frames[-1][0] if frames else 0.0)


def _in_pieces(data: bytes) -> tuple[Frame, ...]:
    size = max(1, -(-len(data) // DRIP_PIECES))
    return tuple((0.0, data[start : start + size]) for start in range(0, len(data), size))


def end_as_recorded(fault: AnyFault, answer: HttpResponse) -> HttpResponse:
    """Return the bytes of a call that failed midway, ended as the fault says."""
    match fault:
        case StreamTruncate(ending_on_wire=ending) if ending in _ENDINGS:
            silent_ms = float("inf") if ending == "TimeoutError" else answer.end_ms
            return replace(answer, ending=_ENDINGS[ending], end_ms=silent_ms)
        case _:
            return answer


_RETRY_HEADERS = frozenset(("retry-after", "retry-after-ms"))


def with_retry_after(answer: HttpResponse, retry_after_ms: float | None) -> HttpResponse:
    """Add `retry-after-ms` to an error response without a wait, unless it is None."""
    is_error = answer.status is not None and answer.status >= 400
    if retry_after_ms is None or not is_error or _RETRY_HEADERS & answer.headers.keys():
        return answer
    return replace(answer, headers=answer.headers | {"retry-after-ms": f"{retry_after_ms:g}"})
