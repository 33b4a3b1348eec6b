"""The sites of a run at which a fault can be injected, read from a run or from its recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from offbook.call_numbers import CallNumbers
from offbook.explore.run import ModelCall, Run, ToolRun, chunk_kind
from offbook.faults import At
from offbook.recording.format.document import Document, each_exchange


class ExploredSite(Struct, frozen=True):
    """A place in a run, with the row that it has in a picture of it, like `2 answer` or `refund 1`.

    `positions` are the places in the stream that are worth a fault, by name, as the number of chunks before them.
    """

    row: str
    at: At
    has_tools: bool = False
    positions: tuple[tuple[str, int], ...] = ()

    @property
    def is_tool(self) -> bool:
        return self.at.tool is not None


def sites_of(run: Run) -> list[ExploredSite]:
    """The sites of a run, in the order in which it came by them: models first, then tools."""
    return [*_model_sites(run.calls), *_tool_sites(run.tools)]


def _model_sites(calls: Iterable[ModelCall]) -> Iterator[ExploredSite]:
    for call in calls:
        at = (
            At(call=call.number, attempt=call.attempt)
            if call.step_id is None
            else At(step_id=call.step_id, call=call.step_call, attempt=call.attempt)
        )
        yield ExploredSite(row_of(call), at, call.has_tools, tuple(positions_of(call)))


def _tool_sites(tools: Iterable[ToolRun]) -> Iterator[ExploredSite]:
    for each in tools:
        yield ExploredSite(f"{each.tool} {each.call}", At(tool=each.tool, call=each.call))


def row_of(call: ModelCall) -> str:
    """The name of a call in pictures: its number, its step and, from the second on, its try."""
    name = f"{call.number}" if call.step_id is None else f"{call.number} {call.step_id}"
    return name if call.attempt == 1 else f"{name} try {call.attempt}"


def positions_of(call: ModelCall) -> Iterator[tuple[str, int]]:
    """The classes of places in a stream: before it begins, inside text, inside a tool call, before its end."""
    if not call.is_streamed or not call.chunks:
        return
    yield "start", 0
    for name, kind in (("text", "text"), ("tool call", "tool_call")):
        places = [place for place, each in enumerate(call.chunks) if each == kind]
        if len(places) > 1:
            yield name, places[len(places) // 2]
    telling = [place for place, each in enumerate(call.chunks) if each != "other"]
    if telling and len(call.chunks) > 1:
        yield "end", telling[-1] + 1


def recorded_run(document: Document) -> Run:
    """The calls of models and tools that were recorded, in the order in which they were.

    A call that had failed and was made again is one of several tries. What a run asks again of an entry that answers
    every call is not known.
    """
    return Run(calls=tuple(_recorded_calls(document)), tools=tuple(_recorded_tools(document)))


def _recorded_calls(document: Document) -> Iterator[ModelCall]:
    numbers = CallNumbers()
    for key, exchange in sorted(document, key=lambda entry: entry[1].recorded_at or ""):
        if exchange.http_fields() is not None:
            continue
        step_id, identity = None if key == exchange.request_hash else key, exchange.request_hash
        site = numbers.start(("", step_id), identity)
        numbers.finish(site, identity, failed=exchange.fault is not None)
        request = exchange.request_fields() or {}
        deltas = exchange.timed_deltas() if exchange.chunks is not None else ()
        yield ModelCall(
            number=site.overall,
            step_id=step_id,
            step_call=site.call,
            attempt=site.attempt,
            model=exchange.model,
            has_tools=bool(request.get("tools") or exchange.tool_calls),
            is_streamed=exchange.chunks is not None,
            chunks=tuple(chunk_kind(delta) for _, delta in deltas),
        )


def _recorded_tools(document: Document) -> Iterator[ToolRun]:
    calls = Counter[str]()
    for tool, exchange in sorted(each_exchange(document.tools), key=lambda entry: entry[1].recorded_at or ""):
        calls[tool] += 1
        arguments = exchange.arguments if isinstance(exchange.arguments, dict) else {}
        yield ToolRun(tool=tool, call=calls[tool], arguments=arguments)
