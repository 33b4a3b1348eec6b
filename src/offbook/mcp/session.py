"""The requests of one run to one MCP server: numbered in the session of the run, answered, broken and noted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RecordingMismatchError, RecordingWriteError
from offbook.faults.catalog import AnyToolFault
from offbook.mcp.answer import McpAnswer, TimedMessage, error_answer
from offbook.mcp.faults import FOREVER, FaultedCall, LastingFaults, apply_fault, spoils_call
from offbook.mcp.message import (
    INTERNAL_ERROR,
    KNOWN_METHODS,
    METHOD_NOT_FOUND,
    MISSED,
    Message,
    parse_message,
    recorded_arguments,
)
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.replay import DISCOVERIES, FoundAnswer, McpSource, call_outcome
from offbook.messages import JsonObject
from offbook.text import shorten
from offbook.wire.calls import WireCall, WireOutcome
from offbook.wire.session import MAX_ERROR_CHARS, WireSession

logger = logging.getLogger("offbook.wire")

MAX_RECORDED_BYTES = 32 * 1024 * 1024
_TOO_LARGE = f"the response has more than {MAX_RECORDED_BYTES:,} bytes"
_UNCOUNTED_PREFIXES = ("notifications/", "logging/", "subscriptions/")
_UNCOUNTED = frozenset(("initialize", "server/discover", "ping", "resources/subscribe", "resources/unsubscribe"))


def is_counted(request: Message) -> bool:
    """Return whether a request counts as a call. Discovery and lists do not: a client asks for them as it likes."""
    method = request.method
    return method not in _UNCOUNTED and not method.endswith("/list") and not method.startswith(_UNCOUNTED_PREFIXES)


class McpCall(Struct, frozen=True):
    """A request that has arrived, with the fault that is to be applied to it.

    `number` is its number among all requests of the session, 0 if it does not count; `tool_call` its number among the
    calls of its tool.
    """

    request: Message
    started_s: float
    number: int = 0
    tool_call: int = 0
    fault: AnyToolFault | None = None
    mark: str = ""


class McpToolCall(Struct, frozen=True, kw_only=True):
    """A tool call that was answered. `name` is like `github.create_issue`, and `answer` is what the client got.

    `number` counts all requests of the session, and `call` those of the tool, 0 if a fault makes the client ask again;
    `fault` is the type of the fault that fired, empty if none did. `clean` is what the server answered, which a fault
    may have lost; None if the call never reached it.
    """

    name: str
    arguments: JsonObject
    number: int
    outcome: WireOutcome
    fault: str
    answer: McpAnswer
    call: int
    session: str
    clean: McpAnswer | None = None

    @property
    def result(self) -> Any:
        """What a model sees of the result: its text, or JSON if the text is that; None if the client got none."""
        result = call_outcome(self.answer.response).result
        return None if result is UNSET else result

    @property
    def error(self) -> str | None:
        """The text of the error, of the tool or of the protocol; None if there is none."""
        error = call_outcome(self.answer.response).error
        return None if error is None else error.message


def ignore_tool_call(call: McpToolCall) -> None:
    """Ignore a tool call."""


class McpSession:
    """Answers the requests of one run to `server`, from `source` or, if it has no answer, by the real server.

    `session` is the session of the run, which has its faults, calls and misses. Without a `recorder` that is live,
    there is no real server: what the source cannot answer is a miss. `on_tool_call` is called with each tool call when
    it is answered, before the client gets the answer.
    """

    def __init__(
        self,
        server: str,
        *,
        session: WireSession,
        source: McpSource | None,
        recorder: McpRecorder | None = None,
        on_tool_call: Callable[[McpToolCall], None] = ignore_tool_call,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.server, self.session, self.source = server, session, source
        self._recorder, self._on_tool_call, self._clock = recorder, on_tool_call, clock
        self._lasting = LastingFaults()

    @property
    def is_live(self) -> bool:
        """Whether requests without a recorded answer go to the real server."""
        return self._recorder is not None and self._recorder.is_live

    def start(self, request: Message) -> McpCall:
        """Number a request, and find its fault."""
        started_s = self._clock.monotonic_s()
        if request.tool and request.params.get("requestState") != FOREVER:
            attempt = self.session.start_tool_call(f"{self.server}.{request.tool}")
            return McpCall(request, started_s, attempt.number, attempt.site.call, attempt.fault, attempt.mark)
        return McpCall(request, started_s, self.session.next_number() if is_counted(request) else 0)

    def answer(self, call: McpCall) -> McpAnswer | None:
        """Return the answer to a request, or None if only the real server can answer it."""
        lasting = self._lasting.answer(call.request) if call.fault is None else None
        if lasting is not None:
            return self._note(call, lasting, "fault")
        if self.is_live and call.request.method in DISCOVERIES:
            return None  # a real server answers nothing before
        try:
            return self._lasting.listed(call.request, self._answer(call))
        except RecordingMismatchError as error:
            return None if self.is_live else self._answer_miss(call, error)

    def is_held(self, call: McpCall) -> bool:
        """Return whether the client gets nothing of what the real server sends before `finish` has seen all of it."""
        return call.fault is not None or self._lasting.concern(call.request)

    def elapsed_ms(self, call: McpCall) -> float:
        """Return the time since the request arrived."""
        return round((self._clock.monotonic_s() - call.started_s) * 1000.0, 3)

    def finish(
        self, call: McpCall, messages: Sequence[TimedMessage], *, credentials: Iterable[str] = ()
    ) -> McpAnswer | None:
        """Record what the real server answered, and return what the client gets instead; None if it gets that.

        What cannot be recorded is not answered, unless it is only too large. `credentials` are those that the server
        was given. The last of the messages is the response.
        """
        clean = McpAnswer(messages=tuple(messages))
        if len(messages[-1][1]) > MAX_RECORDED_BYTES:
            self._note(call, clean, "passed", unrecorded=_TOO_LARGE, clean=clean)
            return None if call.fault is None else self._broken(call, clean)
        try:
            key = self._record(call, messages, credentials)
        except RecordingWriteError as error:
            logger.error("%s: not recorded, and so not answered: %s", self.server, error)  # noqa: TRY400
            refusal = error_answer(call.request, INTERNAL_ERROR, f"the answer could not be recorded: {error.reason}")
            return self._note(call, refusal, "refused", unrecorded=error.reason, clean=clean)
        if call.fault is not None:
            return self._note(call, self._broken(call, clean), "fault", key=key, clean=clean)
        self._note(call, clean, "passed" if key is None else "recorded", key=key, clean=clean)
        listed = self._lasting.listed(call.request, clean)
        return None if listed is clean else listed

    def _record(self, call: McpCall, messages: Sequence[TimedMessage], credentials: Iterable[str]) -> str | None:
        if self._recorder is None:
            return None
        return self._recorder.record(self.server, call.request, messages, credentials=credentials)

    def lose(self, call: McpCall, reason: str) -> McpAnswer:
        """Return the answer to a call that the real server failed to answer; nothing is recorded."""
        answer = error_answer(call.request, INTERNAL_ERROR, reason)
        return self._note(call, answer, "passed", failure=reason)

    def notice(self, raw: bytes) -> None:
        """Record a notification that the real server sent on its own."""
        message = parse_message(raw)
        if self._recorder is not None and message.is_notification:
            self._recorder.record_notification(self.server, message)

    def _answer(self, call: McpCall) -> McpAnswer:
        if call.fault is not None and not call.fault.runs_tool:
            return self._note(call, self._broken(call, McpAnswer()), "fault")
        found = self._require_source().find(call.request)
        if found.answer.work is not None:
            return McpAnswer(work=partial(self._answer_after_work, call, found))
        return self._answer_found(call, found)

    async def _answer_after_work(self, call: McpCall, found: FoundAnswer) -> McpAnswer:
        assert found.answer.work is not None
        try:
            return self._answer_found(call, replace(found, answer=await found.answer.work()))
        except RecordingMismatchError as error:
            return self._answer_miss(call, error)

    def _answer_found(self, call: McpCall, found: FoundAnswer) -> McpAnswer:
        source = self._require_source()
        if call.fault is None:
            source.use(found)
            outcome: WireOutcome = "synthetic" if found.stored is None else "served"
            return self._note(call, found.answer, outcome, key=found.key, clean=found.answer)
        if not spoils_call(call.fault):
            source.use(found)
        return self._note(call, self._broken(call, found.answer), "fault", key=found.key, clean=found.answer)

    def _require_source(self) -> McpSource:
        if self.source is None:
            raise RecordingMismatchError("nothing is recorded yet", kind="missing")
        return self.source

    def _broken(self, call: McpCall, clean: McpAnswer) -> McpAnswer:
        assert call.fault is not None
        self._lasting.note(call.fault, call.request.tool)
        return apply_fault(call.fault, FaultedCall(call.request, lambda: clean, call.mark))

    def _answer_miss(self, call: McpCall, error: RecordingMismatchError) -> McpAnswer:
        error = self.session.note_tool_miss(self._wire_call(call, "missed"), error)
        message = shorten(str(error), MAX_ERROR_CHARS)
        data = {"kind": error.kind, "key": error.key}
        code = MISSED if call.request.method in KNOWN_METHODS else METHOD_NOT_FOUND
        return self._note(call, error_answer(call.request, code, message, data), "missed")

    def _note(
        self,
        call: McpCall,
        answer: McpAnswer,
        outcome: WireOutcome,
        *,
        key: str | None = None,
        failure: str = "",
        unrecorded: str = "",
        clean: McpAnswer | None = None,
    ) -> McpAnswer:
        if call.number or unrecorded or outcome == "missed":
            shown = f"not recorded: {unrecorded}" if unrecorded else failure
            noted = self._wire_call(call, outcome, key=key, failure=shown)
            self.session.note_tool_call(noted, failure=failure, unrecorded=unrecorded)
        if call.request.tool:
            answered = McpToolCall(
                name=f"{self.server}.{call.request.tool}",
                arguments=recorded_arguments(call.request),
                number=call.number,
                outcome=outcome,
                fault="" if call.fault is None else call.fault.type,
                answer=answer,
                call=call.tool_call,
                session=self.session.name,
                clean=clean,
            )
            self._on_tool_call(answered)
        return answer

    def _wire_call(self, call: McpCall, outcome: WireOutcome, *, key: str | None = None, failure: str = "") -> WireCall:
        tool = call.request.tool
        return WireCall(
            number=call.number,
            session=self.session.name,
            vendor=self.server,
            place=f"{self.server}.{tool}" if tool else self.server,
            outcome=outcome,
            status=200,
            key=key,
            fault=None if call.fault is None else call.fault.type,
            method=call.request.method,
            failure=failure,
        )
