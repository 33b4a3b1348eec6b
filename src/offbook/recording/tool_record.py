"""Wraps tools so that every call is recorded."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import InputError
from offbook.messages import JsonObject, ToolCall
from offbook.recording.format.tool_exchange import ToolExchange, json_arguments, json_form, recorded_error
from offbook.recording.record_mode import (
    KeyReplacement,
    RecordMode,
    check_mode,
    open_writer,
    timestamp,
    timestamp_after,
)
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import RecordingWriter, Store
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
    """The same tools, of whose calls each is kept at `output_path` before the caller sees its end.

    What is kept are the arguments as the model gave them, and the result as JSON, or the error. What has
    no JSON is kept as its text. Secrets are taken out before anything is written. A call whose arguments
    are refused is not a call, and one that is cancelled is not kept.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        output_path: the recording: a path, or `sqlite:///path.db`; made if absent, added to if there. A
            RecordingProvider may write to it at the same time.
        record: as for RecordingProvider; each looks at the exchanges of tools alone.
        redactor: what counts as a secret.

    Raises:
        InputError: the recording cannot be written, or is no recording.
    """
    check_mode(record)
    toolbox, store = Toolbox(tools), open_store(output_path)
    found_until = _end_of_tool_calls(store, clock) if record == "all" and store.exists() else None
    writer = open_writer(store, record, "tools")
    try:
        known = _replay_of(toolbox, store, record, clock) if writer.tool_size else None
    except InputError:
        writer.close()
        raise
    call_writer = ToolCallWriter(writer, redactor or Redactor(), KeyReplacement(found_until), clock)
    return RecordingTools(toolbox, call_writer, known=known, is_live=record != "once" or known is None)


def _end_of_tool_calls(store: Store, clock: Clock) -> str:
    shelf = store.read()
    try:
        return timestamp_after(shelf.tools, clock)
    finally:
        shelf.close()


def _replay_of(tools: Toolbox, store: Store, record: RecordMode, clock: Clock) -> ReplayedTools | None:
    """What answers before the real tools do: the recording without what this run adds to it."""
    match record:
        case "once":
            return replay_tools(tools, store.location, clock=clock)
        case "new":
            return replay_tools(tools, store.load(), clock=clock)
        case _:
            return None


class PendingToolCall(Struct, frozen=True):
    """A call under way: of which tool, with which arguments, as JSON, and since when."""

    tool: str
    arguments: JsonObject
    started_s: float


class ToolCallWriter:
    """Keeps calls of tools in a recording."""

    def __init__(self, writer: RecordingWriter, redactor: Redactor, replacing: KeyReplacement, clock: Clock) -> None:
        self._writer, self._redactor, self._replacing, self._clock = writer, redactor, replacing, clock
        self._lock = threading.Lock()

    def begin(self, tool: str, arguments: JsonObject) -> PendingToolCall:
        """A call that begins now."""
        return PendingToolCall(tool, json_arguments(arguments), self._clock.monotonic_s())

    def keep_result(self, call: PendingToolCall, result: object) -> None:
        """Keep a call that has ended now, with what it gave."""
        form = json_form(result)
        self._keep(call, ToolExchange(result=form.value, result_type=form.told_of))

    def keep_error(self, call: PendingToolCall, error: Exception) -> None:
        """Keep a call that has ended now, with what it raised; errors of the test are none of the tool."""
        if not isinstance(error, TEST_ERRORS):
            self._keep(call, ToolExchange(error=recorded_error(error)))

    def close(self) -> None:
        self._writer.close()

    def _keep(self, call: PendingToolCall, outcome: ToolExchange) -> None:
        elapsed_s = self._clock.monotonic_s() - call.started_s
        exchange = self._redactor.redact_tool(
            replace(
                outcome,
                arguments=call.arguments,
                latency_ms=round(elapsed_s * 1000.0, 3),
                recorded_at=timestamp(self._clock),
            )
        )
        with self._lock:
            forget_before = self._replacing.forget_before(call.tool)
            self._writer.append_tool(call.tool, exchange, forget_before=forget_before)


class RecordingTools(ClosableToolbox):
    """Tools whose calls are kept. Their time limits are kept inside: a call that was too late is recorded as such."""

    def __init__(
        self, tools: Toolbox, call_writer: ToolCallWriter, *, known: ReplayedTools | None, is_live: bool
    ) -> None:
        self._call_writer, self._known, self._is_live = call_writer, known, is_live
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def close(self) -> None:
        try:
            self._call_writer.close()
        finally:
            if self._known is not None:
                self._known.close()

    def wrap(self, tool: ToolDef) -> ToolDef:
        def call(**arguments: Any) -> Any:
            known = self._known_to_answer(tool, arguments)
            return self._run(tool, arguments) if known is None else known.answer(tool, arguments)

        async def call_and_wait(**arguments: Any) -> Any:
            known = self._known_to_answer(tool, arguments)
            if known is not None:
                return known.answer(tool, arguments)
            return await (self._run(tool, arguments) if tool.timeout_s is None else self._run_in_time(tool, arguments))

        waits = is_async(tool.callable) or tool.timeout_s is not None
        return wrap_tool(tool, call_and_wait if waits else call, timeout_s=None)

    def _known_to_answer(self, tool: ToolDef, arguments: JsonObject) -> ReplayedTools | None:
        """The recording as it was found, if that answers the call and not the real tool."""
        known = self._known
        return known if known is not None and (not self._is_live or known.answers(tool.name, arguments)) else None

    def _run(self, tool: ToolDef, arguments: JsonObject) -> Any:
        bound = tool.bind(arguments)
        call = self._call_writer.begin(tool.name, arguments)
        try:
            value = tool.callable(**bound)
        except Exception as error:
            self._call_writer.keep_error(call, error)
            raise
        if hasattr(type(value), "__await__"):
            return self._finish(call, value)
        self._call_writer.keep_result(call, value)
        return value

    async def _finish(self, call: PendingToolCall, value: Awaitable[Any]) -> Any:
        try:
            result = await value
        except Exception as error:
            self._call_writer.keep_error(call, error)
            raise
        self._call_writer.keep_result(call, result)
        return result

    async def _run_in_time(self, tool: ToolDef, arguments: JsonObject) -> Any:
        tool.bind(arguments)
        call = self._call_writer.begin(tool.name, arguments)
        outcome = await run_tool(tool, ToolCall(tool.name, arguments))
        if outcome.error is not None:
            self._call_writer.keep_error(call, outcome.error)
            raise outcome.error
        self._call_writer.keep_result(call, outcome.value)
        return outcome.value
