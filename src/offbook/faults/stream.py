"""Faults of a stream: it breaks off, stalls, or arrives slowly; a WebSocket is closed, or its messages are mixed up."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, ClassVar, Literal, Self, TypeVar, cast, get_args

from msgspec import Meta, field

from offbook.errors import (
    InputError,
    MalformedResponseError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
)
from offbook.faults.fault import (
    INJECTED_ERROR,
    UNANSWERED_MS,
    Count,
    Fault,
    FaultedCall,
    FaultFamily,
    FaultTrait,
    FaultVariant,
    Milliseconds,
    add_mark,
)
from offbook.faults.named_errors import error_class
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, WholeReply

TruncateEnding = Literal["ConnectionError", "TimeoutError", "clean", "cut", "error_event", "malformed"]
_ENDINGS: frozenset[str] = frozenset(get_args(TruncateEnding))


MALFORMED = b'{"broken'
"""Bytes inside a stream that no protocol allows."""

P = TypeVar("P")


class PacedStream(Fault, frozen=True):
    """Delays the pieces of an answer, or ends it before its last piece: events of a stream, bytes, or frames.

    The sender decides how a stream ends early: by an exception here, by bytes and a close on a connection.
    """

    family: ClassVar[FaultFamily] = "stream"

    @abstractmethod
    def pause_ms(self, place: int, *, is_last: bool) -> float | None:
        """Return the wait before the piece at `place`, from 0, or None if the stream ends there."""

    def paced(self, pieces: Sequence[tuple[float, P]]) -> tuple[tuple[float, P], ...]:
        """Return the pieces that arrive, each with its time in ms; `pieces` are those without the fault."""
        arriving, late_ms = list[tuple[float, P]](), 0.0
        for place, (at_ms, piece) in enumerate(pieces):
            pause_ms = self.pause_ms(place, is_last=place == len(pieces) - 1)
            if pause_ms is None:
                break
            late_ms += pause_ms
            arriving.append((at_ms + late_ms, piece))
        return tuple(arriving)

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(self._events(call, clean), source=clean)

    async def _events(self, call: FaultedCall, clean: Reply) -> AsyncGenerator[StreamEvent]:
        """Yield events as they arrive. For a live stream, `paced` would have to wait for all of them."""
        place = 0
        async with aclosing(clean):
            async for event in clean:
                pause_ms = self.pause_ms(place, is_last=isinstance(event, StreamEnd))
                if pause_ms is None:
                    break
                if pause_ms:
                    await call.clock.sleep_s(pause_ms / 1000.0)
                yield event
                place += 1


def _no_pause_until(end: int, place: int, *, is_last: bool) -> float | None:
    """Return no pause before the place `end`. The last piece never arrives: with it, the stream would be complete."""
    return None if is_last or place >= end else 0.0


class StreamTruncate(PacedStream, frozen=True, tag="stream_truncate"):
    """Yields `after_chunks` events, then ends the stream.

    `ending` is the way: a broken connection, silence, a clean EOF (`clean`), an EOF in the middle of the body
    (`cut`), an error event, bytes that violate the protocol (`malformed`), or the exception of this name. On a
    connection, a named exception is silence if it is a timeout, and a broken connection otherwise.
    """

    breaks_response: ClassVar[bool] = True
    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer"})

    after_chunks: Count = 0
    ending: str = field(name="raise", default="ConnectionError")

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("stream_truncate reset", cls(0, "ConnectionError"), needs_stream=True),
            FaultVariant("stream_truncate clean", cls(0, "clean"), needs_stream=True),
            FaultVariant("stream_truncate error_event", cls(0, "error_event"), needs_stream=True),
            FaultVariant("stream_truncate cut", cls(0, "cut"), needs_stream=True, http_only=True),
        )

    def pause_ms(self, place: int, *, is_last: bool) -> float | None:
        return _no_pause_until(self.after_chunks, place, is_last=is_last)

    async def _events(self, call: FaultedCall, clean: Reply) -> AsyncGenerator[StreamEvent]:
        async with aclosing(super()._events(call, clean)) as events:
            async for event in events:
                yield event
        raise self._error(call)

    def check(self) -> None:
        if self.ending not in _ENDINGS:
            error_class(self.ending)

    @property
    def ending_on_wire(self) -> TruncateEnding:
        """The ending of the stream on a connection."""
        if self.ending in _ENDINGS:
            return cast("TruncateEnding", self.ending)
        return "TimeoutError" if issubclass(error_class(self.ending), TimeoutError) else "ConnectionError"

    def _error(self, call: FaultedCall) -> ProviderError:
        provider, place = call.provider, f"after {self.after_chunks} chunks"
        match self.ending:
            case "TimeoutError":
                return ProviderTimeoutError(f"the stream fell silent {place}", provider=provider)
            case "clean" | "cut":
                is_clean = self.ending == "clean"
                cut = "connection was closed in the middle of the body"
                how = "stream ended before its last event" if is_clean else cut
                return ProviderConnectionError(f"the {how}, {place}", provider=provider)
            case "error_event":
                message = add_mark(f"error inside the stream, {place}: {INJECTED_ERROR}", call.mark)
                return ProviderError(message, provider=provider)
            case "malformed":
                return MalformedResponseError(f"unreadable bytes inside the stream, {place}", provider=provider)
            case "ConnectionError":
                return ProviderConnectionError(f"the connection broke {place}", provider=provider)
            case _:
                return error_class(self.ending)(f"the stream failed {place}", provider=provider)


class StreamStall(PacedStream, frozen=True, tag="stream_stall"):
    """Yields `after_chunks` events (at most all but the last), pauses for `for_ms`, and then yields the rest."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"holds_back"})

    after_chunks: Count = 0
    for_ms: Milliseconds = 60_000.0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("stream_stall", cls(0, UNANSWERED_MS), needs_stream=True),)

    def pause_ms(self, place: int, *, is_last: bool) -> float:
        is_here = place == self.after_chunks or (is_last and place < self.after_chunks)
        return self.for_ms if is_here else 0.0


class SlowDrip(PacedStream, frozen=True, tag="slow_drip"):
    """Waits `every_ms` before each event of a stream, including the last. An unstreamed response arrives as late as if
    it were streamed word by word.
    """

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"holds_back"})

    every_ms: Milliseconds = 100.0

    def pause_ms(self, place: int, *, is_last: bool) -> float:
        return self.every_ms

    async def apply(self, call: FaultedCall) -> Reply:
        if call.request.stream:
            return await super().apply(call)
        clean = await call.clean()
        return StreamedReply(self._delayed_response(call, clean), source=clean)

    async def _delayed_response(self, call: FaultedCall, clean: Reply) -> AsyncIterator[StreamEvent]:
        async with aclosing(clean):
            response = await clean.collect()
        await call.clock.sleep_s(self.every_ms / 1000.0 * _count_events(response))
        async for event in WholeReply(response):
            yield event


def _count_events(response: Response) -> int:
    """Return the number of a response's events when streamed word by word, including its end."""
    return bool(response.reasoning) + len(response.content.split()) + len(response.tool_calls) + 1


CloseCode = Annotated[int, Meta(ge=1000, le=4999)]
_UNSENT_CODES = (1004, 1005, 1006, *range(1015, 3000))
"""Codes that no close frame may carry."""
MAX_REASON_BYTES = 123
"""The maximum length of a close frame's reason, by RFC 6455."""


class WsClose(PacedStream, frozen=True, tag="ws_close"):
    """Sends `after_chunks` messages of a WebSocket, then closes it with a code. Other calls fail like after a reset."""

    breaks_response: ClassVar[bool] = True
    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer"})

    code: CloseCode = 1011
    reason: str = "an injected close"
    after_chunks: Count = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (
            FaultVariant("ws_close 1011", cls(), is_optional=True, http_only=True),
            FaultVariant("ws_close 1013", cls(1013), is_optional=True, http_only=True),
            FaultVariant("ws_close 1001", cls(1001), is_optional=True, http_only=True),
        )

    def check(self) -> None:
        if self.code in _UNSENT_CODES:
            reason = f"no server sends {self.code}: expected 1000 to 1003, 1007 to 1014, or 3000 to 4999"
            raise InputError(reason, place="code")
        if len(self.reason.encode("utf-8", "replace")) > MAX_REASON_BYTES:
            raise InputError(f"the reason of a close frame has at most {MAX_REASON_BYTES} bytes", place="reason")

    def pause_ms(self, place: int, *, is_last: bool) -> float | None:
        return _no_pause_until(self.after_chunks, place, is_last=is_last)

    async def apply(self, call: FaultedCall) -> Reply:
        reason = add_mark(self.reason, call.mark)
        raise ProviderConnectionError(
            f"the connection was closed: {self.code} {reason}".strip(), provider=call.provider
        )


class WsReorder(Fault, frozen=True, tag="ws_reorder"):
    """Sends the WebSocket message after `after_chunks` others behind the next one. Other calls do not change."""

    family: ClassVar[FaultFamily] = "stream"

    after_chunks: Count = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("ws_reorder", cls(), is_optional=True, http_only=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return await call.clean()


class WsRepeat(Fault, frozen=True, tag="ws_repeat"):
    """Sends the WebSocket message after `after_chunks` others twice. Other calls do not change."""

    family: ClassVar[FaultFamily] = "stream"

    after_chunks: Count = 0

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("ws_repeat", cls(), is_optional=True, http_only=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return await call.clean()
