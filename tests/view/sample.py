"""Runs to view: recordings, explorations, scenario runs and a workflow run, as their commands write them."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Raw

from offbook.faults import HttpError
from offbook.messages import Usage
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, RecordedToolCall, ToolExchange
from offbook.recording.format.file import render_document
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportOptions
from offbook.report.scenarios.json_report import json_report
from tests.report import runs
from tests.report.exploration import explorations

START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)
SYSTEM = {"role": "system", "content": "You refund orders."}
USER = {"role": "user", "content": "Please refund order 42: it is lost."}
FOUND = {"order_id": 42, "status": "lost", "total": 30}


def at(seconds):
    return (START + timedelta(seconds=seconds)).isoformat()


def model_exchange(ended_s, messages, *, fingerprint, **fields):
    values = {
        "model": "gpt-4o-mini",
        "provider": "openai",
        "latency_ms": 800.0,
        "usage": Usage.of(120, 20),
        "cost_usd": 0.0002,
        "recorded_at": at(ended_s),
        "request_hash": fingerprint,
        "request": Raw(json.dumps({"model": "gpt-4o-mini", "messages": messages}).encode()),
    }
    return Exchange(**(values | fields))


def asks(tool, **arguments):
    return [RecordedToolCall(id=f"call-{tool}", name=tool, arguments=arguments)]


def asked(tool, **arguments):
    """What a model has asked for, as the next request repeats it."""
    call = {"id": f"call-{tool}", "type": "function"}
    return {
        "role": "assistant",
        "tool_calls": [call | {"function": {"name": tool, "arguments": json.dumps(arguments)}}],
    }


def refund_recording(*, answer="Order 42 is refunded: you get 30 back.", fails=False):
    """A run that looks an order up and refunds it, with a failed attempt of its second call if `fails`."""
    first = [SYSTEM, USER]
    second = [*first, asked("find_order", order_id=42), {"role": "tool", "content": json.dumps(FOUND)}]
    third = [*second, asked("refund", order_id=42), {"role": "tool", "content": "30"}]
    words = answer.split(" ")
    chunks = [(400.0 + 100 * place, f"{word} ") for place, word in enumerate(words)]
    document = Document()
    document.add("a" * 64, model_exchange(0.8, first, fingerprint="a" * 64, tool_calls=asks("find_order", order_id=42)))
    document.add_tool(
        "find_order", ToolExchange(arguments={"order_id": 42}, result=FOUND, latency_ms=60.0, recorded_at=at(0.9))
    )
    if fails:
        failed = model_exchange(
            1.4, second, fingerprint="b" * 64, fault=HttpError(500), latency_ms=300.0, usage=None, cost_usd=0.0
        )
        document.add("b" * 64, failed)
    document.add("b" * 64, model_exchange(2.4, second, fingerprint="b" * 64, tool_calls=asks("refund", order_id=42)))
    document.add_tool(
        "refund", ToolExchange(arguments={"order_id": 42}, result=30, latency_ms=120.0, recorded_at=at(2.6))
    )
    last = model_exchange(
        4.2, third, fingerprint="c" * 64, content=" ".join(words) + " ", chunks=chunks, latency_ms=1500.0
    )
    document.add("c" * 64, last)
    return document


def long_recording(calls):
    """A run of very many calls."""
    document = Document()
    for number in range(calls):
        name = f"{number:064x}"
        document.add(name, model_exchange(number, [USER], fingerprint=name, content=f"answer {number}"))
    return document


def exploration_report(exploration):
    return exploration_json(ReportOptions(explorations.reproduce).report_input(exploration))


def write(path, data, *, hours=0):
    """Write a file that was last changed so many hours after the start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    set_time(path, hours)
    return path


def set_time(path, hours):
    changed = (START + timedelta(hours=hours)).timestamp()
    os.utime(path, (changed, changed))


def write_runs(folder: Path) -> Path:
    """Write one folder with runs of all kinds, and two files that cannot be read."""
    write(folder / "refund-monday.json", render_document(refund_recording()), hours=1)
    tuesday = refund_recording(answer="Order 42 was refunded.", fails=True)
    write(folder / "refund-tuesday.json", render_document(tuesday), hours=2)
    for number, made in enumerate((explorations.naive(), explorations.with_pair(), explorations.sound()), 1):
        write(folder / f"explored/v{number}.json", exploration_report(made), hours=10 + number)
    write(folder / "nightly/monday.json", json_report(runs.two_agents()), hours=20)
    tuesday_run = runs.suite(runs.scenario(passes=2, runs=3), runs.scenario("says hello"))
    write(folder / "nightly/tuesday.json", json_report(tuesday_run), hours=44)
    write(folder / "cut-off.json", b'{"_version": 2, "greet": {"content": "Hel', hours=3)
    write(folder / "settings.json", b'{"name": "agent", "version": "1.0.0"}', hours=4)
    return folder
