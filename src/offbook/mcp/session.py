"""The requests of one run to one MCP server: numbered in the session of the run, answered, broken and noted."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError, RecordingMismatchError, RecordingUnavailableError, RecordingWriteError
from offbook.faults.catalog import AnyOrderFault, AnyToolFault
from offbook.faults.fault import Crash
from offbook.faults.site import ToolSite
from offbook.faults.tools import ToolFault
from offbook.mcp.answer import (
    FoundAnswer,
    McpAnswer,
    McpSource,
    NothingRecorded,
    TimedMessage,
    error_answer,
    result_answer,
    server_messages,
)
from offbook.mcp.dialogue import OwnMessage, client_answer_mismatch
from offbook.mcp.faults import FOREVER, FaultedMcpCall, LastingFaults, apply_fault
from offbook.mcp.message import (
    INTERNAL_ERROR,
    KNOWN_METHODS,
    METHOD_NOT_FOUND,
    MISSED,
    McpMessage,
    id_key,
    is_counted,
    parse_message,
    recorded_arguments,
    text_result,
)
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.replay import DISCOVERIES, SERVER_REQUESTS, call_outcome
from offbook.messages import JsonObject
from offbook.recording.call_cache import OWN_TURN, CallTurn
from offbook.recording.format.exchange import ToolExchange
from offbook.recording.format.keys import split_mcp_key
from offbook.recording.stores.store import StoredExchange
from offbook.text import shorten
from offbook.wire.session import MAX_ERROR_CHARS, CallOutcome, WireCall, WireOutcome, WireSession

logger = logging.getLogger("offbook.wire")

MAX_RECORDED_BYTES = 32 * 1024 * 1024
MAX_HELD_MESSAGES = 1_000
"""The number of messages that wait for a listening client."""

UNRECORDED_NOTIFICATIONS = frozenset(("notifications/subscriptions/acknowledged", "notifications/cancelled"))
_TOO_LARGE = f"the response has more than {MAX_RECORDED_BYTES:,} bytes"


class McpCall(Struct, frozen=True):
    """A request that has arrived, with its fault.

    `number` is its number among all requests of the session, 0 if it does not count; `tool_call` its number among the
    calls of its tool. `turn` is the right to make it, if other processes make the same call.
    """

    request: McpMessage
    started_s: float
    number: int = 0
    tool_call: int = 0
    fault: AnyToolFault | AnyOrderFault | None = None
    mark: str = ""
    crash: Crash | None = None
    turn: CallTurn = OWN_TURN


class PendingCall(Struct):
    """A call for the real server, with the messages of the server so far and the client's answers to its requests."""

    call: McpCall
    messages: list[TimedMessage] = field(default_factory=list)


class McpToolCall(Struct, frozen=True, kw_only=True):
    """An answered tool call. `name` is like `github.create_issue`, and `answer` is the client's.

    `number` counts all requests of the session, and `call` those of the tool, 0 if a fault makes the client ask again;
    `fault` is the type of the fired fault, or "". `clean` is the server's answer, which a fault may have lost, or None
    if the call never reached it.
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
        """A model's view of the result: its text, or JSON; None without a result."""
        result = call_outcome(self.answer.response).result
        return None if result is UNSET else result

    @property
    def error(self) -> str | None:
        """The text of the tool's or the protocol's error, or None."""
        error = call_outcome(self.answer.response).error
        return None if error is None else error.message


def ignore_tool_call(call: McpToolCall) -> None:
    """Ignore a tool call."""


class McpSession:
    """Answers one run's requests to `server` from `source` or, without an answer there, by the real server.

    `session` is the session of the run, with its faults, calls and misses. Without a live `recorder` there is no real
    server: a request that the source cannot answer is a miss. `on_tool_call` is called with each answered tool call,
    before the client gets the answer. `recorded_as` is the server's name in the recording, if it differs.
    """

    def __init__(
        self,
        server: str,
        *,
        session: WireSession,
        source: McpSource | None,
        recorder: McpRecorder | None = None,
        on_tool_call: Callable[[McpToolCall], None] = ignore_tool_call,
        recorded_as: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.server, self.session = server, session
        self.source: McpSource = source or NothingRecorded()
        self._recorded_as = recorded_as or server
        self._recorder, self._on_tool_call, self._clock = recorder, on_tool_call, clock
        self._lasting: LastingFaults | None = None
        self._asked: dict[bytes, tuple[McpMessage, PendingCall | None]] = {}
        self._listeners: list[Callable[[OwnMessage], None]] = []
        self._held: deque[OwnMessage] = deque(maxlen=MAX_HELD_MESSAGES)
        self._has_listened = False

    @property
    def is_live(self) -> bool:
        """Whether requests without a recorded answer go to the real server."""
        return self._recorder is not None and self._recorder.is_live

    def start(self, request: McpMessage) -> McpCall:
        """Number a request, and find its fault."""
        started_s = self._clock.monotonic_s() if self.is_live else 0.0
        if request.tool and request.params.get("requestState") != FOREVER:
            attempt = self.session.start_tool_call(f"{self.server}.{request.tool}")
            fault, mark, crash = attempt.fault, attempt.mark, attempt.crash
            return McpCall(request, started_s, attempt.number, attempt.site.call, fault, mark, crash)
        return McpCall(request, started_s, self.session.next_number() if is_counted(request) else 0)

    def answer(self, call: McpCall) -> McpAnswer | None:
        """Return the answer to a request, or None if only the real server can answer it."""
        if call.crash is not None:
            if call.crash.when == "after":
                self.answer(replace(call, crash=None))
            self.session.observer.crash()
            return McpAnswer(ending="silence", end_ms=float("inf"))
        if (lasting := self._lasting_answer(call)) is not None:
            return self._note(call, lasting, CallOutcome("fault"))
        if self.is_live and call.request.method in DISCOVERIES:
            return None  # a real server answers nothing before
        try:
            answer = self._listed(call, self._answer(call))
            return (
                McpAnswer(work=partial(self._in_order, call, answer))
                if call.tool_call and self.session.has_orders
                else answer
            )
        except RecordingMismatchError as error:
            return None if self.is_live else self._answer_miss(call, error)
        except RecordingUnavailableError as error:
            return self._refuse(call, error)

    def needs_turn(self, call: McpCall) -> bool:
        """Return whether other processes may make an equal call, so it must wait; see `take_turn`."""
        if not self.source.shares(call.request) or call.crash is not None:
            return False
        return self._lasting_answer(call) is None if call.fault is None else call.fault.runs_tool

    def _lasting_answer(self, call: McpCall) -> McpAnswer | None:
        """Return the answer to a call affected by an earlier fault, or None."""
        return None if self._lasting is None or call.fault is not None else self._lasting.answer(call.request)

    def _listed(self, call: McpCall, answer: McpAnswer) -> McpAnswer:
        """Return a list of tools after earlier faults, or any other answer unchanged."""
        return answer if self._lasting is None else self._lasting.listed(call.request, answer)

    async def take_turn(self, call: McpCall) -> McpCall | McpAnswer:
        """Wait until a call is ours to make, and return it with its turn; or return its recorded answer."""
        try:
            while (turn := await self.source.turn(call.request)).is_answered:
                if (answer := self.answer(call)) is not None:
                    return answer
        except RecordingUnavailableError as error:
            return self._refuse(call, error)
        return replace(call, turn=turn, started_s=self._clock.monotonic_s())

    def give_up(self, call: McpCall) -> None:
        """Let others make a call that the real server will not answer. Safe to call twice."""
        self.source.give_up(call.turn)

    def is_held(self, call: McpCall) -> bool:
        """Return whether the client gets none of the real server's messages before `finish` has seen all of them."""
        return call.fault is not None or (self._lasting is not None and self._lasting.concern(call.request))

    def elapsed_ms(self, call: McpCall) -> float:
        """Return the time since the request arrived."""
        return round((self._clock.monotonic_s() - call.started_s) * 1000.0, 3)

    def finish(
        self, call: McpCall, messages: Sequence[TimedMessage], *, credentials: Iterable[str] = ()
    ) -> McpAnswer | None:
        """Record the real server's answer, and return its replacement for the client, or None for the answer itself.

        An answer that cannot be recorded is refused, unless it is only too large. `credentials` are those given to the
        server. The last message is the response.
        """
        clean = McpAnswer(messages=_without_dialogue(messages))  # the client has been asked already
        if len(messages[-1][1]) > MAX_RECORDED_BYTES:
            self.give_up(call)
            self._note(call, clean, CallOutcome("passed", unrecorded=_TOO_LARGE), clean=clean)
            return None if call.fault is None else self._broken(call, clean)
        try:
            key = self._record(call, messages, credentials)
        except (RecordingWriteError, RecordingUnavailableError) as error:
            self.give_up(call)
            return self._refuse(call, error, clean=clean)
        if call.fault is not None:
            return self._note(call, self._broken(call, clean), CallOutcome("fault", key), clean=clean)
        self._note(call, clean, CallOutcome("passed" if key is None else "recorded", key), clean=clean)
        listed = self._listed(call, clean)
        return None if listed is clean else listed

    def _record(self, call: McpCall, messages: Sequence[TimedMessage], credentials: Iterable[str]) -> str | None:
        turn = self.source.claim(call.request) if call.turn is OWN_TURN else call.turn
        if self._recorder is None or turn is None:
            return None
        recorded = self._recorder.record_exchange(
            self._recorded_as, call.request, messages, credentials=credentials, turn=turn
        )
        self.source.note_recorded(turn, recorded)
        return None if recorded is None else recorded.key

    def _refuse(self, call: McpCall, error: InputError, *, clean: McpAnswer | None = None) -> McpAnswer:
        """Return the answer to a call that cannot be recorded. `clean` is the server's answer, if it was asked."""
        logger.error("%s: not recorded, and so not answered: %s", self.server, error)
        refusal = error_answer(call.request, INTERNAL_ERROR, f"the answer could not be recorded: {error.reason}")
        return self._note(call, refusal, CallOutcome("refused", unrecorded=error.reason), clean=clean)

    def lose(self, call: McpCall, reason: str, *, is_noted: bool = False) -> McpAnswer:
        """Return the answer to a call that the real server failed to answer. Nothing is recorded. A request that is not
        a call is among the session's failures only if it `is_noted`.
        """
        self.give_up(call)
        answer = error_answer(call.request, INTERNAL_ERROR, reason)
        if is_noted and not call.number:
            self.session.failures[reason] += 1
        return self._note(call, answer, CallOutcome("passed", failure=reason))

    def note_own_message(self, message: McpMessage) -> None:
        """Record a notification that the real server sent on its own."""
        if message.method not in UNRECORDED_NOTIFICATIONS:
            self._record_own(message)

    def _record_own(self, message: McpMessage, answer: McpMessage | None = None) -> None:
        turn = self.source.claim_own(message)
        if self._recorder is None or turn is None:
            return
        recorded = self._recorder.record_own_message(self._recorded_as, message, answer, turn=turn)
        self.source.note_recorded(turn, recorded)

    def note_question(self, key: bytes, asked: McpMessage, pending: PendingCall | None) -> None:
        """Note a request of the real server, for a call or on its own. `key` is its id, unique among all clients."""
        self._asked[key] = asked, pending

    def note_client_answer(self, key: bytes, answer: McpMessage) -> None:
        """Note a client's answer to a request of the real server. It is recorded with its call, or alone."""
        asked, pending = self._asked.pop(key, (None, None))
        if pending is not None:
            pending.messages.append((self.elapsed_ms(pending.call), answer.raw))
        elif asked is not None and asked.method in SERVER_REQUESTS:
            self._record_own(asked, answer)

    def listen(self, listener: Callable[[OwnMessage], None]) -> Callable[[], None]:
        """Call `listener` with the recorded server's own messages from now on, and with unheard ones. Return a function
        that ends this.
        """
        if self.is_live:
            return lambda: None
        self._listeners.append(listener)
        if not self._has_listened:
            self._has_listened = True
            self._held.extendleft(reversed([self._own_message(each) for each in self.source.first_messages()]))
        while self._held:
            listener(self._held.popleft())
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _send_own(self, due: Iterable[StoredExchange[ToolExchange]]) -> None:
        for message in [self._own_message(each) for each in due]:
            if not self._listeners:
                self._held.append(message)
            for listener in list(self._listeners):
                listener(message)

    def _own_message(self, stored: StoredExchange[ToolExchange]) -> OwnMessage:
        method, arguments = split_mcp_key(stored.key)[1], stored.exchange.arguments
        params = arguments if isinstance(arguments, dict) and arguments else None
        if method.startswith("notifications/"):
            return OwnMessage(method=method, params=params)
        return OwnMessage(method=method, params=params, on_answer=partial(self._check_own_answer, stored))

    def _check_own_answer(self, stored: StoredExchange[ToolExchange], answer: McpMessage | None) -> None:
        """Compare the answer to a request that the server sent on its own with the recorded one."""
        method, exchange = split_mcp_key(stored.key)[1], stored.exchange
        expected = None
        if exchange.result is not UNSET or exchange.error is not None:
            result = {} if exchange.result is UNSET else exchange.result
            error = exchange.error and {"error": {"message": exchange.error.message}}
            expected = McpMessage(b"", error or {"result": result})
        mismatch = client_answer_mismatch(method, expected, answer, key=stored.key)
        if mismatch is not None:
            asked = McpMessage(b"", {"method": method})
            self.session.note_tool_miss(self._wire_call(McpCall(asked, 0.0), CallOutcome("missed")), mismatch)

    def _answer(self, call: McpCall) -> McpAnswer:
        withholds_effect = isinstance(call.fault, ToolFault) and call.fault.withholds_effect
        if call.fault is not None and not call.fault.runs_tool and not withholds_effect:
            return self._note(call, self._broken(call, McpAnswer()), CallOutcome("fault"))
        found = self.source.find(call.request)
        if withholds_effect and found.answer.work is None:
            return self._note(call, found.answer, CallOutcome("fault", found.key))
        if found.answer.work is not None:
            return McpAnswer(work=partial(self._answer_after_work, call, found))
        return self._answer_found(call, found)

    async def _in_order(self, call: McpCall, answer: McpAnswer) -> McpAnswer:
        """Return the answer to a tool call in its turn."""
        site = ToolSite(f"{self.server}.{call.request.tool}", call.tool_call)
        async with self.session.in_order(site, call.fault):
            return answer if answer.work is None else await answer.work()

    async def _answer_after_work(self, call: McpCall, found: FoundAnswer) -> McpAnswer:
        assert found.answer.work is not None
        try:
            return self._answer_found(call, replace(found, answer=await found.answer.work()))
        except RecordingMismatchError as error:
            return self._answer_miss(call, error)

    def _answer_found(self, call: McpCall, found: FoundAnswer) -> McpAnswer:
        if call.fault is not None and call.fault.breaks_response:
            outcome = CallOutcome("fault", found.key)
            return self._note(call, self._broken(call, found.answer), outcome, clean=found.answer)
        due = self.source.use(found)
        self._send_own(due.before)
        answer = found.answer
        if due.after:
            answer = replace(answer, on_sent=partial(self._send_own, due.after))
        if call.fault is not None:
            return self._note(call, self._broken(call, answer), CallOutcome("fault", found.key), clean=found.answer)
        if answer.asks_client:
            return replace(answer, questions=_CallQuestions(self, call, found))
        return self._note_served(call, answer, found)

    def _note_served(self, call: McpCall, answer: McpAnswer, found: FoundAnswer) -> McpAnswer:
        return self._note(call, answer, CallOutcome(found.outcome, found.key), clean=found.answer)

    def _broken(self, call: McpCall, clean: McpAnswer) -> McpAnswer:
        assert call.fault is not None
        self._lasting = self._lasting or LastingFaults()
        self._lasting.note(call.fault, call.request.tool)
        site = ToolSite(f"{self.server}.{call.request.tool}", call.tool_call)
        tool, spoil = f"{self._recorded_as}.{call.request.tool}", partial(self.session.spoil, site)
        return apply_fault(call.fault, FaultedMcpCall(call.request, lambda: clean, call.mark, tool, spoil))

    def _answer_miss(self, call: McpCall, error: RecordingMismatchError) -> McpAnswer:
        missed = CallOutcome("missed")
        error = self.session.note_tool_miss(self._wire_call(call, missed), error)
        if error.kind == "rejected":  # a real server says so in the result, where the model sees it
            refusal = result_answer(call.request, text_result(error.reason, is_error=True))
            return self._note(call, refusal, missed)
        message = shorten(str(error), MAX_ERROR_CHARS)
        data = {"kind": error.kind, "key": error.key}
        code = MISSED if call.request.method in KNOWN_METHODS else METHOD_NOT_FOUND
        return self._note(call, error_answer(call.request, code, message, data), missed)

    def _note(
        self, call: McpCall, answer: McpAnswer, outcome: CallOutcome, *, clean: McpAnswer | None = None
    ) -> McpAnswer:
        if call.number or outcome.unrecorded or outcome.type == "missed":
            self.session.note_tool_call(self._wire_call(call, outcome), outcome)
        if call.request.tool and clean is not None and self.session.plan.has_lies:
            name, result = f"{self._recorded_as}.{call.request.tool}", call_outcome(clean.response).result
            self.session.note_answer(name, recorded_arguments(call.request), result)
        if call.request.tool:
            answered = McpToolCall(
                name=f"{self.server}.{call.request.tool}",
                arguments=recorded_arguments(call.request),
                number=call.number,
                outcome=outcome.type,
                fault="" if call.fault is None else call.fault.type,
                answer=answer,
                call=call.tool_call,
                session=self.session.name,
                clean=clean,
            )
            self._on_tool_call(answered)
        return answer

    def _wire_call(self, call: McpCall, outcome: CallOutcome) -> WireCall:
        tool = call.request.tool
        return WireCall(
            number=call.number,
            session=self.session.name,
            vendor=self.server,
            place=f"{self.server}.{tool}" if tool else self.server,
            outcome=outcome.type,
            status=200,
            key=outcome.key,
            fault=None if call.fault is None else call.fault.type,
            method=call.request.method,
            failure=outcome.problem,
        )


class _CallQuestions:
    """A client's answers to a server's requests during one call, compared with the recorded ones."""

    def __init__(self, session: McpSession, call: McpCall, found: FoundAnswer) -> None:
        self._session, self._call, self._found = session, call, found
        self._open = sum(parse_message(raw).is_request for _, raw in found.answer.messages)

    def check(self, asked: McpMessage, answer: McpMessage | None) -> McpAnswer | None:
        expected = self._found.client_answers.get(id_key(asked.id))
        mismatch = client_answer_mismatch(asked.method, expected, answer, key=self._found.key)
        if mismatch is not None:
            return self._session._answer_miss(self._call, mismatch)  # noqa: SLF001 - a part of it
        self._open -= 1
        if not self._open:
            self.abandon()
        return None

    def abandon(self) -> None:
        self._session._note_served(self._call, self._found.answer, self._found)  # noqa: SLF001


def _without_dialogue(messages: Sequence[TimedMessage]) -> tuple[TimedMessage, ...]:
    """Return the messages of a call without the requests of the server."""
    return tuple(each for each in server_messages(messages) if not parse_message(each[1]).is_request)
