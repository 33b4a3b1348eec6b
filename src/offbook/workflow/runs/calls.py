"""The model and tool calls of a run, recorded step by step and reused when a step is resumed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any

from offbook.atomic_file import replace_file
from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.messages import JsonObject, Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.format.document import Document, E, Entries, add_exchange, each_exchange
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.file import render_document
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.record import RecordingProvider
from offbook.recording.replay import MockProvider
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_record import RecordingTools, record_tools
from offbook.recording.tool_replay import replay_tools
from offbook.tools.definition import ToolDef, wrap_tool


def reusable_calls(found: Document, *, has_failed: bool) -> Document:
    """What of a step's calls holds when the step is run again, each to be answered once.

    Calls of a model that failed are to be made again. So are calls of tools that failed, unless the
    model was told of it and went on. The answer with which a step `has_failed`, if that is what it
    ended with, is to be asked for again too: it would fail the step once more.
    """
    answers = [(key, exchange) for key, exchange in each_exchange(found.entries) if exchange.fault is None]
    told_until = max((_recorded_at(exchange) for _, exchange in answers), default="")
    calls = [
        (tool, exchange)
        for tool, exchange in each_exchange(found.tools)
        if exchange.error is None or _recorded_at(exchange) < told_until
    ]
    if has_failed and told_until > _last_other_call(found):
        answers.remove(max(answers, key=lambda answer: _recorded_at(answer[1])))
    return Document(found.meta, _as_entries(answers), found.rest, found.version, _as_entries(calls))


def _last_other_call(found: Document) -> str:
    """When the last call ended that was not one which a model answered."""
    failures = (_recorded_at(exchange) for _, exchange in each_exchange(found.entries) if exchange.fault is not None)
    return max([*failures, *(_recorded_at(exchange) for _, exchange in each_exchange(found.tools))], default="")


def _recorded_at(exchange: Exchange | ToolExchange) -> str:
    return exchange.recorded_at or ""


def _as_entries(exchanges: Iterable[tuple[str, E]]) -> Entries[E]:
    """The exchanges by key, in lists, of which each exchange answers one call."""
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
    """Keeps the calls that a step makes at `path`; what it made before and need not make again answers first.

    Args:
        has_failed: whether the step failed when it made them, and was not just cut off.

    Raises:
        InputError: what is at `path` is no recording.
    """

    def __init__(self, path: Path, *, has_failed: bool, clock: Clock) -> None:
        self._path, self._clock = path, clock
        found = _load_reusable(path, has_failed=has_failed)
        self._known = MockProvider(responses=found, strict=True, clock=clock)
        self._known_tools = replay_tools((), found, clock=clock)
        self._recorders: dict[Provider, RecordingProvider] = {}
        self._recorded_tools: RecordingTools | None = None

    async def send(self, request: Request, provider: Provider) -> Reply:
        """The reply to a request: the one that was kept, or else that of `provider`, which is kept."""
        if self._known.answers(request):
            return await self._known.send(request)
        return await self._recorder(provider).send(request)

    def call(self, tool: ToolDef, arguments: JsonObject) -> Any:
        """What a call of a tool gives, or something to wait for that gives it: as it was kept, or else by calling."""
        if self._known_tools.answers(tool.name, arguments):
            return self._known_tools.answer(tool, arguments)
        if self._recorded_tools is None:
            self._recorded_tools = record_tools((), self._made(), clock=self._clock)
        return self._recorded_tools.wrap(tool).callable(**arguments)

    async def close(self) -> None:
        """Let go of the recording."""
        if self._recorded_tools is not None:
            self._recorded_tools.close()
        for recorder in self._recorders.values():
            await recorder.close()

    def _recorder(self, provider: Provider) -> RecordingProvider:
        if provider not in self._recorders:
            self._recorders[provider] = RecordingProvider(_BorrowedProvider(provider), self._made(), clock=self._clock)
        return self._recorders[provider]

    def _made(self) -> Path:
        """The path, with a recording at it."""
        if not self._path.exists():
            write_private(self._path, render_document(Document()))
        return self._path


def _load_reusable(path: Path, *, has_failed: bool) -> Document:
    """What a recording holds that is worth keeping; the rest is taken out of it for good."""
    if not path.exists():
        return Document()
    store = open_store(path)
    found = store.load()
    kept = reusable_calls(found, has_failed=has_failed)
    if kept.size != found.size:
        store.save(kept)
    return kept


class _BorrowedProvider(Provider):
    """Asks a provider that is not closed with the recorder around it."""

    def __init__(self, provider: Provider) -> None:
        self.name, self._provider = provider.name, provider

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(request)

    async def close(self) -> None:
        return None


NAME_CHARS = 60


class RunCalls:
    """Keeps every call of a model or tool that a run makes, so that a step that was cut off need not make it again.

    Each step has a recording of its own in `folder`: in one for all, a step could be answered with the
    like call of another. To which step a call belongs is told by the task that makes it.
    """

    def __init__(self, folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._folder, self._clock = folder, clock
        self._place = ContextVar("place", default="")  # one for each run: a tool may run a workflow inside a step
        self._steps: dict[str, StepCalls] = {}
        self._ended: list[StepCalls] = []

    def begin(self, place: str, *, has_failed: bool = False) -> None:
        """Count what this task calls from now on as the calls of a step, which may have failed before."""
        self._place.set(place)
        self._steps[place] = StepCalls(self._path(place), has_failed=has_failed, clock=self._clock)

    def end(self, place: str) -> None:
        """Note that a step makes no further calls."""
        step = self._steps.pop(place, None)
        if step is not None:
            self._ended.append(step)

    def around(self, provider: Provider) -> Provider:
        """The provider, of whose calls each is kept; what was kept before answers in its place."""
        return _CheckpointedProvider(provider, self)

    def wrap(self, tool: ToolDef) -> ToolDef:
        """The like for a tool."""

        def call(**arguments: Any) -> Any:
            return self._step().call(tool, arguments)

        return wrap_tool(tool, call, timeout_s=None)

    async def send(self, request: Request, provider: Provider) -> Reply:
        """The reply to a request, as `StepCalls.send` gives it."""
        await self._close_ended()
        return await self._step().send(request, provider)

    async def close(self) -> None:
        """Let go of all recordings. Safe to call twice."""
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
        """A file that tells its step by name, and apart from all others whatever its file system makes of names."""
        name = re.sub(r"[^\w.\[\]-]+", "_", place, flags=re.ASCII)[:NAME_CHARS]
        return self._folder / f"{name}-{sha256(place.encode()).hexdigest()[:12]}.json"


class _CheckpointedProvider(Provider):
    def __init__(self, provider: Provider, calls: RunCalls) -> None:
        self.name, self._provider, self._calls = provider.name, provider, calls

    async def send(self, request: Request) -> Reply:
        return await self._calls.send(request, self._provider)

    async def close(self) -> None:
        try:
            await self._calls.close()
        finally:
            await self._provider.close()
