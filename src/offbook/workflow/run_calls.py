"""The calls of a run, kept step by step."""

from __future__ import annotations

import re
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any

from offbook.clock import SYSTEM_CLOCK, Clock
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.tools.definition import ToolDef
from offbook.tools.wrapped import wrapped
from offbook.workflow.step_calls import StepCalls

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
        return _KeptProvider(provider, self)

    def wrap(self, tool: ToolDef) -> ToolDef:
        """The like for a tool."""

        def call(**arguments: Any) -> Any:
            return self._step().call(tool, arguments)

        return wrapped(tool, call, timeout_s=None)

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


class _KeptProvider(Provider):
    def __init__(self, provider: Provider, calls: RunCalls) -> None:
        self.name, self._provider, self._calls = provider.name, provider, calls

    async def send(self, request: Request) -> Reply:
        return await self._calls.send(request, self._provider)

    async def close(self) -> None:
        try:
            await self._calls.close()
        finally:
            await self._provider.close()
