"""Runs, calls and harnesses, as tests of explorations need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from offbook.explore.harness import Harness, HarnessFactory
from offbook.explore.options import Divergence
from offbook.explore.run import ModelCall, Run, RunFailure, ToolRun
from offbook.faults import FaultPlan, parse_fault
from offbook.messages import JsonObject
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.memory import MemoryReader

REFUND = ("refund", {"order_id": 42})
DECLARED, UNDECLARED = RunFailure("declared", "GaveUp", "no more"), RunFailure("undeclared", "KeyError", "'x'")
STOP = Divergence("stop")
FIRED = ("call=1 attempt=1: http_error 500",)


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


def fired_run(**fields: Any) -> Run:
    return clean_run(**{"fired": FIRED, **fields})


def harnesses_of(entries: JsonObject, divergence: Divergence = STOP) -> HarnessFactory:
    """The harnesses of a recording that is written by hand."""
    document = document_from_dict({"_version": 2, **entries}, source="test")
    return HarnessFactory(MemoryReader(document, source="run.json"), divergence)


def clean_harness_of(entries: JsonObject, divergence: Divergence = STOP) -> tuple[Harness, HarnessFactory]:
    """The harness of the clean run, and the harnesses of those after it."""
    harnesses = harnesses_of(entries, divergence)
    return harnesses.create(FaultPlan()), harnesses


def write_recording(path: Path, entries: JsonObject) -> Path:
    path.write_bytes(orjson.dumps({"_version": 2, **entries}))
    return path
