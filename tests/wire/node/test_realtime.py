"""OpenAI's Realtime client for Node: recorded at a server that nobody here wrote, replayed without it, and broken."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

import offbook
from tests.servers import aimock
from tests.wire.node import driver as node
from tests.wire.websocket.clients import tls_before
from tests.wire.websocket.test_clients import at_last_call

PROGRAM = Path(__file__).with_name("realtime.mjs")


def hear(url):
    """What the client hears, and how it ended. It uses `wss` whatever its base URL says, so there is TLS between."""

    async def run():
        async with tls_before(url) as (tls_url, _):
            command = ["node", str(PROGRAM), tls_url, str(node.SDKS)]
            return await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
            )

    done = asyncio.run(run())
    assert done.stdout, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    node.require()
    aimock.require()
    path = tmp_path_factory.mktemp("realtime") / "run.json"
    with aimock.serve() as url, offbook.serving(record=path, upstreams={"openai": f"{url}/v1"}) as server:
        heard = hear(server.url)
    return path, heard


def test_the_client_hears_the_same_when_the_server_is_gone(recorded):
    path, heard = recorded
    assert "Good mo" in json.dumps(heard)
    with offbook.serving(path) as server:
        assert hear(server.url) == heard
        assert server.misses == []
        assert server.unused() == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("ws_close 1013", 1013),
        ("stream_truncate 1 raise=clean", 1000),
        ("stream_truncate 1 raise=cut", 1006),
        ("connection_reset", 1006),
    ],
)
def test_the_client_hears_how_a_fault_ends_the_session(recorded, fault, code):
    path, heard = recorded
    with offbook.serving(path, faults=at_last_call(path, fault)) as server:
        got = hear(server.url)
    assert got[-1] == {"close": code}
    assert got[:-1] != heard[:-1]
