"""The function tools of a program, as a face: the program asks about each call, and says what became of it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import RecordingMismatchError, RecordingUnavailableError, RecordingWriteError, ToolTimeoutError
from offbook.faults.tools import ToolFault
from offbook.messages import JsonObject, result_text
from offbook.recording.format.exchange import RecordedError, ToolExchange
from offbook.recording.match.cursor import AlikeArguments, ExchangeMatch
from offbook.recording.redact.rules import redactor_in_force
from offbook.session.recorder import Recorder
from offbook.session.script import Script, ScriptedModels, ScriptedTools
from offbook.session.sources import RecordedTools
from offbook.text import shorten
from offbook.tools.effects import Effect
from offbook.wire.options import ProgramToolOptions
from offbook.wire.session import MAX_ERROR_CHARS, CallOutcome, ToolAttempt, WireCall, WireOutcome, WireSession

TOOLS = "tools"
"""The vendor of tool calls in the list of calls."""


class ToolNote(Struct, frozen=True, omit_defaults=True):
    """What a program's process says about a framework or a tool: that it is taken over, or why not."""

    framework: str = ""
    version: str = ""
    tool: str = ""
    function: str = ""
    problem: str = ""

    def __str__(self) -> str:
        if self.framework:
            name = f"{self.framework} {self.version}".strip()
            return f"the tools of {name} cannot be taken over ({self.problem}): they run for real, and are not recorded"
        problem = f"{self.function}: {self.problem}" if self.function else self.problem
        return f"the tool {self.tool} cannot be taken over ({problem}): it runs for real, and is not recorded"


class ToolMessage(Struct, frozen=True):
    """What a program asks about a tool, or in `call` says about a call that it has made."""

    tool: str = ""
    arguments: JsonObject = {}
    call: int = 0
    result: Any = UNSET
    type: str | None = None
    error: RecordedError | None = None
    cancelled: str = ""
    notes: list[ToolNote] = []


class ToolAnswer(Struct, frozen=True, omit_defaults=True):
    """What a program gets: the outcome of a call, or in `run` the number under which it is to make it.

    `wait_s` is how long the call takes. An answer without anything leaves what the tool has returned. A program that
    gets None instead of an answer is killed.
    """

    result: Any = UNSET
    type: str | None = None
    error: RecordedError | None = None
    run: int = 0
    wait_s: float = 0.0
    refused: bool = False


AS_IT_WAS = ToolAnswer()
MAX_OUTCOME_CHARS = 300


class ProgramToolCall(Struct, frozen=True, kw_only=True):
    """A tool call that is answered: `did` is what the tool did, None if it did not run, and `got` what the program gets
    of that, after `wait_s` seconds."""

    tool: str
    arguments: JsonObject
    number: int
    call: int
    fault: str
    did: ToolExchange | None = None
    got: ToolExchange
    wait_s: float = 0.0


class SessionTools(ScriptedTools):
    """Answers the tools of one run of an exploration, and notes in its session what was never recorded."""

    def __init__(
        self, session: WireSession, script: Script[ToolExchange], *, alike: AlikeArguments | None = None
    ) -> None:
        assert isinstance(session.source, ScriptedModels)
        super().__init__(session.source, script, alike=alike)
        self._session = session

    def continued(
        self, tool: str, arguments: JsonObject, refusal: RecordingMismatchError
    ) -> ExchangeMatch[ToolExchange]:
        noted = refusal.replace(fired=[str(planned) for planned in self._session.fired], hint="")
        self._session.diverged = self._session.diverged or str(noted)
        return super().continued(tool, arguments, refusal)


class _OpenCall(Struct, frozen=True):
    """A call that the program makes for real."""

    attempt: ToolAttempt
    tool: str
    arguments: JsonObject
    started_s: float
    recorded: ToolExchange | None = None


class ProgramTools:
    """Answers the tool calls of one run, from `source` or, if that has none and they may run, by the tools themselves.

    Args:
        session: the session of the run, which numbers calls, and has their faults and misses.
        source: finds recorded results; None if nothing is recorded.
        recorder: records what tools do; None in a replay.
        options: which tools run for real though they are recorded.
    """

    def __init__(
        self,
        session: WireSession,
        source: RecordedTools | None,
        *,
        recorder: Recorder | None = None,
        options: ProgramToolOptions,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.session, self.source = session, source
        self._recorder, self._options, self._clock = recorder, options, clock
        self.taken: set[str] = set()
        self._notes: dict[ToolNote, None] = {}
        self._opaque: dict[str, str] = {}
        self._differing: list[str] = []
        self._open: dict[int, _OpenCall] = {}

    @property
    def remarks(self) -> list[str]:
        """What could not be taken over, runs for real because of its results, and returned something else today."""
        is_replay = self._recorder is None
        opaque = [
            f"{tool} ran for real: it returned a {kind}, which cannot be rebuilt from a recording"
            if is_replay
            else f"{tool} returned a {kind}, which cannot be rebuilt: in a replay, {tool} runs for real"
            for tool, kind in self._opaque.items()
        ]
        return [*(str(note) for note in self._notes if note.problem), *opaque, *self._differing]

    def answer(self, message: ToolMessage) -> ToolAnswer | None:
        """Answer what a program asks or says; None if it is killed instead."""
        self._notes |= dict.fromkeys(message.notes)
        if message.call:
            call = self._open.pop(message.call, None)
            return AS_IT_WAS if call is None else self._end(call, message)
        return self._begin(message.tool, message.arguments) if message.tool else AS_IT_WAS

    def _begin(self, tool: str, arguments: JsonObject) -> ToolAnswer | None:
        self.taken.add(tool)
        attempt = self.session.start_tool_call(tool)
        call = _OpenCall(attempt, tool, arguments, self._clock.monotonic_s())
        if attempt.crash is not None and attempt.crash.when == "before":
            self.session.observer.crash()
            return None
        fault = _fault_of(attempt)
        if fault is not None and not fault.runs_tool:
            return self._finish(call, None, "fault")
        if self._options.runs(tool):
            return self._run(replace(call, recorded=self._recorded(tool, arguments)))
        try:
            found = self._find(tool, arguments, is_lost=fault is not None and "loses_answer" in fault.traits)
        except RecordingMismatchError as error:
            return self._run(call) if self._recorder is not None and self._recorder.is_live else self._miss(call, error)
        return self._run(call) if found is None else self._finish(call, found, "served")

    def _find(self, tool: str, arguments: JsonObject, *, is_lost: bool) -> ToolExchange | None:
        """Return what answers a call; None if its result cannot be rebuilt, so that the tool runs.

        An answer that `is_lost` on its way stays for the next call.

        Raises:
            RecordingMismatchError: nothing does.
        """
        if self.source is None:
            raise RecordingMismatchError(f"no call of {tool} is recorded", kind="missing", key=tool)
        match = self.source.find(tool, arguments)
        if match.stored is None:
            return ToolExchange(arguments=arguments, result=None)
        if match.matched_by != "default" and not is_lost:
            self.source.use(match)
        exchange = match.stored.exchange
        if not exchange.result_type or ":" in exchange.result_type:
            return exchange
        self._opaque[tool] = exchange.result_type
        return None

    def _recorded(self, tool: str, arguments: JsonObject) -> ToolExchange | None:
        """Return what a tool that runs for real is compared with; None in an exploration, which compares runs."""
        if self.session.is_explored or self._recorder is not None:
            return None
        try:
            return self._find(tool, arguments, is_lost=False)
        except RecordingMismatchError:
            self._differing.append(f"{Effect(tool=tool, arguments=arguments)} ran for real, and is not recorded")
            return None

    def _run(self, call: _OpenCall) -> ToolAnswer:
        self._open[call.attempt.number] = call
        return ToolAnswer(run=call.attempt.number)

    def _end(self, call: _OpenCall, message: ToolMessage) -> ToolAnswer | None:
        """Record what a tool has done, and return what the program gets instead."""
        if message.cancelled:
            return AS_IT_WAS
        did = ToolExchange(
            arguments=call.arguments,
            result=message.result if message.error is None else UNSET,
            result_type=message.type,
            error=message.error,
            latency_ms=round((self._clock.monotonic_s() - call.started_s) * 1000.0, 3),
        )
        if call.recorded is not None and (difference := _difference(call.recorded, did)):
            self._differing.append(f"{Effect(tool=call.tool, arguments=call.arguments)} {difference}")
        if self._recorder is not None and message.type and ":" not in message.type:
            self._opaque[call.tool] = message.type
        outcome: WireOutcome = "passed"
        if self._recorder is not None:
            try:
                self._recorder.record_tool(call.tool, did)
                outcome = "recorded"
            except (RecordingWriteError, RecordingUnavailableError) as error:
                return self._note(call, did, ToolAnswer(error=RecordedError("RuntimeError", str(error))), "refused")
        return self._finish(call, did, outcome, is_real=True)

    def _finish(
        self, call: _OpenCall, did: ToolExchange | None, outcome: WireOutcome, *, is_real: bool = False
    ) -> ToolAnswer | None:
        """Apply the fault of a call to what the tool has done, note the call, and return what the program gets."""
        crash, fault = call.attempt.crash, _fault_of(call.attempt)
        if fault is None:
            answer = AS_IT_WAS if is_real or did is None else _answer(did)
        else:
            answer, outcome = _struck(fault, call, did), "fault"
        self._note(call, did, answer, outcome)
        if crash is not None:
            self.session.observer.crash()
            return None
        return answer

    def _miss(self, call: _OpenCall, error: RecordingMismatchError) -> ToolAnswer:
        outcome = CallOutcome("missed")
        hint = f"record it again, or let it run for real: --run-tools, or [tools.{call.tool}] run = true"
        error = self.session.note_tool_miss(self._wire_call(call, outcome), error, hint=hint)
        message = shorten(str(error), MAX_ERROR_CHARS)
        return self._note(call, None, ToolAnswer(error=RecordedError(error.kind, message), refused=True), "missed")

    def _note(self, call: _OpenCall, did: ToolExchange | None, answer: ToolAnswer, outcome: WireOutcome) -> ToolAnswer:
        noted = CallOutcome(outcome, call.tool)
        self.session.note_tool_call(self._wire_call(call, noted), noted)
        got = did if answer is AS_IT_WAS and did is not None else ToolExchange(result=answer.result, error=answer.error)
        fault = call.attempt.fault
        self.session.observer.tool_ended(
            ProgramToolCall(
                tool=call.tool,
                arguments=call.arguments,
                number=call.attempt.number,
                call=call.attempt.site.call,
                fault="" if fault is None else fault.type,
                did=did,
                got=got,
                wait_s=answer.wait_s,
            )
        )
        return answer

    def _wire_call(self, call: _OpenCall, outcome: CallOutcome) -> WireCall:
        fault = call.attempt.fault
        return WireCall(
            number=call.attempt.number,
            session=self.session.name,
            vendor=TOOLS,
            place=call.tool,
            outcome=outcome.type,
            key=call.tool,
            fault=None if fault is None else fault.type,
            method="tool",
        )


def _fault_of(attempt: ToolAttempt) -> ToolFault | None:
    return attempt.fault if isinstance(attempt.fault, ToolFault) else None


def _difference(recorded: ToolExchange, did: ToolExchange) -> str:
    """Return how a result differs from the recorded one, which has no secrets; empty if it does not."""
    today, before = (_outcome_text(each) for each in (redactor_in_force().redact_tool(did), recorded))
    return "" if today == before else f"{today} today; recorded: it {before}"


def _outcome_text(exchange: ToolExchange) -> str:
    if exchange.error is not None:
        return shorten(f"raised {exchange.error.type}: {exchange.error.message}", MAX_OUTCOME_CHARS)
    return shorten(f"returned {result_text(exchange.answer)}", MAX_OUTCOME_CHARS)


def _answer(exchange: ToolExchange) -> ToolAnswer:
    result = None if isinstance(exchange.result, UnsetType) and exchange.error is None else exchange.result
    return ToolAnswer(result=result, type=exchange.result_type, error=exchange.error)


def _struck(fault: ToolFault, call: _OpenCall, did: ToolExchange | None) -> ToolAnswer:
    """Return what the program gets of a call with a fault: an error of a class that tools raise, or a wrong result."""
    if did is not None and did.error is not None:
        return _answer(did)
    try:
        result = fault.outcome(call.tool, call.attempt.mark, None if did is None else did.answer)
    except ToolTimeoutError as error:
        return ToolAnswer(error=RecordedError("TimeoutError", str(error)), wait_s=fault.wait_s)
    except Exception as error:
        kind = "ConnectionError" if "loses_answer" in fault.traits else "RuntimeError"
        return ToolAnswer(error=RecordedError(kind, str(error)), wait_s=fault.wait_s)
    return ToolAnswer(result=msgspec.to_builtins(result), wait_s=fault.wait_s)
