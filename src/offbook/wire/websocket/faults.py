"""Applies a fault to one exchange of a WebSocket session: to its frames, their times, and their ending."""

from __future__ import annotations

from functools import singledispatch

import orjson
from msgspec.structs import replace

from offbook.faults import Fault, HttpError, StreamTruncate, WsClose, WsReorder, WsRepeat
from offbook.faults.fault import INJECTED_ERROR
from offbook.faults.order import OrderFault
from offbook.faults.stream import MALFORMED, PacedStream
from offbook.wire.faults import FaultTarget, apply_fault, end_as_recorded
from offbook.wire.response import Frame, HttpResponse
from offbook.wire.websocket.framing import INTERNAL_ERROR, NORMAL_CLOSURE, TEXT, CloseMessage, encode_frame
from offbook.wire.websocket.turn import SWITCHING_PROTOCOLS, close_code, closed


@singledispatch
def apply_to_frames(fault: Fault | OrderFault, target: FaultTarget) -> HttpResponse:
    """Return the client's answer with `fault` applied to its exchange.

    A fault without a WebSocket form acts as on an HTTP response whose body is these frames.
    """
    return apply_fault(fault, target)


@apply_to_frames.register
def _(fault: HttpError, target: FaultTarget) -> HttpResponse:
    if not target.parsed.is_message:
        return apply_fault(fault, target)
    opened = HttpResponse(SWITCHING_PROTOCOLS, is_streamed=True)
    return closed(opened, CloseMessage(close_code(fault.status_code), fault.said(target.mark)))


@apply_to_frames.register
def _(fault: StreamTruncate, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    if clean.status != SWITCHING_PROTOCOLS:
        return apply_fault(fault, target)
    cut = _cut(fault, clean)
    match fault.ending_on_wire:
        case "clean":
            return closed(cut, CloseMessage(NORMAL_CLOSURE))
        case "cut":
            cut = replace(cut, frames=(*cut.frames, *_half_frame(clean, len(cut.frames))))
            return end_as_recorded(fault, cut)
        case "error_event":
            return _with_error(cut, target)
        case "malformed":
            return replace(cut, frames=(*cut.frames, (cut.end_ms, encode_frame(TEXT, MALFORMED))))
        case _:
            return end_as_recorded(fault, cut)


def _cut(fault: PacedStream, clean: HttpResponse) -> HttpResponse:
    """Return the answer with the frames that arrive before the fault ends it."""
    frames = fault.paced(clean.frames)
    return replace(clean, frames=frames, end_ms=frames[-1][0] if frames else 0.0, ending="complete")


def _half_frame(clean: HttpResponse, place: int) -> tuple[Frame, ...]:
    """Return the first half of the frame at a position, if it exists."""
    return tuple((at_ms, data[: len(data) // 2]) for at_ms, data in clean.frames[place : place + 1])


def _with_error(cut: HttpResponse, target: FaultTarget) -> HttpResponse:
    """Return the frames with an error after them: an event if the vendor has one, else a close."""
    message = target.marked(INJECTED_ERROR)
    if target.parsed.route.vendor != "openai":
        return closed(cut, CloseMessage(INTERNAL_ERROR, message))
    event = {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": message}}
    return replace(cut, frames=(*cut.frames, (cut.end_ms, encode_frame(TEXT, orjson.dumps(event)))))


@apply_to_frames.register
def _(fault: WsClose, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    if clean.status != SWITCHING_PROTOCOLS:
        return clean
    return closed(_cut(fault, clean), CloseMessage(fault.code, target.marked(fault.reason)))


@apply_to_frames.register
def _(fault: WsReorder, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    frames, at = list(clean.frames), fault.after_chunks
    if clean.ending == "complete" and at + 1 < len(frames):
        (first_ms, first), (second_ms, second) = frames[at : at + 2]
        frames[at : at + 2] = [(first_ms, second), (second_ms, first)]
    return replace(clean, frames=tuple(frames))


@apply_to_frames.register
def _(fault: WsRepeat, target: FaultTarget) -> HttpResponse:
    clean = target.clean()
    repeated = clean.frames[fault.after_chunks : fault.after_chunks + 1] if clean.ending == "complete" else ()
    end = fault.after_chunks + 1
    return replace(clean, frames=(*clean.frames[:end], *repeated, *clean.frames[end:]))
