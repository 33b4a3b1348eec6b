"""The model and tool calls of a run, recorded step by step and reused when a step is resumed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.files import replace_file
from offbook.messages import JsonObject, Reply, Request
from offbook.providers.provider import Provider, WrappedProvider
from offbook.recording.format.document import Document, E, Entries, add_exchange, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.file import render_document
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import RecordingWriter, Store
from offbook.session.provider import MockProvider
from offbook.session.recording_provider import RecordingProvider
from offbook.session.recording_tools import RecordingTools, record_tools
from offbook.session.replayed_tools import replay_tools
from offbook.tools.definition import ToolDef, wrap_tool


def reusable_calls(recorded: Document, *, has_failed: bool) -> Document:
    """Return the recorded calls of a step that can answer when the step runs again, each once.

    Failed model calls are made again. So are failed tool calls, unless the model got the failure and went on.
    If the last call of a step that `has_failed` is a model's answer, it is made again too: the same answer would
    fail the step again.
    """
    answers = [(key, exchange) for key, exchange in each_exchange(recorded.entries) if exchange.fault is None]
    last_answer_at = max((_recorded_at(exchange) for _, exchange in answers), default="")
    calls = [
        (tool, exchange)
        for tool, exchange in each_exchange(recorded.tools)
        if exchange.error is None or _recorded_at(exchange) < last_answer_at
    ]
    if has_failed and last_answer_at > _last_other_call_at(recorded):
        answers.remove(max(answers, key=lambda answer: _recorded_at(answer[1])))
    return replace(recorded, entries=_as_entries(answers), tools=_as_entries(calls))


def _last_other_call_at(recorded: Document) -> str:
    """Return when the last tool call or failed model call was recorded."""
    failures = (_recorded_at(exchange) for _, exchange in each_exchange(recorded.entries) if exchange.fault is not None)
    return max([*failures, *(_recorded_at(exchange) for _, exchange in each_exchange(recorded.tools))], default="")


def _recorded_at(exchange: Exchange | ToolExchange) -> str:
    return exchange.recorded_at or ""


def _as_entries(exchanges: Iterable[tuple[str, E]]) -> Entries[E]:
    """Return the exchanges by key, in lists in which each exchange answers one call."""
    entries: Entries[E] = {}
    for key, exchange in exchanges:
        add_exchange(entries, key, exchange, listed=True)
    return entries


def write_private(path: Path, data: bytes) -> None:
    """Replace the file at `path` by `data`; only its owner may read it.

    Raises:
        OSError: the file cannot be written.
    """
    replace_file(path, data, mode=0o600)


class StepCalls:
    """Records the calls of a step at `path`; calls that were recorded before and can be reused answer first.

    Args:
        has_failed: whether the step failed, instead of being interrupted, when it made the recorded calls.

    Raises:
        InputError: the file at `path` is not a recording.
    """

    def __init__(self, path: Path, *, has_failed: bool, clock: Clock) -> None:
        self._path, self._clock = path, clock
        reusable = _load_reusable(path, has_failed=has_failed)
        self._replay = MockProvider(responses=reusable, strict=True, clock=clock)
        self._replayed_tools = replay_tools((), reusable, clock=clock)
        self._recorders: dict[Provider, RecordingProvider] = {}
        self._recorded_tools: RecordingTools | None = None

    async def send(self, request: Request, provider: Provider, *, is_recorded: bool) -> Reply:
        """Return the recorded reply to a request, or else the reply of `provider`, and record it.

        A provider that `is_recorded` appends its exchanges here itself.
        """
        if self._replay.answers(request):
            return await self._replay.send(request)
        return await (provider if is_recorded else self._recorder(provider)).send(request)

    def call(self, tool: ToolDef, arguments: JsonObject, *, is_recorded: bool) -> Any:
        """Return the recorded result of a tool call, or call the tool and record it; the result may be awaitable."""
        if self._replayed_tools.answers(tool.name, arguments):
            return self._replayed_tools.answer(tool, arguments)
        if is_recorded:
            return tool.callable(**arguments)
        if self._recorded_tools is None:
            self._recorded_tools = record_tools((), self._ensure_file(), clock=self._clock)
        return self._recorded_tools.wrap(tool).callable(**arguments)

    @cached_property
    def writer(self) -> RecordingWriter:
        """Appends to the recording."""
        return open_store(self._ensure_file()).write()

    async def close(self) -> None:
        """Close the recording."""
        if "writer" in vars(self):
            self.writer.close()
        if self._recorded_tools is not None:
            self._recorded_tools.close()
        for recorder in self._recorders.values():
            await recorder.close()

    def _recorder(self, provider: Provider) -> RecordingProvider:
        if provider not in self._recorders:
            self._recorders[provider] = RecordingProvider(
                WrappedProvider(provider), self._ensure_file(), clock=self._clock
            )
        return self._recorders[provider]

    def _ensure_file(self) -> Path:
        """Return the path of the recording, which is created if it does not exist."""
        if not self._path.exists():
            write_private(self._path, render_document(Document()))
        return self._path


def _load_reusable(path: Path, *, has_failed: bool) -> Document:
    """Load the reusable calls of a recording, and remove the others from the file."""
    reusable = Document()

    def keep_reusable(document: Document) -> bool:
        nonlocal reusable
        reusable = reusable_calls(document, has_failed=has_failed)
        is_changed = reusable.size != document.size
        document.entries, document.tools = reusable.entries, reusable.tools
        return is_changed

    if path.exists():
        open_store(path).update(keep_reusable)
    return reusable


NAME_CHARS = 60


class RunCalls:
    """Records every model and tool call of a run, so that an interrupted step need not repeat it.

    Each step has a recording of its own in `folder`: in a shared one, an equal call of another step could answer.
    The task that makes a call determines its step.
    """

    def __init__(self, folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._folder, self._clock = folder, clock
        self._place = ContextVar("place", default="")  # one per run: a tool may run a workflow inside a step
        self._steps: dict[str, StepCalls] = {}
        self._ended: list[StepCalls] = []

    def begin(self, place: str, *, has_failed: bool = False) -> None:
        """Record the further calls of this task for a step, which may have failed before."""
        self._place.set(place)
        self._steps[place] = StepCalls(self._path(place), has_failed=has_failed, clock=self._clock)

    def end(self, place: str) -> None:
        """Record that a step makes no further calls."""
        step = self._steps.pop(place, None)
        if step is not None:
            self._ended.append(step)

    def wrap_provider(self, provider: Provider, *, is_recorded: bool = False) -> Provider:
        """Wrap a provider so that every call is recorded, and recorded calls answer in its place.

        A recorder that has this object as `first_to` `is_recorded`: it appends its exchanges here itself.
        """
        return _CheckpointedProvider(provider, self, is_recorded=is_recorded)

    def wrap(self, tool: ToolDef, *, is_recorded: bool = False) -> ToolDef:
        """Wrap a tool so that every call is recorded, and recorded calls answer in its place."""

        def call(**arguments: Any) -> Any:
            return self._step().call(tool, arguments, is_recorded=is_recorded)

        return wrap_tool(tool, call, timeout_s=None)

    def tool_layer(self, *, is_recorded: bool) -> RunTools:
        """Return a wrapper of tools that works like `wrap`."""
        return RunTools(self, is_recorded=is_recorded)

    def append(self, key: str, exchange: Exchange) -> None:
        """Record an exchange of the current step."""
        self._step().writer.append(key, exchange)

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        """Record a tool exchange of the current step."""
        self._step().writer.append_tool(tool, exchange)

    def add_missing_to(self, store: Store) -> None:
        """Add the exchanges that a recording of the run lacks after a crash.

        Failed calls are omitted, because they are made again.

        Raises:
            InputError: the recording cannot be written, or a file of the run is not a recording.
        """
        steps = [open_store(path).load() for path in self._recorded_paths()]
        calls = [each for document in steps for each in document if each[1].fault is None]
        tools = [each for document in steps for each in each_exchange(document.tools) if each[1].error is None]
        known = store.load() if store.exists() else Document()
        writer = store.write()
        try:
            for key, exchange in _missing(calls, known):
                writer.append(key, exchange)
            for tool, call in _missing(tools, each_exchange(known.tools)):
                writer.append_tool(tool, call)
        finally:
            writer.close()

    def _recorded_paths(self) -> list[Path]:
        """Return the recordings of all steps, including those that exist only as a journal."""
        names = {path.name.removesuffix(_JOURNAL) for path in self._folder.glob(f"*.json{_JOURNAL}")}
        return sorted(self._folder / name for name in names | {path.name for path in self._folder.glob("*.json")})

    async def send(self, request: Request, provider: Provider, *, is_recorded: bool) -> Reply:
        """Return the reply of the current step to a request, as `StepCalls.send` does."""
        await self._close_ended()
        return await self._step().send(request, provider, is_recorded=is_recorded)

    async def close(self) -> None:
        """Close all recordings. Safe to call twice."""
        for place in list(self._steps):
            self.end(place)
        await self._close_ended()

    def _step(self) -> StepCalls:
        place = self._place.get()
        if place not in self._steps:
            self.begin(place)
        return self._steps[place]

    async def _close_ended(self) -> None:
        while self._ended:
            await self._ended.pop().close()

    def _path(self, place: str) -> Path:
        """Return the recording of a step: a readable name, made unique by a digest on any file system."""
        name = re.sub(r"[^\w.\[\]-]+", "_", place, flags=re.ASCII)[:NAME_CHARS]
        return self._folder / f"{name}-{sha256(place.encode()).hexdigest()[:12]}.json"


_JOURNAL = ".journal"


def _missing(exchanges: Iterable[tuple[str, E]], known: Iterable[tuple[str, E]]) -> Iterator[tuple[str, E]]:
    """Yield the unknown exchanges, compared by key and recording time."""
    left = Counter((key, exchange.recorded_at) for key, exchange in known)
    for key, exchange in exchanges:
        if left[key, exchange.recorded_at] > 0:
            left[key, exchange.recorded_at] -= 1
        else:
            yield key, exchange


class RunTools:
    """Wraps tools like `RunCalls.wrap`."""

    def __init__(self, calls: RunCalls, *, is_recorded: bool) -> None:
        self._calls, self._is_recorded = calls, is_recorded

    def wrap(self, tool: ToolDef) -> ToolDef:
        return self._calls.wrap(tool, is_recorded=self._is_recorded)


class _CheckpointedProvider(WrappedProvider):
    def __init__(self, provider: Provider, calls: RunCalls, *, is_recorded: bool) -> None:
        super().__init__(provider)
        self._calls, self._is_recorded = calls, is_recorded

    async def send(self, request: Request) -> Reply:
        return await self._calls.send(request, self._provider, is_recorded=self._is_recorded)

    async def close(self) -> None:
        try:
            await self._calls.close()
        finally:
            await self._provider.close()
