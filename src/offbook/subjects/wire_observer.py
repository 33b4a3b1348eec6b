"""Observes the model calls of a program over HTTP, and infers which tools it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

import orjson
from msgspec import Struct

from offbook.call_numbers import Site
from offbook.clock import SYSTEM_CLOCK
from offbook.codecs.base import Codec
from offbook.codecs.framing import encode_sse_event
from offbook.codecs.status import retry_after_s
from offbook.errors import OffbookError
from offbook.explore.observers import lost_messages
from offbook.explore.run import CallOutcome, ChunkKind, ModelCall, ToolRun, chunk_kind
from offbook.messages import Accumulator, JsonObject, Response, StreamDelta, ToolCall
from offbook.recording.format.wire_record import json_documents
from offbook.wire.calls import CallAttempt, WireOutcome
from offbook.wire.faults import spoils_answer
from offbook.wire.request import ParsedRequest
from offbook.wire.response import HttpResponse, split_events


def requested_tools(asked: ParsedRequest, answer: HttpResponse) -> tuple[ToolCall, ...]:
    """The calls of tools in an answer; none if it cannot be read as one."""
    codec = asked.route.codec
    if codec is None or answer.status != 200:
        return ()
    try:
        response = (
            _streamed_response(asked, answer, codec) if answer.is_streamed else codec.decode_response(answer.content)
        )
    except OffbookError:
        return ()
    return response.tool_calls


def chunk_kinds(asked: ParsedRequest, answer: HttpResponse) -> tuple[ChunkKind, ...]:
    """What each frame of a streamed answer brings, as far as it can be read."""
    codec = asked.route.codec
    if codec is None or not answer.is_streamed:
        return ()
    chunks: list[ChunkKind] = []
    decoder = codec.stream_decoder()
    try:
        for frame in _frames(asked, answer):
            deltas = list(decoder.feed(frame))
            chunks.append(chunk_kind(deltas[0]) if deltas else "other")
    except OffbookError:
        return tuple(chunks)
    return tuple(chunks)


def _streamed_response(asked: ParsedRequest, answer: HttpResponse, codec: Codec) -> Response:
    decoder, joined = codec.stream_decoder(), Accumulator()
    deltas: list[StreamDelta] = [delta for frame in _frames(asked, answer) for delta in decoder.feed(frame)]
    rest, response = decoder.close()
    for delta in deltas + rest:
        joined.add(delta)
    return joined.join(response)


def _frames(asked: ParsedRequest, answer: HttpResponse) -> Iterator[bytes]:
    """The events, or the items of an array as if they were events."""
    if not asked.is_array:
        yield from (data for _, data in split_events(answer))
        return
    for document in json_documents(answer.content):
        yield encode_sse_event(orjson.dumps(document))


NEGLIGIBLE_WAIT_S = 0.1
"""A wait that nobody could be blamed for not keeping to."""


class _ObservedCall(Struct, frozen=True):
    """A call that was answered at `at_s`."""

    taken: CallAttempt
    answer: HttpResponse
    outcome: WireOutcome
    site: Site
    at_s: float

    @property
    def messages(self) -> Sequence[JsonObject]:
        return () if self.taken.asked.request is None else self.taken.asked.request.messages

    @property
    def due_s(self) -> float:
        """When the next try may come."""
        wait_s = retry_after_s(self.answer.headers, now=SYSTEM_CLOCK.utc_now()) or 0.0
        return self.at_s + (wait_s if wait_s > NEGLIGIBLE_WAIT_S else 0.0)


class WireObserver:
    """Watches one run of a program. `on_endless` is called when it has made more than `max_calls` calls.

    `endless` says so, too; what comes after that is not noted.
    """

    def __init__(self, *, max_calls: int, on_endless: Callable[[], object]) -> None:
        self.endless = ""
        self._max_calls, self._on_endless = max_calls, on_endless
        self._heard: list[_ObservedCall] = []
        self._arrived: set[int] = set()

    def answered(self, taken: CallAttempt, answer: HttpResponse, outcome: WireOutcome) -> None:
        if taken.site is None:
            return
        if len(self._heard) < self._max_calls:
            self._heard.append(_ObservedCall(taken, answer, outcome, taken.site, SYSTEM_CLOCK.monotonic_s()))
        elif not self.endless:
            self.endless = f"it made more than {self._max_calls} calls of models"
            self._on_endless()

    def arrived(self, taken: CallAttempt) -> None:
        self._arrived.add(taken.number)

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The calls of models so far."""
        return tuple(self._call(heard, self._heard[:place]) for place, heard in enumerate(self._heard.copy()))

    def tools(self, side_effects: Collection[str]) -> tuple[ToolRun, ...]:
        """The tools that complete answers have asked for, which the program is taken to have run then.

        One whose arguments are no JSON is not. The results are those that the program told the model.
        """
        told = dict(each for heard in self._heard for each in _tool_results(heard.messages))
        counts = Counter[str]()
        runs = []
        for heard in self._heard:
            for call in requested_tools(heard.taken.asked, heard.answer) if self._has_come(heard) else ():
                if call.raw_arguments is None:
                    counts[call.tool] += 1
                    runs.append(
                        ToolRun(
                            tool=call.tool,
                            call=counts[call.tool],
                            arguments=call.args,
                            result=told.get(call.id or "", ""),
                            side_effect=call.tool in side_effects,
                        )
                    )
        return tuple(runs)

    def _call(self, heard: _ObservedCall, before: Sequence[_ObservedCall]) -> ModelCall:
        taken, site, request = heard.taken, heard.site, heard.taken.asked.request
        outcome = self._outcome(heard)
        asked_for = requested_tools(taken.asked, heard.answer) if outcome == "answered" else ()
        return ModelCall(
            number=site.overall,
            step_id=site.step_id,
            step_call=site.call,
            attempt=site.attempt,
            model=taken.asked.model,
            has_tools=request is not None and bool(request.tools),
            is_streamed=taken.asked.is_streamed,
            chunks=chunk_kinds(taken.asked, heard.answer),
            asks_for=tuple((call.tool, call.args) for call in asked_for),
            outcome=outcome,
            error=_failure_text(heard) if outcome != "answered" else "",
            is_too_soon=_is_too_soon(heard, before),
            forgot=self._forgot(heard, before) if outcome == "diverged" else 0,
        )

    def _outcome(self, heard: _ObservedCall) -> CallOutcome:
        if heard.outcome in ("missed", "default"):
            return "diverged"
        return "answered" if self._has_come(heard) else "failed"

    def _has_come(self, heard: _ObservedCall) -> bool:
        """Whether the client has got a good answer, to its end."""
        if spoils_answer(heard.taken.fault, heard.answer) or heard.answer.status != 200:
            return False
        return heard.answer.end_ms <= 0 or heard.taken.number in self._arrived

    def _forgot(self, heard: _ObservedCall, before: Sequence[_ObservedCall]) -> int:
        last = before[-1] if before else None
        return 0 if last is None or self._outcome(last) != "failed" else lost_messages(last.messages, heard.messages)


def _is_too_soon(heard: _ObservedCall, before: Sequence[_ObservedCall]) -> bool:
    """Whether the last try of this call was told to wait for longer."""
    last = next((each for each in reversed(before) if each.site.overall == heard.site.overall), None)
    return last is not None and heard.at_s < last.due_s


def _failure_text(heard: _ObservedCall) -> str:
    """What the client got instead of an answer."""
    status, fault = heard.answer.status, heard.taken.fault
    if fault is not None and (status is None or status == 200):
        return fault.type
    return f"HTTP {status}"


def _tool_results(messages: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """What the model was told that tools gave, by the ids of their calls."""
    told = [message for message in messages if message.get("role") == "tool"]
    return [(str(message.get("tool_call_id")), str(message.get("content"))) for message in told]
