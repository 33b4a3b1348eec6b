"""Every request in every recording of this project is one that its vendor accepts."""

from pathlib import Path

import pytest

from offbook.codecs.rules import refusal_of_request
from offbook.recording.stores.locate import open_store
from offbook.vendors import CODECS
from offbook.wire.convert.trace import model_request, provider_of

ROOT = Path(__file__).parents[3]
FOLDERS = ("examples", "tests", "docs", "src", "bench")
PROTOCOLS = {"anthropic": "anthropic", "google": "gemini", "bedrock": "bedrock", "openai_responses": "openai_responses"}
RECORDINGS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.json"))
    if "node_modules" not in path.parts and '"request_hash"' in path.read_text(encoding="utf-8", errors="replace")
]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_requests_of_a_recording_are_legal(path):
    for key, exchange in open_store(path).load():
        fields = exchange.request_fields()
        if fields is None:
            continue
        provider = provider_of(exchange)
        name = PROTOCOLS.get(provider, "openai_chat") if exchange.wire is None else exchange.wire.protocol
        refusal = refusal_of_request(model_request(fields, exchange, provider), CODECS[name])
        assert refusal is None, f"{key}: {refusal}"


def test_there_are_recordings_to_judge():
    assert len(RECORDINGS) >= 30
