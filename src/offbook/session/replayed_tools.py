"""Wraps tools so that every call is answered from a recording."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import MismatchKind, RecordingMismatchError
from offbook.messages import JsonObject
from offbook.recording.format.document import check_strict
from offbook.recording.format.exchange import ToolExchange, error_from_record, json_arguments
from offbook.recording.latency import NO_LATENCY, Latency, LatencyModel
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.stores.locate import RecordingInput, open_reader
from offbook.recording.stores.store import RecordingReader, log_warning
from offbook.session.log import Log, Served
from offbook.session.sources import RecordedTools
from offbook.session.tape import Tape
from offbook.tools.definition import ToolDef, is_async, wrap_tool
from offbook.tools.toolbox import GivenTools, Toolbox


class ClosableToolbox(Toolbox):
    """A toolbox with an open recording. Use it as a context manager, or close it."""

    @abstractmethod
    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool; its calls count with the others."""

    @abstractmethod
    def close(self) -> None:
        """Close the recording. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def keep(self) -> None:
        """Keep the recording unchanged, because the run failed. Only modes that replace it are affected."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.keep()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)


class ReplayedToolCall(Struct, frozen=True):
    """An answered call. `mismatch` is a strict replay's reason to refuse it, or None."""

    tool: str
    arguments: JsonObject
    mismatch: MismatchKind | None = None
    error_type: str | None = None


def replay_tools(
    tools: GivenTools,
    recording: RecordingInput | RecordingReader,
    *,
    strict: bool = True,
    default: object = None,
    latency_model: LatencyModel = "constant",
    latency_ms: float = 0.0,
    seed: int = 0,
    clock: Clock = SYSTEM_CLOCK,
) -> ReplayedTools:
    """Wrap tools so that every call is answered from a recording. The tools themselves do not run.

    A call is answered by its tool's first unused exchange with equal arguments, or with none. A recorded error is
    raised again.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        recording: a path, `sqlite:///path.db`, or the document as a dict.
        strict: whether a call without a match raises RecordingMismatchError. If not, it gets the next
            exchange of its tool, else the last one, else `default`, with a one-line warning.
        latency_model, latency_ms, seed: the latency of calls; see Latency.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """
    latency = Latency(latency_model, latency_ms=latency_ms, seed=seed)
    reader = open_reader(recording, source="recording")
    if strict:
        check_strict(reader.version, source=reader.source)
    return ReplayedTools(
        Toolbox(tools),
        RecordedTools(Tape(reader, strict=strict)),
        reader=reader,
        default=default,
        latency=latency,
        clock=clock,
    )


class ReplayedTools(ClosableToolbox, Served):
    """Tools that answer from a recording. `calls` lists the answered calls in order, and `misses` the refused ones.

    `hint` replaces the hint of every refusal, if set. `recorded_calls` are all calls of the recording.

    A callable is a coroutine function if the real one is, and if it may have to wait: with a latency, or a `timeout_s`.
    """

    def __init__(
        self,
        tools: Toolbox,
        source: RecordedTools,
        *,
        reader: RecordingReader,
        default: object = None,
        latency: Latency = NO_LATENCY,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._source, self._reader = source, reader
        self._default, self._latency, self._clock = default, latency, clock
        self._lock = threading.Lock()
        self.recorded_calls = source.index
        self.calls: list[ReplayedToolCall] = []
        self.misses: list[RecordingMismatchError] = []
        self.hint: str | None = None
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served."""
        self._source.note_used(ids)

    @property
    def log(self) -> Log:
        """The log of served exchanges. The keys of entries are the names of tools."""
        return self._source.log

    def answers(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Return whether a strict replay has an answer for the call now."""
        return self._source.look_up(tool, json_arguments(arguments)).mismatch is None

    def answer(self, tool: ToolDef, arguments: Mapping[str, object]) -> Any:
        """Return the answer to the call without waiting. Raises a recorded error."""
        return self._outcome(self._take(tool.name, json_arguments(arguments)), tool)

    def close(self) -> None:
        self._reader.close()

    def wrap(self, tool: ToolDef) -> ToolDef:
        def answer(**arguments: Any) -> Any:
            return self.answer(tool, arguments)

        async def answer_in_time(**arguments: Any) -> Any:
            exchange = self._take(tool.name, json_arguments(arguments))
            await self._latency.wait(self._clock, 0.0 if exchange is None else exchange.latency_ms)
            return self._outcome(exchange, tool)

        waits = is_async(tool.callable) or tool.timeout_s is not None or not self._latency.is_none
        return wrap_tool(tool, answer_in_time if waits else answer, timeout_s=tool.timeout_s)

    def _take(self, tool: str, arguments: JsonObject) -> ToolExchange | None:
        """Return the exchange that answers the call, and count it as served, or None if the tool has none."""
        with self._lock:
            match = self._source.look_up(tool, arguments)
            if match.mismatch is not None:
                self._report_mismatch(tool, arguments, match)
            exchange = None if match.stored is None else match.exchange
            self._source.serve(match, tool)
            error_type = exchange.error.type if exchange is not None and exchange.error is not None else None
            self.calls.append(ReplayedToolCall(tool, arguments, match.mismatch, error_type))
            return exchange

    def _report_mismatch(self, tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange]) -> None:
        """Raise the mismatch if strict, else log a warning of one line."""
        if self._source.tape.strict:
            error = self._source.refusal(tool, arguments, match)
            self.misses.append(error if self.hint is None else error.replace(hint=self.hint))
            raise self.misses[-1]
        answered = "with the default" if match.stored is None else "from the recording nevertheless"
        log_warning(
            "offbook.replay",
            "%s: a call of %r is %s; answered %s",
            self._source.index.source,
            tool,
            match.mismatch,
            answered,
        )

    def _outcome(self, exchange: ToolExchange | None, tool: ToolDef) -> Any:
        if exchange is None:
            return self._default
        if exchange.error is not None:
            raise error_from_record(exchange.error, tool=tool)
        return exchange.answer
