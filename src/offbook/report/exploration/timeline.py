"""The timeline of a run: its calls of models and tools as one sequence, and where faults struck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from offbook.explore.case import Case
from offbook.explore.run import ModelCall, Run, ToolRun
from offbook.explore.site import row_of
from offbook.faults import Site, ToolSite
from offbook.messages import JsonObject
from offbook.report.encoding import encoded
from offbook.wording import counted

Call: TypeAlias = tuple[str, bytes]
"""A tool, and the JSON of its arguments."""


class Asked(Struct, frozen=True, omit_defaults=True):
    """A tool, and the arguments that it was, or is to be, called with."""

    tool: str
    arguments: JsonObject


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a model or a tool.

    `name` is the one that pictures have for it. Of a model, `asks_for` are the tools that it asks for; of a tool,
    that is the call itself. `notes` tell what else is worth knowing of it.
    """

    kind: Literal["model", "tool"]
    name: str
    asks_for: tuple[Asked, ...] = ()
    model: str = ""
    result: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()


class Timeline(Struct, frozen=True):
    """The steps of a run, and the places among them, from 0, at which a fault struck."""

    steps: tuple[Step, ...]
    struck: tuple[int, ...] = ()


def timeline_of(run: Run, case: Case | None = None) -> Timeline:
    """The timeline of a run; with the case that it is of, also where its faults struck.

    A run keeps its calls of models and those of tools apart, each in order. A call of a tool is put behind the call
    of a model that asked for it, and one that nobody asked for before the next that somebody did.
    """
    calls = list(_in_order(run))
    lines = case.lines if case is not None and run.struck else ()
    struck = [place for place, call in enumerate(calls) if any(line.at.covers(_site(call)) for line in lines)]
    return Timeline(tuple(map(_step, calls)), tuple(struck))


def _in_order(run: Run) -> Iterator[ModelCall | ToolRun]:
    tools = [(each.tool, encoded(each.arguments)) for each in run.tools]
    asked = [[(tool, encoded(arguments)) for tool, arguments in call.asks_for] for call in run.calls]
    anybodys = {each for wanted in asked for each in wanted}
    done = 0
    for call, wanted in zip(run.calls, asked, strict=True):
        yield call
        until = _asked_until(tools, done, wanted, anybodys)
        yield from run.tools[done:until]
        done = until
    yield from run.tools[done:]


def _asked_until(tools: Sequence[Call], done: int, wanted: list[Call], anybodys: set[Call]) -> int:
    """The place behind those of the tools to come that one call of a model wanted: up to one that another did."""
    until = done
    for place in range(done, len(tools)):
        if tools[place] in wanted:
            wanted.remove(tools[place])
            until = place + 1
        elif tools[place] in anybodys:
            break
    return until


def _site(call: ModelCall | ToolRun) -> Site | ToolSite:
    if isinstance(call, ToolRun):
        return ToolSite(call.tool, call.call)
    return Site("", call.step_id, call.step_call, call.number, call.attempt)


def _model_notes(call: ModelCall) -> Iterator[str]:
    if call.is_too_soon:
        yield "sooner than the answer before had asked for"
    if call.forgot:
        yield f"without {counted(call.forgot, 'message')} of its conversation"


def _tool_notes(call: ToolRun) -> Iterator[str]:
    if call.side_effect:
        yield "side effect"
    if not call.has_run:
        yield "did not run"


def _failure(call: ModelCall) -> str:
    return call.error or ("" if call.outcome == "answered" else call.outcome)


def _step(call: ModelCall | ToolRun) -> Step:
    if isinstance(call, ModelCall):
        asked = tuple(Asked(tool, arguments) for tool, arguments in call.asks_for)
        notes = tuple(_model_notes(call))
        return Step(
            kind="model", name=row_of(call), asks_for=asked, model=call.model, error=_failure(call), notes=notes
        )
    return Step(
        kind="tool",
        name=f"{call.tool} {call.call}",
        asks_for=(Asked(call.tool, call.arguments),),
        result=call.result,
        error=call.error or "",
        notes=tuple(_tool_notes(call)),
    )
