"""Recording through the proxy, and looking at what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import orjson

import offbook
from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store
from offbook.wire.server.wire_server import WireServer
from tests.servers.loopback import PATIENCE_S

HTTP = httpx2.Client(timeout=PATIENCE_S, limits=httpx2.Limits(max_keepalive_connections=0), trust_env=False)
"""A client that leaves no connections open."""

VENDOR_ROOTS = {"openai": "/v1", "anthropic": "", "google": "", "ollama": "", "bedrock": "", "azure": "", "vertex": ""}


def recording(path: Path, upstream_url: str, **options: Any) -> WireServer:
    """A server that records to `path` what the vendors' APIs answer, all of them at one address."""
    urls = {vendor: upstream_url + root for vendor, root in VENDOR_ROOTS.items()}
    return offbook.serving(record=path, upstreams=urls, **options)


def exchanges(path: Path | str) -> list[Exchange]:
    """What was recorded, in order."""
    return [stored.exchange for stored in open_store(path).read()]


def event(value: object) -> bytes:
    """A server-sent event."""
    return b"data: " + (value if isinstance(value, bytes) else orjson.dumps(value)) + b"\n\n"


def delta(text: str, **fields: Any) -> bytes:
    """An event of OpenAI's by which a piece of text comes."""
    return event({"id": "c", "model": "m-1", "choices": [{"index": 0, "delta": {"content": text}}], **fields})


STOP = event({"id": "c", "model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = event(b"[DONE]")
