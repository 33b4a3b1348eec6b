"""Wraps tools so that every call is answered from a recording, and lists the tools that a recording has."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.errors import MismatchKind, RecordingMismatchError
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.exchange import Exchange, ToolExchange, error_from_record, hash_arguments, json_arguments
from offbook.recording.format.keys import is_mcp_key
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.match.cursor import Cursor, ExchangeMatch, SharedToolCursor, UnusedEntry
from offbook.recording.stores.locate import RecordingInput, open_reader, open_store
from offbook.recording.stores.store import RecordingReader, SharedReader, log_warning
from offbook.tools.definition import ToolDef, is_async, wrap_tool
from offbook.tools.toolbox import GivenTools, Toolbox


class ClosableToolbox(Toolbox):
    """A toolbox that holds a recording open. Use it as a context manager, or close it."""

    @abstractmethod
    def wrap(self, tool: ToolDef) -> ToolDef:
        """Wrap a further tool like the others; its calls count with theirs."""

    @abstractmethod
    def close(self) -> None:
        """Close the recording. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def keep(self) -> None:
        """Let the recording stay as it was, because the run has failed. Only record modes that replace it heed this."""

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
    """A call that was answered. `mismatch` says why a strict replay would have refused it; None if it fits."""

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

    A call is answered by the first unused exchange of its tool with the same arguments, or with none. A recorded error
    is raised again.

    Args:
        tools: functions and tools, as `Toolbox` takes them.
        recording: a path, `sqlite:///path.db`, or the document as a dict.
        strict: whether a call without a match raises RecordingMismatchError. If not, it is answered with the next
            exchange of its tool, else the last one, else `default`, and a warning of one line is logged.
        latency_model, latency_ms, seed: how long calls take; see Latency.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """
    latency = Latency(latency_model, latency_ms=latency_ms, seed=seed)
    reader = open_reader(recording, source="recording")
    if strict:
        check_strict(reader.version, source=reader.source)
    return ReplayedTools(Toolbox(tools), reader, strict=strict, default=default, latency=latency, clock=clock)


class ReplayedTools(ClosableToolbox):
    """Tools that answer from a recording. `calls` lists those answered so far, in order, and `misses` those refused.

    `hint`, if it is set, is the hint of every error of a refused call.

    A callable is a coroutine function if the real one is, and if it may have to wait: with a latency, or a `timeout_s`.
    """

    def __init__(
        self, tools: Toolbox, reader: RecordingReader, *, strict: bool, default: object, latency: Latency, clock: Clock
    ) -> None:
        self._reader, self._index, self._cursor = reader, reader.tools, self._new_cursor(reader)
        self._strict, self._default, self._latency, self._clock = strict, default, latency, clock
        self._lock = threading.Lock()
        self.calls: list[ReplayedToolCall] = []
        self.misses: list[RecordingMismatchError] = []
        self.hint: str | None = None
        super().__init__([self.wrap(tool) for tool in tools.values()])

    def _new_cursor(self, reader: RecordingReader) -> Cursor[ToolExchange]:
        return Cursor(reader.tools)

    def note_used(self, ids: Iterable[int]) -> None:
        """Count exchanges as served."""
        self._cursor.note_used(ids)

    def unused(self) -> list[UnusedEntry]:
        """Return the exchanges that were never served, in the order of the recording; their key is the tool's name.

        What MCP servers answered to other requests than tool calls is not counted.
        """
        return [left for left in self._cursor.unused() if not is_mcp_key(left.key)]

    def answers(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Return whether a strict replay has an answer for the call now."""
        return self._match(tool, json_arguments(arguments)).mismatch is None

    def answer(self, tool: ToolDef, arguments: Mapping[str, object]) -> Any:
        """Return the answer to the call, without waiting. Raise the recorded error if there is one."""
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
        """Return the exchange that answers the call, and count it as served; None if the tool has none."""
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
        fingerprint = hash_arguments(arguments)
        match = self._cursor.match_key(tool, "step_id", fingerprint)
        if match is None and (recorded := self._tools_of_servers.get(tool)) is not None:
            match = self._cursor.match_key(recorded, "step_id", fingerprint)
        return ExchangeMatch("default", mismatch="missing") if match is None else match

    @cached_property
    def _tools_of_servers(self) -> dict[str, str]:
        """The keys of tools that were recorded over MCP, like `github.create_issue`, by the name of the tool alone.

        A tool that several servers have is left out.
        """
        keys = dict.fromkeys(stored.key for stored in self._index if "." in stored.key and not is_mcp_key(stored.key))
        names = Counter(key.partition(".")[2] for key in keys)
        return {key.partition(".")[2]: key for key in keys if names[key.partition(".")[2]] == 1}

    def _report_mismatch(self, tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange]) -> None:
        """Raise the mismatch if strict, else log a warning of one line."""
        if self._strict:
            from offbook.recording.match.mismatch import tool_mismatch_error  # noqa: PLC0415 - only errors need it

            error = tool_mismatch_error(tool, arguments, match, self._index)
            self.misses.append(error if self.hint is None else error.replace(hint=self.hint))
            raise self.misses[-1]
        answered = "with the default" if match.stored is None else "from the recording nevertheless"
        log_warning(
            "offbook.replay", "%s: a call of %r is %s; answered %s", self._index.source, tool, match.mismatch, answered
        )

    def _outcome(self, exchange: ToolExchange | None, tool: ToolDef) -> Any:
        if exchange is None:
            return self._default
        if exchange.error is not None:
            raise error_from_record(exchange.error, tool=tool)
        return exchange.answer


class SharedReplayedTools(ReplayedTools):
    """Tools that answer from a recording that others add to, as it is when a call is made."""

    def __init__(self, tools: Toolbox, reader: SharedReader, *, clock: Clock) -> None:
        self._shared = reader
        latency = Latency("constant", latency_ms=0.0, seed=0)
        super().__init__(tools, reader, strict=True, default=None, latency=latency, clock=clock)

    def _new_cursor(self, reader: RecordingReader) -> SharedToolCursor:
        return SharedToolCursor(self._shared.tools)

    @property
    def _tools_of_servers(self) -> dict[str, str]:
        """None: they would have to be looked for in the whole recording at every call."""
        return {}


class RecordedToolNames(Struct, frozen=True):
    """The tools of a recording: `called` are those that answers ask for or that were recorded, in order.

    `offered` are those that requests offer to the model. `arguments` are the names of the arguments of a tool: those of
    its schemas, and of the calls that answers ask for.
    """

    called: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    arguments: dict[str, set[str]] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        return frozenset((*self.called, *self.offered))


def recorded_tool_names(location: str | os.PathLike[str]) -> RecordedToolNames:
    """Return the tools of a recording, or of all recordings in a folder.

    Raises:
        InputError: a recording cannot be read.
    """
    documents = _documents(location)
    exchanges = [exchange for document in documents for _, exchange in document]
    offered = [function for exchange in exchanges for function in _offered(exchange)]
    arguments: dict[str, set[str]] = {}
    for function in offered:
        arguments.setdefault(function["name"], set()).update(_properties(function))
    for call in (call for exchange in exchanges for call in exchange.tool_calls or ()):
        given = call.arguments if isinstance(call.arguments, dict) else {}
        arguments.setdefault(call.name, set()).update(given)
    return RecordedToolNames(_called(documents), tuple(dict.fromkeys(each["name"] for each in offered)), arguments)


def called_tool_names(location: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the `called` tools alone, without a look into the requests. Raises like `recorded_tool_names`."""
    return _called(_documents(location))


def _documents(location: str | os.PathLike[str]) -> list[Document]:
    text = os.fspath(location)
    is_folder = "://" not in text and Path(text).is_dir()
    files: Iterable[str | os.PathLike[str]] = sorted(Path(text).rglob("*.json")) if is_folder else [location]
    return [open_store(file).load() for file in files]


def _called(documents: Sequence[Document]) -> tuple[str, ...]:
    asked = [call.name for document in documents for _, each in document for call in each.tool_calls or ()]
    recorded = [tool for document in documents for tool in document.tools if not is_mcp_key(tool)]
    return tuple(dict.fromkeys([*asked, *recorded]))


def _offered(exchange: Exchange) -> Iterator[JsonObject]:
    for tool in (exchange.request_fields() or {}).get("tools") or ():
        function = tool.get("function", tool) if isinstance(tool, dict) else {}
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield function


def _properties(function: JsonObject) -> list[str]:
    """Return the names of the arguments in the schema of a tool; none if it has no such schema."""
    schema = function.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []
