"""Whoever has heard the end of an answer finds it in the recording, even if the server is killed at that moment."""

import os
import signal
import subprocess
import sys

import pytest

from tests.servers.chat import chat_answer
from tests.servers.upstream import Upstream
from tests.wire.recorded import DONE, HTTP, STOP, delta, exchanges

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
SERVER = """
import sys
import offbook

with offbook.serving(record=sys.argv[1], upstreams={"openai": sys.argv[2] + "/v1"}) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def upstream():
    with Upstream() as running:
        yield running


def test_a_kill_behind_the_last_byte_loses_nothing(upstream, tmp_path):
    path = tmp_path / "run.json"
    upstream.answer = lambda call: call.whole(chat_answer("whole"))
    command = [sys.executable, "-c", SERVER, str(path), upstream.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        place = process.stdout.readline().strip() + "/v1/chat/completions"
        assert HTTP.post(place, json=CHAT).status_code == 200
        upstream.answer = lambda call: call.stream(delta("streamed"), STOP, DONE)
        with HTTP.stream("POST", place, json=CHAT | {"stream": True}) as answer:
            read = b""
            for piece in answer.iter_raw():
                read += piece
                if read.endswith(DONE):
                    os.kill(process.pid, signal.SIGKILL)
                    break
    assert [exchange.content for exchange in exchanges(path)] == ["whole", "streamed"]
