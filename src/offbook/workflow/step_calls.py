"""The calls of one step, kept in a recording of its own, and answered from it when the step is run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from offbook.clock import Clock
from offbook.messages import JsonObject, Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.document import Document
from offbook.recording.file_format import render
from offbook.recording.recorder import RecordingProvider
from offbook.recording.replay import MockProvider
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_recorder import RecordedTools, record_tools
from offbook.recording.tool_replay import replay_tools
from offbook.tools.definition import ToolDef
from offbook.workflow.kept_calls import worth_keeping
from offbook.workflow.private_file import write_private


class StepCalls:
    """Keeps the calls that a step makes at `path`; what it made before and need not make again answers first.

    Args:
        has_failed: whether the step failed when it made them, and was not just cut off.

    Raises:
        InputError: what is at `path` is no recording.
    """

    def __init__(self, path: Path, *, has_failed: bool, clock: Clock) -> None:
        self._path, self._clock = path, clock
        found = _found(path, has_failed=has_failed)
        self._known = MockProvider(responses=found, strict=True, clock=clock)
        self._known_tools = replay_tools((), found, clock=clock)
        self._recorders: dict[Provider, RecordingProvider] = {}
        self._recorded_tools: RecordedTools | None = None

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
            self._recorders[provider] = RecordingProvider(_Borrowed(provider), self._made(), clock=self._clock)
        return self._recorders[provider]

    def _made(self) -> Path:
        """The path, with a recording at it."""
        if not self._path.exists():
            write_private(self._path, render(Document()))
        return self._path


def _found(path: Path, *, has_failed: bool) -> Document:
    """What a recording holds that is worth keeping; the rest is taken out of it for good."""
    if not path.exists():
        return Document()
    store = open_store(path)
    found = store.load()
    kept = worth_keeping(found, has_failed=has_failed)
    if kept.size != found.size:
        store.save(kept)
    return kept


class _Borrowed(Provider):
    """Asks a provider that is not closed with the recorder around it."""

    def __init__(self, provider: Provider) -> None:
        self.name, self._provider = provider.name, provider

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(request)

    async def close(self) -> None:
        return None
