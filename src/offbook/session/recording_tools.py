"""Records tool calls: tools are wrapped, and each call is recorded before the caller gets its result."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock, pauses_until
from offbook.errors import InputError
from offbook.messages import JsonObject, ToolCall
from offbook.recording.call_cache import ANSWERED, OWN_TURN, CallTurn, WaitingCall
from offbook.recording.format.exchange import ToolExchange, json_arguments, json_form, recorded_error
from offbook.recording.redact.redactor import Redactor
from offbook.session.numbers import ToolCallNames
from offbook.session.recorder import ExchangeWriter, Recorder, RecordMode
from offbook.session.replayed_tools import ClosableToolbox, ReplayedTools, replay_tools
from offbook.session.sources import CachedTools
from offbook.tools.definition import ToolDef, is_async, wrap_tool
from offbook.tools.dispatch import TEST_ERRORS, run_tool
from offbook.tools.toolbox import GivenTools, Toolbox


def record_tools(
    tools: GivenTools,
    output_path: str | os.PathLike[str],
    *,
    record: RecordMode = "append",
    redactor: Redactor | None = None,
    clock: Clock = SYSTEM_CLOCK,
    first_to: ExchangeWriter | None = None,
) -> RecordingTools:
    """Wrap tools so that every call is recorded at `output_path` before the caller gets its result.

    Each exchange has the model's arguments, and the result as JSON, or the error. A value without a JSON form is
    recorded as text. Secrets are removed before anything is written. Calls with invalid arguments and cancelled calls
    are not recorded.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        output_path: the recording: a path, or `sqlite:///path.db`. It is created if missing. A
            RecordingProvider may write to it at the same time.
        record: the record mode, as for RecordingProvider, only for tool exchanges. In mode `new`, one
            of the processes that share a recording in Redis makes each call, and the others wait for its result. The
            second of two equal calls is a different call.
        redactor: decides what is a secret; by default, the active rules (see `redacting`).
        first_to: gets each exchange before it is recorded, such as the `calls` of a stored run.

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """
    toolbox = Toolbox(tools)
    recording = Recorder(output_path, mode=record, kind="tools", redactor=redactor, first_to=first_to, clock=clock)
    try:
        replay = _open_replay(toolbox, recording, clock=clock) if recording.has_answers else None
    except InputError:
        recording.close()
        raise
    return RecordingTools(toolbox, recording, replay=replay)


def _open_replay(toolbox: Toolbox, recording: Recorder, *, clock: Clock) -> ReplayedTools:
    if recording.cache is None:
        return replay_tools(toolbox, recording.answers(), clock=clock)
    return ReplayedTools(toolbox, CachedTools(recording.cache), reader=recording.cache.reader, clock=clock)


class _PendingToolCall(Struct, frozen=True):
    """A call that has started: the tool, the arguments as JSON, the time of the start, and the turn to make it."""

    tool: str
    arguments: JsonObject
    started_s: float
    turn: CallTurn


class _NoWait:
    """A call whose turn is known immediately."""

    def __init__(self, turn: CallTurn) -> None:
        self._turn = turn

    def is_over(self) -> bool:
        return True

    def turn(self) -> CallTurn:
        return self._turn


class RecordingTools(ClosableToolbox):
    """Tools whose calls are recorded. Their timeouts apply inside: a timeout is recorded as such."""

    def __init__(
        self,
        tools: Toolbox,
        recording: Recorder,
        *,
        replay: ReplayedTools | None,
    ) -> None:
        self._recording, self._replay, self._clock = recording, replay, recording.clock
        self._names = ToolCallNames()
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def keep(self) -> None:
        self._recording.keep()

    def close(self) -> None:
        try:
            self._recording.close()
        finally:
            if self._replay is not None:
                self._replay.close()

    def wrap(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            waiting = self._wait_for_turn(tool, arguments)
            for pause_s in pauses_until(waiting.is_over):
                time.sleep(pause_s)
            return self._act(tool, arguments, waiting.turn())

        async def call_and_wait(**arguments: Any) -> Any:
            waiting = self._wait_for_turn(tool, arguments)
            for pause_s in pauses_until(waiting.is_over):
                await self._clock.sleep_s(pause_s)
            result = self._act(tool, arguments, waiting.turn())
            return await result if hasattr(type(result), "__await__") else result

        waits = is_async(tool.callable) or tool.timeout_s is not None
        return wrap_tool(tool, call_and_wait if waits else call, timeout_s=None)

    def _wait_for_turn(self, tool: ToolDef, arguments: JsonObject) -> WaitingCall | _NoWait:
        """Decide whether the recording answers the call, the tool is to run, or another process may be running it."""
        replay, recording = self._replay, self._recording
        if replay is None:
            return _NoWait(OWN_TURN)
        is_answered = not recording.is_live or recording.has_answer(lambda: replay.answers(tool.name, arguments))
        if recording.cache is None:
            return _NoWait(ANSWERED if is_answered else OWN_TURN)
        if not is_answered:
            tool.bind(arguments)  # raises before anybody waits for this call
        name = self._names.start(tool.name, json_arguments(arguments))
        if is_answered:
            return _NoWait(ANSWERED)
        return WaitingCall(recording.cache, name, lambda: replay.answers(tool.name, arguments))

    def _act(self, tool: ToolDef, arguments: JsonObject, turn: CallTurn) -> Any:
        """Return the recorded answer, or the tool's possibly awaitable result."""
        if turn.is_answered:
            assert self._replay is not None
            return self._replay.answer(tool, arguments)
        bound = tool.bind(arguments)
        call = _PendingToolCall(tool.name, json_arguments(arguments), self._clock.monotonic_s(), turn)
        return self._run(tool, bound, call) if tool.timeout_s is None else self._run_in_time(tool, arguments, call)

    def _run(self, tool: ToolDef, bound: JsonObject, call: _PendingToolCall) -> Any:
        with self._recording_errors(call):
            value = tool.callable(**bound)
        if hasattr(type(value), "__await__"):
            return self._finish(call, value)
        self._record_result(call, value)
        return value

    async def _finish(self, call: _PendingToolCall, value: Awaitable[Any]) -> Any:
        with self._recording_errors(call):
            result = await value
        self._record_result(call, result)
        return result

    async def _run_in_time(self, tool: ToolDef, arguments: JsonObject, call: _PendingToolCall) -> Any:
        with self._recording_errors(call):
            outcome = await run_tool(tool, ToolCall(tool.name, arguments))
            if outcome.error is not None:
                raise outcome.error
        self._record_result(call, outcome.value)
        return outcome.value

    @contextmanager
    def _recording_errors(self, call: _PendingToolCall) -> Iterator[None]:
        """Record the tool's errors. Errors of the test itself are not the tool's."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, TEST_ERRORS):
                self._record(call, ToolExchange(error=recorded_error(error)))
            else:
                call.turn.release()
                self._names.undo(call.tool, call.arguments)
            raise

    def _record_result(self, call: _PendingToolCall, result: object) -> None:
        form = json_form(result)
        self._record(call, ToolExchange(result=form.value, result_type=form.type_name))

    def _record(self, call: _PendingToolCall, outcome: ToolExchange) -> None:
        elapsed_s = self._clock.monotonic_s() - call.started_s
        exchange = replace(
            outcome,
            arguments=call.arguments,
            latency_ms=round(elapsed_s * 1000.0, 3),
        )
        try:
            recorded = self._recording.record_tool(call.tool, exchange, turn=call.turn).id
        finally:
            call.turn.release()
        if recorded is not None and self._replay is not None:
            self._replay.note_used([recorded])  # its answer is for other processes
