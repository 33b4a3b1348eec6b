"""The function tools of a program, as a face: the program asks before each call, and reports its outcome."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import (
    InputError,
    RecordingMismatchError,
    RecordingUnavailableError,
    RecordingWriteError,
    ToolTimeoutError,
)
from offbook.events import NULL_SINK, FaultFired, Sink, ToolCalled
from offbook.faults.order import DeliveredTwice, OpenCall
from offbook.faults.tools import EndedCall, ToolFault
from offbook.messages import JsonObject
from offbook.recording.call_cache import OWN_TURN, CallCache, CallTurn
from offbook.recording.format.document import RecordedProgram
from offbook.recording.format.exchange import RecordedError, ToolExchange
from offbook.recording.latency import NO_LATENCY, Latency
from offbook.recording.match.cursor import AlikeArguments, ExchangeMatch, without_defaults
from offbook.session.numbers import ToolCallNames
from offbook.session.recorder import Recorder
from offbook.session.script import Script, ScriptedModels, ScriptedTools
from offbook.session.sources import RecordedTools
from offbook.text import shorten
from offbook.tools.effects import Effect
from offbook.wire.options import ProgramToolOptions
from offbook.wire.session import MAX_ERROR_CHARS, CallOutcome, ToolAttempt, WireCall, WireSession
from offbook.wire.tool_remarks import ToolNote, ToolRemarks, difference_of

logger = logging.getLogger("offbook.wire")

TOOLS = "tools"
"""The vendor of tool calls in the list of calls."""


class ToolMessage(Struct, frozen=True):
    """A program's question about a tool, or its report on a call: the `call` it asked about, or a new one that took
    `took_s` seconds.
    """

    tool: str = ""
    arguments: JsonObject = {}
    defaults: JsonObject = {}
    call: int = 0
    result: Any = UNSET
    type: str | None = None
    error: RecordedError | None = None
    cancelled: str = ""
    took_s: float | None = None
    notes: list[ToolNote] = []

    @property
    def has_run(self) -> bool:
        return bool(self.call) or self.took_s is not None


class ToolAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer for a program: the outcome of a call, or in `run` the number under which to make it.

    `wait_s` is the duration of the call. After `run_first`, the program makes calls before it asks about them. An empty
    answer keeps the tool's result. A program that gets None instead of an answer is killed.
    """

    result: Any = UNSET
    type: str | None = None
    error: RecordedError | None = None
    run: int = 0
    run_first: bool = False
    wait_s: float = 0.0
    refused: bool = False


AS_IT_WAS = ToolAnswer()
UNREADABLE = ToolAnswer(
    error=RecordedError("bad_message", "offbook could not read a message about a tool"), refused=True
)


class ProgramToolCall(Struct, frozen=True, kw_only=True):
    """An answered tool call, with its non-default arguments.

    `did` is the tool's own outcome, or None if it did not run; `got` is the program's result, after `wait_s` seconds.
    """

    tool: str
    arguments: JsonObject
    number: int
    call: int
    fault: str
    did: ToolExchange | None = None
    got: ToolExchange
    wait_s: float = 0.0


class SessionTools(ScriptedTools):
    """Answers the tools of one run of an exploration, and notes unrecorded calls in its session."""

    def __init__(
        self, session: WireSession, script: Script[ToolExchange], *, alike: AlikeArguments | None = None
    ) -> None:
        assert isinstance(session.source, ScriptedModels)
        super().__init__(session.source, script, alike=alike)
        self.remember(session.world)
        self._session = session

    def continued(
        self, tool: str, arguments: JsonObject, refusal: RecordingMismatchError
    ) -> ExchangeMatch[ToolExchange]:
        noted = refusal.replace(fired=[str(planned) for planned in self._session.fired], hint="")
        self._session.diverged = self._session.diverged or str(noted)
        return super().continued(tool, arguments, refusal)


class _OpenCall(Struct, frozen=True):
    """A call that has started. `recorded` is its recorded outcome, `under_way` its place among the others, and `turn`
    the right to make it if other processes make the same call.
    """

    attempt: ToolAttempt
    tool: str
    arguments: JsonObject
    defaults: JsonObject
    started_s: float
    recorded: ToolExchange | None = None
    under_way: OpenCall | None = None
    turn: CallTurn = OWN_TURN

    def __str__(self) -> str:
        return str(Effect(tool=self.tool, arguments=self.arguments))


class _Turns:
    """The turns of processes that share a recording: only one of them makes a call that all make."""

    def __init__(self, cache: CallCache, source: RecordedTools) -> None:
        self._cache, self._source, self._names = cache, source, ToolCallNames()

    async def wait_for(self, call: _OpenCall) -> _OpenCall:
        """Wait until a call is recorded by another process, or is ours to make, and return it with its turn.

        Raises:
            RecordingUnavailableError: the recording cannot be reached.
        """
        if (fault := _fault_of(call.attempt)) is not None and not fault.runs_tool:
            return call

        def is_recorded() -> bool:
            return self._source.look_up(call.tool, call.arguments).mismatch is None

        name = self._names.start(call.tool, call.arguments)
        if self._cache.has_answer(is_recorded):
            return call
        turn = await self._cache.turn(name, is_recorded)
        return call if turn.is_answered else replace(call, turn=turn)

    def give_up(self, call: _OpenCall) -> None:
        """Let other processes make an unrecorded call."""
        if call.turn is not OWN_TURN:
            self._names.undo(call.tool, call.arguments)
            with suppress(RecordingUnavailableError):  # the lease ends by itself
                call.turn.release()


class ProgramTools:
    """Answers the tool calls of one run from `source` or, if it has no answer and they may run, by the tools
    themselves.

    Args:
        session: the session of the run, with its call numbers, faults and misses.
        source: finds recorded results; None if nothing is recorded.
        recorder: records outcomes of tools; None in a replay.
        options: the tools that run for real although they are recorded.
        latency: the latency of replayed answers.
        default_response: the result of an unrecorded call in a lenient replay.
        sink: gets an event for each call, and for each fired fault.

    `taken` are the tools that were asked about, `ran` counts their real runs.
    """

    def __init__(
        self,
        session: WireSession,
        source: RecordedTools | None,
        *,
        recorder: Recorder | None = None,
        options: ProgramToolOptions,
        latency: Latency = NO_LATENCY,
        default_response: str | None = None,
        sink: Sink = NULL_SINK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.session, self.source = session, source
        session.tool_source = source
        self._recorder, self._options, self._clock = recorder, options, clock
        self._latency, self._default_response, self._sink = latency, default_response, sink
        self.taken: set[str] = set()
        self.ran = Counter[str]()
        self._remarks = ToolRemarks(effects=options.effects)
        self._open: dict[int, _OpenCall] = {}
        cache = None if recorder is None else recorder.cache
        self._turns = None if cache is None or source is None else _Turns(cache, source)
        self._noted = set[str]()

    @property
    def is_live(self) -> bool:
        """Whether tools without a recorded result run."""
        return self._recorder is not None and self._recorder.is_live

    @property
    def continued_by(self) -> str:
        """The answer to unrecorded calls of an explored run, or "" if none was needed."""
        return self.source.continued_by if isinstance(self.source, ScriptedTools) else ""

    @property
    def unknown(self) -> list[str]:
        """The unknown results of reads after unseen effects."""
        return list(self.source.unknown) if isinstance(self.source, ScriptedTools) else []

    @property
    def remarks(self) -> list[str]:
        """The tools that could not be taken over, run for real because of their results, or returned a different
        result.
        """
        return self._remarks.lines(is_live=self.is_live)

    def answer(self, message: ToolMessage) -> ToolAnswer | None:
        """Answer a program's question or report. None kills the program instead."""
        call = self._call_of(message)
        return AS_IT_WAS if call is None else self._answer(call, message)

    @property
    def may_wait(self) -> bool:
        """Whether answers may have to wait: for other calls of the run, or for a process that makes the same call."""
        return self.session.has_orders or self._turns is not None

    async def answer_in_order(self, message: ToolMessage) -> ToolAnswer | None:
        """Answer like `answer`, when other processes and the fault plan release the answer."""
        call = self._call_of(message)
        if call is None:
            return AS_IT_WAS
        if not message.call:
            under_way = self.session.order.start(call.attempt.site) if self.session.has_orders else None
            call = replace(call, under_way=under_way)
        try:
            if self._turns is not None and not message.has_run and not self._options.runs(call.tool):
                call = await self._turns.wait_for(call)
            answer = self._answer(call, message)
        except RecordingUnavailableError as error:
            answer = self._refuse(call, error)
        if call.under_way is not None and (answer is None or not answer.run):
            try:
                await self.session.hold(call.under_way, call.attempt.fault)
            finally:
                self.session.order.end(call.under_way)
        return answer

    def _call_of(self, message: ToolMessage) -> _OpenCall | None:
        """Return the call of a message, started if it is new, or None."""
        self._note_process(message.notes)
        if message.call:
            return self._open.pop(message.call, None)
        if not message.tool:
            return None
        self.taken.add(message.tool)
        attempt = self.session.start_tool_call(message.tool)
        if isinstance(attempt.fault, DeliveredTwice):  # a function returns once
            self.session.take_back(attempt.site, attempt.fault)
            attempt = replace(attempt, fault=None)
        started_s = self._clock.monotonic_s() - (message.took_s or 0.0)
        if message.defaults and self.source is not None:
            self.source.note_defaults(message.tool, message.defaults)
        return _OpenCall(attempt, message.tool, message.arguments, message.defaults, started_s)

    def _note_process(self, notes: Sequence[ToolNote]) -> None:
        self._remarks.note(notes)
        steering = [note.tool for note in notes if note.is_steering and note.tool]
        self.taken.update(steering)
        if steering and self._recorder is not None and self._recorder.is_live:
            with suppress(RecordingWriteError, RecordingUnavailableError):  # the next call says that it is not recorded
                self._recorder.note_program(RecordedProgram(steering=steering))

    def _answer(self, call: _OpenCall, message: ToolMessage) -> ToolAnswer | None:
        try:
            return self._end(call, message) if message.has_run else self._begin(call)
        except RecordingMismatchError as error:
            return self._run(call) if self.is_live else self._miss(call, error)
        except (RecordingWriteError, RecordingUnavailableError) as error:
            return self._refuse(call, error)

    def _begin(self, call: _OpenCall) -> ToolAnswer | None:
        crash, fault = call.attempt.crash, _fault_of(call.attempt)
        if crash is not None and crash.when == "before":
            self.session.observer.crash()
            return None
        if fault is not None and fault.withholds_effect and not self._options.runs(call.tool):
            found, outcome = self._find(call, is_lost=True)
            return self._note(call, None, _answer(found, 0.0), CallOutcome("fault", outcome.key))
        if fault is not None and not fault.runs_tool:
            return self._finish(call, None, CallOutcome("fault"))
        if self._options.runs(call.tool):
            recorded = self._recorded(call)
            if recorded is None and not self.is_live:
                self._remarks.note_difference(f"{call} ran for real, and is not recorded")
            return self._run(replace(call, recorded=recorded))
        found, outcome = self._find(call, is_lost=fault is not None and fault.breaks_response)
        if found.is_opaque and call.tool in self._options.effects:
            kind = found.result_type
            raise RecordingMismatchError(
                f"{call} returned a {kind}, which cannot be rebuilt", kind="missing", key=call.tool
            )
        if found.is_opaque:
            return self._run(replace(call, recorded=found))
        return self._finish(call, found, outcome)

    def _recorded(self, call: _OpenCall) -> ToolExchange | None:
        """Return the recorded outcome of a call that runs for real, and count it as used."""
        match = None if self.source is None else self.source.look_up(call.tool, call.arguments)
        if self.source is None or match is None or match.stored is None or match.mismatch is not None:
            return None
        self.source.use(match)
        return match.exchange

    def _find(self, call: _OpenCall, *, is_lost: bool) -> tuple[ToolExchange, CallOutcome]:
        """Return the answer to a call. An answer that `is_lost` stays for the next call.

        Raises:
            RecordingMismatchError: no recorded answer matches.
        """
        if self.source is None:
            raise RecordingMismatchError(f"no call of {call.tool} is recorded", kind="missing", key=call.tool)
        match = self.source.find(call.tool, call.arguments)
        if match.stored is None:
            return ToolExchange(arguments=call.arguments, result=self._default_response), CallOutcome("default")
        is_continued = match.matched_by == "default"
        if not is_continued and not is_lost:
            self.source.use(match)
        return match.exchange, CallOutcome("continued" if is_continued else "served", match.key)

    def _run(self, call: _OpenCall) -> ToolAnswer:
        self._open[call.attempt.number] = call
        return ToolAnswer(run=call.attempt.number, run_first=self._may_run_first)

    @property
    def _may_run_first(self) -> bool:
        """Whether all calls may run and be recorded without asking first."""
        is_recorded = self.is_live and self.source is None and self._turns is None
        return is_recorded and not any(self.session.plan) and not self.session.is_explored

    def _end(self, call: _OpenCall, message: ToolMessage) -> ToolAnswer | None:
        """Record a tool's outcome, and return the program's result."""
        self.ran[call.tool] += 1
        if message.cancelled:
            self._give_up(call)
            return AS_IT_WAS
        did = ToolExchange(
            arguments=call.arguments,
            result=message.result if message.error is None else UNSET,
            result_type=message.type,
            error=message.error,
            latency_ms=round((self._clock.monotonic_s() - call.started_s) * 1000.0, 3),
        )
        self._remarks.note_result(call.tool, did)
        if call.recorded is not None and (difference := difference_of(call.recorded, did)):
            self._remarks.note_difference(f"{call} {difference}")
        if self._recorder is None or not self._recorder.is_live or call.recorded is not None:
            return self._finish(call, did, CallOutcome("passed"), is_real=True)
        try:
            if call.tool not in self._noted:
                self._recorder.note_program(RecordedProgram.of(call.tool, self._options.functions.get(call.tool)))
                self._noted.add(call.tool)
            recorded = self._recorder.record_tool(call.tool, did, turn=call.turn)
        except RecordingWriteError:
            self._give_up(call)
            raise
        if recorded.id is not None and self.source is not None:
            self.source.note_used([recorded.id])  # its answer is for other processes
        return self._finish(call, did, CallOutcome("recorded", recorded.key), is_real=True)

    def _give_up(self, call: _OpenCall) -> None:
        if self._turns is not None:
            self._turns.give_up(call)

    def _refuse(self, call: _OpenCall, error: InputError) -> ToolAnswer:
        """Return the answer to a call that cannot be recorded, or whose recording cannot be reached."""
        logger.error("%s: not recorded, and so not answered: %s", call.tool, error)
        failure = RecordedError("RuntimeError", f"the call could not be recorded: {error.reason}")
        return self._note(call, None, ToolAnswer(error=failure), CallOutcome("refused", unrecorded=error.reason))

    def _finish(
        self, call: _OpenCall, did: ToolExchange | None, outcome: CallOutcome, *, is_real: bool = False
    ) -> ToolAnswer | None:
        """Apply a call's fault to the tool's outcome, note the call, and return the program's result."""
        crash, fault = call.attempt.crash, _fault_of(call.attempt)
        wait_s = 0.0 if is_real or did is None else self._latency.delay_ms(did.latency_ms) / 1000.0
        answer = AS_IT_WAS if is_real or did is None else _answer(did, wait_s)
        if fault is not None:
            answer, outcome = self._struck(fault, call, did, answer), CallOutcome("fault", outcome.key)
        if did is not None and did.error is None:
            self.session.note_answer(call.tool, call.arguments, did.answer)
        self._note(call, did, answer, outcome)
        if crash is not None:
            self.session.observer.crash()
            return None
        return answer

    def _struck(self, fault: ToolFault, call: _OpenCall, did: ToolExchange | None, clean: ToolAnswer) -> ToolAnswer:
        """Return the program's result of a call with a fault: an error of a class that tools raise, or a wrong result.

        It is the `clean` answer if the tool itself failed, or if the fault does not change the result.
        """
        if did is not None and did.error is not None:
            return clean
        wait_s, result = clean.wait_s + fault.wait_s, None if did is None else did.answer
        ended = EndedCall(call.tool, call.arguments, result, call.attempt.mark)
        try:
            changed = self.session.spoil(call.attempt.site, fault, ended)
        except ToolTimeoutError as error:
            return ToolAnswer(error=RecordedError("TimeoutError", str(error)), wait_s=wait_s)
        except Exception as error:
            kind = "ConnectionError" if "loses_answer" in fault.traits else "RuntimeError"
            return ToolAnswer(error=RecordedError(kind, str(error)), wait_s=wait_s)
        if changed is result and result is not None:
            return clean
        result_type = clean.type if "lies" in fault.traits else None
        return ToolAnswer(result=msgspec.to_builtins(changed), type=result_type, wait_s=wait_s)

    def _miss(self, call: _OpenCall, error: RecordingMismatchError) -> ToolAnswer:
        outcome = CallOutcome("missed")
        hint = f"record it again, or let it run for real: --run-tools, or [tools.{call.tool}] run = true"
        error = self.session.note_tool_miss(self._wire_call(call, outcome), error, hint=hint)
        message = shorten(str(error), MAX_ERROR_CHARS)
        return self._note(call, None, ToolAnswer(error=RecordedError(error.kind, message), refused=True), outcome)

    def _note(self, call: _OpenCall, did: ToolExchange | None, answer: ToolAnswer, outcome: CallOutcome) -> ToolAnswer:
        self.session.note_tool_call(self._wire_call(call, outcome), outcome)
        self._report(call, answer, did)
        got = did if answer is AS_IT_WAS and did is not None else ToolExchange(result=answer.result, error=answer.error)
        fault = call.attempt.fault
        self.session.observer.tool_ended(
            ProgramToolCall(
                tool=call.tool,
                arguments=without_defaults(call.arguments, call.defaults),
                number=call.attempt.number,
                call=call.attempt.site.call,
                fault="" if fault is None else fault.type,
                did=did,
                got=got,
                wait_s=answer.wait_s,
            )
        )
        return answer

    def _report(self, call: _OpenCall, answer: ToolAnswer, did: ToolExchange | None) -> None:
        """Emit the events of an answered call."""
        if self._sink is NULL_SINK:
            return
        number, fault = call.attempt.site.call, call.attempt.fault
        if fault is not None:
            self._sink.emit(FaultFired(None, "", fault.type, call=number, tool=call.tool))
        error = answer.error if answer is not AS_IT_WAS or did is None else did.error
        latency_s = self._clock.monotonic_s() - call.started_s + answer.wait_s
        self._sink.emit(ToolCalled(call.tool, latency_s, None if error is None else error.type, number))

    def _wire_call(self, call: _OpenCall, outcome: CallOutcome) -> WireCall:
        fault = call.attempt.fault
        return WireCall(
            number=call.attempt.number,
            session=self.session.name,
            vendor=TOOLS,
            place=call.tool,
            outcome=outcome.type,
            key=outcome.key,
            fault=None if fault is None else fault.type,
            method="tool",
            failure=outcome.problem,
        )


def _fault_of(attempt: ToolAttempt) -> ToolFault | None:
    return attempt.fault if isinstance(attempt.fault, ToolFault) else None


def _answer(exchange: ToolExchange, wait_s: float) -> ToolAnswer:
    result = None if isinstance(exchange.result, UnsetType) and exchange.error is None else exchange.result
    return ToolAnswer(result=result, type=exchange.result_type, error=exchange.error, wait_s=wait_s)
