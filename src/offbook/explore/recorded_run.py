"""The run that a recording is of, as far as the recording tells: where it can fail is known without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from offbook.explore.run import ChunkKind, ModelCall, Run, ToolRun
from offbook.messages import ReasoningDelta, TextDelta
from offbook.recording.document import Document
from offbook.recording.entries import each
from offbook.recording.exchange import Exchange


def recorded_run(document: Document) -> Run:
    """The calls of models and tools that were recorded, in the order in which they were.

    A call that had failed and was made again is one of several tries. What a run asks again of an entry that answers
    every call is not known.
    """
    return Run(calls=tuple(_calls(document)), tools=tuple(_tools(document)))


def _calls(document: Document) -> Iterator[ModelCall]:
    numbers = _Numbers()
    for key, exchange in sorted(document, key=lambda entry: entry[1].recorded_at or ""):
        if exchange.http_fields() is not None:
            continue
        step_id = None if key == exchange.request_hash else key
        number, step_call, attempt = numbers.next(key, has_failed=exchange.fault is not None)
        asked = exchange.request_fields() or {}
        yield ModelCall(
            number=number,
            step_id=step_id,
            step_call=step_call,
            attempt=attempt,
            model=exchange.model,
            has_tools=bool(asked.get("tools") or exchange.tool_calls),
            is_streamed=exchange.chunks is not None,
            chunks=tuple(_kinds(exchange)),
        )


def _kinds(exchange: Exchange) -> Iterator[ChunkKind]:
    for _, delta in exchange.timed_deltas() if exchange.chunks is not None else ():
        if isinstance(delta, TextDelta):
            yield "text"
        else:
            yield "reasoning" if isinstance(delta, ReasoningDelta) else "tool_call"


def _tools(document: Document) -> Iterator[ToolRun]:
    calls = Counter[str]()
    for tool, exchange in sorted(each(document.tools), key=lambda entry: entry[1].recorded_at or ""):
        calls[tool] += 1
        arguments = exchange.arguments if isinstance(exchange.arguments, dict) else {}
        yield ToolRun(tool=tool, call=calls[tool], arguments=arguments)


class _Numbers:
    """Counts calls, those of each key, and the tries of each."""

    def __init__(self) -> None:
        self._overall = 0
        self._last: dict[str, tuple[int, int, int]] = {}
        self._failed: set[str] = set()

    def next(self, key: str, *, has_failed: bool) -> tuple[int, int, int]:
        number, step_call, attempt = self._last.get(key, (0, 0, 0))
        if key in self._failed:
            now = number, step_call, attempt + 1
        else:
            self._overall += 1
            now = self._overall, step_call + 1, 1
        self._last[key] = now
        (self._failed.add if has_failed else self._failed.discard)(key)
        return now
