"""The spans that have begun and not ended, found by the call they belong to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.trace import Span

CallKey: TypeAlias = tuple[str, str | None, int]
WHOLE_CALL = 0


class OpenSpan(NamedTuple):
    """A span of a whole call, or of the attempt of that number, and the task that began it."""

    span: Span
    attempt: int
    task: asyncio.Task[Any] | None


class OpenSpans:
    """Open spans by call (workflow, step, number), the innermost last.

    Calls of several gateways may have the same number: one inside the other, where a gateway asks a
    gateway, or side by side in tasks of their own. The current task's spans therefore come first;
    those of other tasks are for streams that one task begins and another reads. What has ended is
    not kept.
    """

    def __init__(self) -> None:
        self._by_call: dict[CallKey, list[OpenSpan]] = {}

    def add(self, call: CallKey, span: Span, *, attempt: int) -> None:
        self._by_call.setdefault(call, []).append(OpenSpan(span, attempt, _current_task()))

    def innermost(self, call: CallKey) -> Span | None:
        """The last span that the current task began for the call."""
        task = _current_task()
        return next((opened.span for opened in reversed(self._by_call.get(call, ())) if opened.task is task), None)

    def find(self, call: CallKey, *, attempt: int) -> Span | None:
        """The last span of that attempt: of the current task, or else of any."""
        fitting = [opened for opened in self._by_call.get(call, ()) if opened.attempt == attempt]
        if not fitting:
            return None
        task = _current_task()
        return next((opened.span for opened in reversed(fitting) if opened.task is task), fitting[-1].span)

    def take(self, call: CallKey, *, attempt: int) -> Span | None:
        """The same, and it counts as ended."""
        span = self.find(call, attempt=attempt)
        if span is not None:
            left = [opened for opened in self._by_call.pop(call) if opened.span is not span]
            if left:
                self._by_call[call] = left
        return span


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
