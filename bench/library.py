"""The recordings that are measured: each made once, in the form of each contestant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from msgspec import Raw, Struct

from bench.contestants.vcrpy import record_cassette
from bench.peers import load_peer
from bench.workload import COST_USD, LATENCY_MS, MODEL, USAGE, By, Call, Conversation, call_at, request_of
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import ABSENT, Exchange
from offbook.recording.match.fingerprint import identify
from offbook.recording.stores.locate import open_store

Detail = Literal["answers", "hashes", "requests"]
"""What an entry of ours holds: the answer alone; also `request_hash`; also the request, as the recorder keeps it."""


class Spec(Struct, frozen=True):
    """A recording: how many entries, under which keys, of which conversation, and in how much detail."""

    size: int
    by: By = "step"
    conversation: Conversation = "chat"
    detail: Detail = "requests"

    def call(self, index: int) -> Call:
        """The call that the entry `index` answers."""
        return call_at(index, self.conversation, by=self.by)

    def calls(self) -> list[Call]:
        """The calls that the recording answers."""
        return [self.call(index) for index in range(self.size)]

    @property
    def name(self) -> str:
        return f"{self.conversation}-{self.by}-{self.detail}-{self.size}"


class Library:
    """Recordings in `folder`, made when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def json(self, spec: Spec) -> str:
        """Ours, as a JSON file."""
        path = self.folder / f"{spec.name}.json"
        if not path.exists():
            open_store(path).save(_document(spec))
        return str(path)

    def sqlite(self, spec: Spec) -> str:
        """Ours, as a database."""
        path = self.folder / f"{spec.name}.db"
        if not path.exists():
            open_store(f"sqlite:///{path}").save(_document(spec))
        return f"sqlite:///{path}"

    def agentloom(self, spec: Spec) -> str:
        """AgentLoom's file with the same answers, written as its recorder writes it."""
        path = self.folder / f"{spec.name}.agentloom.json"
        if not path.exists():
            path.write_text(json.dumps(dict(_agentloom_entry(call) for call in spec.calls()), indent=2))
        return str(path)

    def cassette(self, spec: Spec) -> str:
        """A cassette of vcrpy's, recorded from a loopback server with the same answers."""
        path = self.folder / f"{spec.name}.yaml"
        if not path.exists():
            record_cassette(path, spec.calls())
        return str(path)


def _document(spec: Spec) -> Document:
    document = Document()
    for call in spec.calls():
        request_hash, fields = identify(request_of(call))
        document.add(call.step_id or request_hash, _exchange(call, request_hash, fields, spec.detail))
    return document


def _exchange(call: Call, request_hash: str, fields: bytes, detail: Detail) -> Exchange:
    return Exchange(
        content=call.answer,
        model=MODEL,
        provider="openai",
        usage=USAGE,
        cost_usd=COST_USD,
        latency_ms=LATENCY_MS,
        recorded_at=None if detail == "answers" else "2026-01-01T00:00:00.000000+00:00",
        request_hash=None if detail == "answers" else request_hash,
        request=Raw(fields) if detail == "requests" else ABSENT,
    )


def _agentloom_entry(call: Call) -> tuple[str, dict[str, object]]:
    usage = {name: getattr(USAGE, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    answer = {"content": call.answer, "model": MODEL, "usage": usage, "cost_usd": COST_USD}
    return _agentloom_key(call), answer | {"latency_ms": LATENCY_MS, "finish_reason": "stop"}


def _agentloom_key(call: Call) -> str:
    mock = load_peer("agentloom.providers.mock")
    assert mock is not None
    return call.step_id or str(mock.prompt_hash(call.messages))
