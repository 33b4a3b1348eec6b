"""Wraps tools so that every call is recorded."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.messages import JsonObject, ToolCall
from offbook.recording.format.tool_exchange import ToolExchange, json_arguments, json_form, recorded_error
from offbook.recording.record_mode import OpenRecording, RecordMode, open_recording, timestamp
from offbook.recording.redact.redactor import Redactor
from offbook.recording.redact.rules import redactor_in_force
from offbook.recording.tool_replay import ClosableToolbox, ReplayedTools, replay_tools
from offbook.tools.definition import ToolDef, wrap_tool
from offbook.tools.dispatch import TEST_ERRORS, is_async, run_tool
from offbook.tools.toolbox import GivenTools, Toolbox


def record_tools(
    tools: GivenTools,
    output_path: str | os.PathLike[str],
    *,
    record: RecordMode = "append",
    redactor: Redactor | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> RecordingTools:
    """Wrap tools so that every call is recorded at `output_path` before the caller gets its result.

    Each exchange has the arguments as the model gave them, and the result as JSON, or the error. A value without a
    JSON form is recorded as text. Secrets are removed before anything is written. A call with invalid arguments and
    a call that is cancelled are not recorded.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        output_path: the recording: a path, or `sqlite:///path.db`. It is created if it does not exist. A
            RecordingProvider may write to it at the same time.
        record: the record mode, as for RecordingProvider; it concerns the tool exchanges only.
        redactor: decides what is a secret; by default, the rules in force (see `redacting`).

    Raises:
        InputError: the recording cannot be written, or the file is not a recording.
    """
    toolbox, recording = Toolbox(tools), open_recording(output_path, mode=record, kind="tools")
    try:
        replay = replay_tools(toolbox, recording.answers(), clock=clock) if recording.has_answers else None
    except InputError:
        recording.close()
        raise
    return RecordingTools(toolbox, recording, replay=replay, redactor=redactor or redactor_in_force(), clock=clock)


class _PendingToolCall(Struct, frozen=True):
    """A call that has started: the tool, the arguments as JSON, and the time of the start."""

    tool: str
    arguments: JsonObject
    started_s: float


class RecordingTools(ClosableToolbox):
    """Tools whose calls are recorded. Their timeouts apply inside: a call that timed out is recorded as such."""

    def __init__(
        self,
        tools: Toolbox,
        recording: OpenRecording,
        *,
        replay: ReplayedTools | None,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._recording, self._replay, self._redactor, self._clock = recording, replay, redactor, clock
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
            replay = self._replay_for(tool, arguments)
            return self._run(tool, arguments) if replay is None else replay.answer(tool, arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            replay = self._replay_for(tool, arguments)
            if replay is not None:
                return replay.answer(tool, arguments)
            return await (self._run(tool, arguments) if tool.timeout_s is None else self._run_in_time(tool, arguments))

        waits = is_async(tool.callable) or tool.timeout_s is not None
        return wrap_tool(tool, call_and_wait if waits else call, timeout_s=None)

    def _replay_for(self, tool: ToolDef, arguments: JsonObject) -> ReplayedTools | None:
        """Return the replay if it answers the call, and None if the tool is to run."""
        replay = self._replay
        if replay is None or (self._recording.is_live and not replay.answers(tool.name, arguments)):
            return None
        return replay

    def _run(self, tool: ToolDef, arguments: JsonObject) -> Any:
        bound = tool.bind(arguments)
        call = self._start(tool, arguments)
        try:
            value = tool.callable(**bound)
        except Exception as error:
            self._record_error(call, error)
            raise
        if hasattr(type(value), "__await__"):
            return self._finish(call, value)
        self._record_result(call, value)
        return value

    async def _finish(self, call: _PendingToolCall, value: Awaitable[Any]) -> Any:
        try:
            result = await value
        except Exception as error:
            self._record_error(call, error)
            raise
        self._record_result(call, result)
        return result

    async def _run_in_time(self, tool: ToolDef, arguments: JsonObject) -> Any:
        tool.bind(arguments)
        call = self._start(tool, arguments)
        outcome = await run_tool(tool, ToolCall(tool.name, arguments))
        if outcome.error is not None:
            self._record_error(call, outcome.error)
            raise outcome.error
        self._record_result(call, outcome.value)
        return outcome.value

    def _start(self, tool: ToolDef, arguments: JsonObject) -> _PendingToolCall:
        return _PendingToolCall(tool.name, json_arguments(arguments), self._clock.monotonic_s())

    def _record_result(self, call: _PendingToolCall, result: object) -> None:
        form = json_form(result)
        self._record(call, ToolExchange(result=form.value, result_type=form.type_name))

    def _record_error(self, call: _PendingToolCall, error: Exception) -> None:
        """Record what the tool raised. Errors of the test itself are not errors of the tool."""
        if not isinstance(error, TEST_ERRORS):
            self._record(call, ToolExchange(error=recorded_error(error)))

    def _record(self, call: _PendingToolCall, outcome: ToolExchange) -> None:
        elapsed_s = self._clock.monotonic_s() - call.started_s
        exchange = replace(
            outcome,
            arguments=call.arguments,
            latency_ms=round(elapsed_s * 1000.0, 3),
            recorded_at=timestamp(self._clock),
        )
        self._recording.append_tool(self._redactor.text(call.tool), self._redactor.redact_tool(exchange))
