"""Runs, calls and stages, as tests of explorations need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from offbook.explore.divergence import STOP, Divergence
from offbook.explore.run import Ending, ModelCall, Run, ToolRun
from offbook.explore.stage import Stage
from offbook.explore.theatre import Theatre
from offbook.faults import FaultPlan, parse_fault
from offbook.messages import JsonObject
from offbook.recording.file_format import convert
from offbook.recording.stores.memory import MemoryShelf

REFUND = ("refund", {"order_id": 42})
DECLARED, UNDECLARED = Ending("declared", "GaveUp", "no more"), Ending("undeclared", "KeyError", "'x'")
STRUCK = ("call=1 attempt=1: http_error 500",)


def plan_of(*lines: str) -> FaultPlan:
    return FaultPlan([parse_fault(line) for line in lines])


def model_call(number: int = 1, **fields: Any) -> ModelCall:
    return ModelCall(number=number, **{"step_call": number, **fields})


def streamed(*chunks: str, number: int = 1) -> ModelCall:
    return model_call(number, is_streamed=True, chunks=chunks)


def tool_run(tool: str = "refund", call: int = 1, **fields: Any) -> ToolRun:
    return ToolRun(tool=tool, call=call, **{"arguments": {"order_id": 42}, **fields})


def clean_run(**fields: Any) -> Run:
    return Run(**{"result": "done", "calls": (model_call(),), **fields})


def struck_run(**fields: Any) -> Run:
    return clean_run(**{"struck": STRUCK, **fields})


def theatre_of(entries: JsonObject, divergence: Divergence = STOP) -> Theatre:
    """A theatre for a recording that is written by hand."""
    document = convert({"_version": 2, **entries}, source="test")
    return Theatre(MemoryShelf(document, source="run.json"), divergence)


def stages_of(entries: JsonObject, divergence: Divergence = STOP) -> tuple[Stage, Theatre]:
    """The stage of the clean run, and the theatre for those behind it."""
    theatre = theatre_of(entries, divergence)
    return theatre.stage(FaultPlan()), theatre


def write_recording(path: Path, entries: JsonObject) -> Path:
    path.write_bytes(orjson.dumps({"_version": 2, **entries}))
    return path
