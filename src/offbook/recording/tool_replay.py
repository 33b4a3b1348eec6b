"""Wraps tools so that every call is answered from a recording."""

from __future__ import annotations

import logging
import os
import threading
from abc import abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import MismatchKind
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.file import document_from_dict
from offbook.recording.format.tool_exchange import ToolExchange, error_from_record, hash_arguments, json_arguments
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.match.cursor import Cursor, ExchangeMatch, UnusedEntry
from offbook.recording.match.mismatch import tool_mismatch_error
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import RecordingReader
from offbook.tools.definition import ToolDef, wrap_tool
from offbook.tools.dispatch import is_async
from offbook.tools.toolbox import GivenTools, Toolbox


class ClosableToolbox(Toolbox):
    """A toolbox that holds a recording open, to be used as a context manager or closed."""

    @abstractmethod
    def wrap(self, tool: ToolDef) -> ToolDef:
        """A further tool, put in place like the others; its calls count with theirs."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the recording. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


logger = logging.getLogger("offbook.replay")

RecordingInput: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Document


class ReplayedToolCall(Struct, frozen=True):
    """A call that was answered: with a recorded exchange that fits, or, if lenient, with one that does not or none."""

    tool: str
    arguments: JsonObject
    mismatch: MismatchKind | None = None
    error_type: str | None = None


def replay_tools(
    tools: GivenTools,
    recording: RecordingInput,
    *,
    strict: bool = True,
    default: object = None,
    latency_model: LatencyModel = "constant",
    latency_ms: float = 0.0,
    seed: int = 0,
    clock: Clock = SYSTEM_CLOCK,
) -> ReplayedTools:
    """The same tools, whose calls are answered from a recording: nothing of them runs.

    A call is answered by the first unused exchange of its tool that was recorded with the same
    arguments, or without any. What was recorded as an error is raised again.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        recording: a path, `sqlite:///path.db`, or the same document as a dict.
        strict: whether a call that nothing fits raises RecordingMismatchError. If not, it is answered
            with the next exchange of its tool, else the last one, else `default`, and a warning of one line.
        latency_model, latency_ms, seed: how long calls take; see Latency.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """
    latency = Latency(latency_model, latency_ms=latency_ms, seed=seed)
    shelf = _open_reader(recording)
    if strict:
        check_strict(shelf.version, source=shelf.source)
    return ReplayedTools(Toolbox(tools), shelf, strict=strict, default=default, latency=latency, clock=clock)


def _open_reader(recording: RecordingInput) -> RecordingReader:
    if isinstance(recording, str | os.PathLike):
        return open_store(recording).read()
    document = recording if isinstance(recording, Document) else document_from_dict(recording, source="recording")
    return MemoryReader(document, source="recording")


class ReplayedTools(ClosableToolbox):
    """Tools that answer from a recording. `calls` are those answered so far, in order.

    A callable is a coroutine function where the real one is, and where it may have to wait: with a
    latency, or a `timeout_s`.
    """

    def __init__(
        self, tools: Toolbox, shelf: RecordingReader, *, strict: bool, default: object, latency: Latency, clock: Clock
    ) -> None:
        self._shelf, self._row, self._cursor = shelf, shelf.tools, Cursor(shelf.tools)
        self._strict, self._default, self._latency, self._clock = strict, default, latency, clock
        self._lock = threading.Lock()
        self.calls: list[ReplayedToolCall] = []
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def unused(self) -> list[UnusedEntry]:
        """The exchanges that were never served, in the recording's order; their key is the tool's name."""
        return self._cursor.unused()

    def answers(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the recording holds what a strict replay would answer the call with now."""
        return self._match(tool, json_arguments(arguments)).mismatch is None

    def answer(self, tool: ToolDef, arguments: Mapping[str, object]) -> Any:
        """What the call is answered with, at once. Raises the error that was recorded, if one was."""
        return self._outcome(self._take(tool.name, json_arguments(arguments)), tool)

    def close(self) -> None:
        self._shelf.close()

    def wrap(self, tool: ToolDef) -> ToolDef:
        def answer(**arguments: Any) -> Any:
            return self.answer(tool, arguments)

        async def answer_in_time(**arguments: Any) -> Any:
            exchange = self._take(tool.name, json_arguments(arguments))
            if not self._latency.is_none:
                recorded_ms = 0.0 if exchange is None else exchange.latency_ms
                await self._clock.sleep_s(self._latency.delay_ms(recorded_ms) / 1000.0)
            return self._outcome(exchange, tool)

        waits = is_async(tool.callable) or tool.timeout_s is not None or not self._latency.is_none
        return wrap_tool(tool, answer_in_time if waits else answer, timeout_s=tool.timeout_s)

    def _take(self, tool: str, arguments: JsonObject) -> ToolExchange | None:
        """The exchange that answers the call, counted as served; None if there is none of that tool."""
        with self._lock:
            match = self._match(tool, arguments)
            if match.mismatch is not None:
                self._report_mismatch(tool, arguments, match)
            exchange = None if match.stored is None else match.stored.exchange
            if match.stored is not None:
                self._cursor.use(match.stored)
            error_type = exchange.error.type if exchange is not None and exchange.error is not None else None
            self.calls.append(ReplayedToolCall(tool, arguments, match.mismatch, error_type))
            return exchange

    def _match(self, tool: str, arguments: JsonObject) -> ExchangeMatch[ToolExchange]:
        match = self._cursor.match_key(tool, "step_id", hash_arguments(arguments))
        return ExchangeMatch("default", mismatch="missing") if match is None else match

    def _report_mismatch(self, tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange]) -> None:
        """Raise the mismatch if strict, else warn of it in one line."""
        if self._strict:
            raise tool_mismatch_error(tool, arguments, match, self._row)
        answered = "with the default" if match.stored is None else "from the recording all the same"
        logger.warning("%s: a call of %r is %s; answered %s", self._row.source, tool, match.mismatch, answered)

    def _outcome(self, exchange: ToolExchange | None, tool: ToolDef) -> Any:
        if exchange is None:
            return self._default
        if exchange.error is not None:
            raise error_from_record(exchange.error, tool=tool)
        return exchange.answer
