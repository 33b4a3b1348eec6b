"""Leaks: secrets of all kinds at random places, through recorders, reports and traces; counts those that remain."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import msgspec
import orjson
from msgspec import Raw
from tests.recording.redact.fake_secrets import fake_secrets

from bench.soak.front import Outcome, rounds
from offbook.events import CallStarted
from offbook.faults import HttpError
from offbook.messages import JsonObject
from offbook.observe.json_lines import JsonLinesSink
from offbook.recording.format.exchange import Exchange, RecordedToolCall, TimedPiece, ToolExchange
from offbook.recording.format.wire_record import WireRecord, wire_text
from offbook.recording.redact.redactor import Redactor
from offbook.report.junit import clean_xml
from offbook.report.reporter import encode_json, one_line

WORDS = ("the", "key", "is", "naïve", "日本", "a-b", "token", "\n", '"', "{", "=", "password", "🙂", "\\", "x" * 40)
NOT_LETTERS = ("", " ", '"', "'", "\n", "=", "(", "\t", ",")


def attack(*, seconds: float, seed: int) -> Outcome:
    """Plant a secret, write what it is in, and look for it in all that was written. A trial is a secret."""
    outcome, redactor = Outcome(unit="secrets"), Redactor()
    for number in rounds(seconds):
        random = Random(f"{seed}:{number}")
        for kind, (text, part) in fake_secrets(random).items():
            outcome.trials += 1
            for place, written in _written(surrounded(text, random), redactor, random).items():
                if part in written or json.dumps(part)[1:-1] in written:
                    outcome.lose(f"seed {seed}, round {number}: {kind} in {place}")
    return outcome


def surrounded(text: str, random: Random) -> str:
    before, after = (" ".join(random.choices(WORDS, k=random.randrange(6))) for _ in range(2))
    return f"{before}{random.choice(NOT_LETTERS[1:])}{text}{random.choice(NOT_LETTERS[1:])}{after}"


def _written(text: str, redactor: Redactor, random: Random) -> dict[str, str]:
    """Return what is written of a text at a random place of a recording, and of a report and a trace."""
    place = random.choice(list(_EXCHANGES))
    exchange = redactor.redact(_EXCHANGES[place](text, random))
    tool = redactor.redact_tool(ToolExchange(arguments=_nested(text, random), result=_nested(text, random)))
    trace = io.StringIO()
    JsonLinesSink(trace).emit(CallStarted(text, "m", text, 1))
    return {
        place: msgspec.json.encode(exchange).decode(),
        "a tool call": msgspec.json.encode(tool).decode(),
        "a key": redactor.text(text),
        "a JSON report": encode_json(_nested(text, random)).decode(),
        "JUnit": clean_xml(text),
        "a line": one_line(text, 60),
        "a trace": trace.getvalue(),
    }


def _nested(text: str, random: Random) -> JsonObject:
    value: Any = text
    for _ in range(random.randrange(4)):
        value = random.choice([[value], {"a": value}, {text: 1, "b": value}, json.dumps({"c": value})])
    return {"value": value}


def _streamed(text: str, random: Random) -> Exchange:
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(4))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    events = [orjson.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
    frames = [(float(at_ms), wire_text(b"data: " + event + b"\n\n")) for at_ms, event in enumerate(events)]
    chunks: list[TimedPiece] = [(float(at_ms), piece) for at_ms, piece in enumerate(pieces)]
    return Exchange(content=text, chunks=chunks, wire=WireRecord(protocol="openai_chat", frames=frames))


_EXCHANGES = {
    "a text": lambda text, _: Exchange(content=text, reasoning=text),
    "a model": lambda text, _: Exchange(model=text, provider=text, finish_reason=text),
    "a tool call of a model": lambda text, random: Exchange(
        tool_calls=[RecordedToolCall(id=text, name=text, arguments=_nested(text, random))]
    ),
    "an error": lambda text, _: Exchange(fault=HttpError(400, {"x-note": text}, text)),
    "a request": lambda text, random: Exchange(request=Raw(orjson.dumps(_nested(text, random)))),
    "a body": lambda text, random: Exchange(wire=WireRecord(protocol="http", body=json.dumps(_nested(text, random)))),
    "a stream": _streamed,
}
