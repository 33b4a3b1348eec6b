"""The port of a run lends its credentials to nobody but its programs: everything else gets a 401 or a 407."""

import json
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

import offbook
from offbook.codecs import openai_chat
from offbook.vendors import codec_of
from offbook.wire.intercept.interception import InterceptedHosts, Interception
from offbook.wire.options import ProgramToolOptions, WireOptions
from offbook.wire.server.access import split_token
from offbook.wire.server.wire_server import WireServer
from tests.servers.aws import ACCESS_KEY, SECRET_KEY, signed_region
from tests.servers.loopback import LoopbackServer
from tests.wire.proxy.recorded import exchanges

NOBODY = 65534
CONVERSE = "/model/amazon.nova-lite-v1:0/converse"
ASKED = json.dumps({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}).encode()
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
SIGNED = "AWS4-HMAC-SHA256 Credential=AKIAOFANOTHER1234567/20260101/us-east-1/bedrock/aws4_request, Signature=0"
WEBSOCKET = "GET /v1/realtime HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
WEBSOCKET += "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"


def request(method, path, body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


ATTACKS = {
    "Bedrock without a signature": request("POST", CONVERSE, ASKED),
    "Bedrock with a false signature": request("POST", CONVERSE, ASKED, authorization=SIGNED),
    "a step of its own": request("POST", CONVERSE, ASKED, x_offbook_step="theirs"),
    "a session": request("POST", f"/s/other{CONVERSE}", ASKED),
    "another token": request("POST", f"/t/{'0' * 32}{CONVERSE}", ASKED),
    "another token in a header": request("POST", CONVERSE, ASKED, x_offbook_token="0" * 32),
    "a token that is not text": request("POST", CONVERSE, ASKED, x_offbook_token="\xff" * 32),
    "the dummy key": request("POST", "/v1/chat/completions", CHAT, authorization="Bearer offbook"),
    "a large body": request("POST", CONVERSE, b" " * 2_000_000 + ASKED),
    "sessions": request("GET", "/_offbook/sessions"),
    "a new session": request("PUT", "/_offbook/sessions/x", b'{"faults": ["everywhere: timeout"]}'),
    "health": request("GET", "/_offbook/health"),
    "an effect": request("POST", "/_offbook/effects", b'{"tool": "refund"}'),
    "an effect of a session": request("POST", "/s/a/_offbook/effects", b'{"tool": "refund"}'),
    "a question about a tool": request("POST", "/_offbook/tools", b'{"tool": "refund", "arguments": {}}'),
    "an MCP server": request("POST", "/mcp/files", b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'),
    "the login of an MCP server": request("GET", "/.well-known/oauth-protected-resource/mcp/files"),
    "a WebSocket": WEBSOCKET.encode(),
    "CONNECT": b"CONNECT api.openai.com:443 HTTP/1.1\r\nhost: api.openai.com:443\r\n\r\n",
    "a proxied request": b"GET http://api.openai.com/v1/models HTTP/1.1\r\nhost: api.openai.com\r\n\r\n",
}

ATTACKER = """
import json, socket, sys
host, port, attacks = json.loads(sys.stdin.read())
for attack in attacks:
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(bytes.fromhex(attack))
        head = b""
        while b"\\r\\n" not in head and (data := connection.recv(4096)):
            head += data
        print(head.split(b" ")[1].decode())
"""


def attack(address):
    """The statuses that another user of this machine gets, by what they try; one of this user if we are not root."""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    asked = json.dumps([*address, [data.hex() for data in ATTACKS.values()]])
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", ATTACKER] if user else [sys.executable, "-I", "-c", ATTACKER],
        input=asked, capture_output=True, text=True, check=True, timeout=60, cwd="/", env={"PATH": os.defpath}, **user,
    )  # fmt: skip
    return dict(zip(ATTACKS, done.stdout.split(), strict=True))


@pytest.fixture
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def bedrock(call):
    answer = codec_of("bedrock").encode_response(offbook.Response("Hello."))
    call.whole(json.dumps(answer).encode())


def ask(url, path, body, **headers):
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
        connection.sendall(request("POST", place.path + path, body, **headers))
        return int(connection.recv(4096).split(b" ")[1])


def test_another_user_gets_nothing_but_401_of_a_server_that_records(credentials, tmp_path):
    with (
        LoopbackServer(bedrock) as upstream,
        offbook.serving(record=tmp_path / "run.json", upstreams={"bedrock": upstream.url}) as server,
    ):
        assert ask(server.url, CONVERSE, ASKED) == 200
        statuses = attack(server.address)
        [call] = upstream.calls
        assert signed_region(call) == "us-east-1"
        assert [session.name for session in server.sessions] == [""]
        assert server.session("").effects == []
    assert dict.fromkeys(statuses.values()) == {"401": None, "400": None}
    assert {name for name, status in statuses.items() if status == "400"} == {"CONNECT"}
    assert len(exchanges(tmp_path / "run.json")) == 1


def test_another_user_gets_nothing_but_401_and_407_of_a_run_that_intercepts(credentials, tmp_path):
    interception = Interception(InterceptedHosts())
    options = WireOptions(record=tmp_path / "run.json", tools=ProgramToolOptions())
    with WireServer(options, interception=interception, token=interception.token) as server:
        statuses = attack(server.address)
        assert server.totals().calls == 0
        assert list(server.sessions) == []
    assert {name for name, status in statuses.items() if status == "407"} == {"CONNECT", "a proxied request"}
    assert set(statuses.values()) == {"401", "407"}


def test_a_replay_lends_nothing_and_is_open():
    with offbook.serving(default_response="Hi") as server:
        assert server.token == ""
        assert ask(server.url, "/v1/chat/completions", CHAT) == 200
        assert ask(f"{server.url}/t/any", "/v1/chat/completions", CHAT) == 200


def test_a_replay_with_a_token_answers_who_has_it():
    with WireServer(WireOptions(default_response="Hi"), token="a-token") as server:
        plain = server.url.removesuffix("/t/a-token")
        assert plain != server.url
        assert ask(server.url, "/v1/chat/completions", CHAT) == 200
        assert ask(plain, "/v1/chat/completions", CHAT) == 401
        assert ask(plain, "/v1/chat/completions", CHAT, authorization="Bearer a-token") == 200
        assert ask(server.session_url("a/b"), "/v1/chat/completions", CHAT) == 200
        assert server.env["OPENAI_API_KEY"] == "a-token"
        assert [call.session for call in server.calls] == ["", "", "a/b"]


def test_an_api_key_may_stand_in_the_path_too():
    with offbook.serving(default_response="Hi", api_key="a-key") as server:
        assert server.token == ""
        assert ask(f"{server.url}/t/a-key", "/v1/chat/completions", CHAT) == 200
        assert ask(f"{server.url}/t/b-key", "/v1/chat/completions", CHAT) == 401


def test_the_token_is_in_no_recording_and_goes_nowhere(tmp_path):
    def answer(call):
        call.whole(json.dumps(openai_chat.CODEC.encode_response(offbook.Response("Hello."))).encode())

    with (
        LoopbackServer(answer) as upstream,
        offbook.serving(record=tmp_path / "run.json", upstreams={"openai": f"{upstream.url}/v1"}) as server,
    ):
        assert ask(server.url, "/v1/chat/completions", CHAT, authorization="Bearer a-key-of-mine") == 200
        [call] = upstream.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == "Bearer a-key-of-mine"
    assert server.token not in str(call.headers) + (tmp_path / "run.json").read_text()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (b"/t/abc/v1/models?x=1", (b"abc", b"/v1/models?x=1")),
        (b"/t/abc", (b"abc", b"/")),
        (b"/t/abc?x=/t/1", (b"abc", b"/?x=/t/1")),
        (b"/.well-known/oauth-protected-resource/t/abc/mcp", (b"abc", b"/.well-known/oauth-protected-resource/mcp")),
        (b"/v1/t/abc", (b"", b"/v1/t/abc")),
        (b"/t//v1", (b"", b"/t//v1")),
        (b"/t/%61/v1", (b"", b"/t/%61/v1")),
    ],
)
def test_the_path_begins_with_the_token(asked, expected):
    assert split_token(asked) == expected
