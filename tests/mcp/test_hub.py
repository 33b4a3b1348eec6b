"""MCP servers on the server of the models: over real HTTP, behind a proxy, in sessions, and joined over stdio."""

import json
import socket
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from offbook.mcp.config import ServerConfig, parse_config
from offbook.mcp.hub import McpHub
from offbook.mcp.recorder import McpRecorder
from offbook.recording.stores.locate import open_store
from offbook.wire.options import WireOptions
from offbook.wire.server.wire_server import WireServer
from tests.mcp.wiring import SERVER, TOOLS, call, messages_in, post, request

FRAMES = [
    [1.0, '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}\n'],
    [2.0, '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"slow"}]}}\n'],
]
RECORDING = {
    "_version": 2,
    "_tools": {
        "notes.add": [{"arguments": {"a": 1}, "result": "one"}],
        "notes.write": [{"arguments": {}, "result": "slow", "wire": {"protocol": "mcp", "frames": FRAMES}}],
    },
    "_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": {"tools": TOOLS}}]}},
}
SECRET = "Bearer a-secret-of-somebody"


@contextmanager
def standing_in(recording=RECORDING, *, faults=()):
    """A server that answers from a recording."""
    options = WireOptions(responses=recording, strict=True, faults=faults, has_tools=True)
    with WireServer(options, mount=McpHub([SERVER])) as server:
        yield server


@contextmanager
def recording_proxy(path, url, *, faults=()):
    """A server that forwards to a URL, and records what comes back."""
    recorder = McpRecorder(path)
    hub = McpHub([ServerConfig(SERVER, "http", {"url": url})], recorder=recorder)
    options = WireOptions(responses={}, strict=True, faults=faults, has_tools=True)
    try:
        with WireServer(options, mount=hub) as server:
            yield server
    finally:
        recorder.close()


def ask(url, message, **headers):
    sent = post(message, **headers)
    return httpx.post(url, content=sent.body, headers=dict(sent.headers), timeout=10)


def text(response):
    return messages_in(response)[-1]["result"]["content"][0]["text"]


def test_what_a_real_server_answers_is_passed_on_recorded_and_replayed(tmp_path):
    path = tmp_path / "run.json"
    asked = [
        call("add", {"a": 1}, era="modern"),
        call("write", era="modern", id=2),
        request("tools/list", era="modern"),
    ]
    with standing_in() as real, recording_proxy(path, f"{real.url}/mcp") as proxy:
        live = [ask(f"{proxy.url}/mcp", message, authorization=SECRET) for message in asked]
        assert [each.outcome for each in proxy.calls] == ["recorded", "recorded"]
    assert [response.headers["content-type"] for response in live[:2]] == ["application/json", "text/event-stream"]
    assert SECRET not in path.read_text()
    with standing_in(json.loads(path.read_text())) as server:
        replayed = [ask(f"{server.url}/mcp", message) for message in asked]
    assert [messages_in(response) for response in replayed] == [messages_in(response) for response in live]


def test_a_fault_changes_what_the_client_gets_and_not_what_is_recorded(tmp_path):
    path = tmp_path / "run.json"
    faults = ["tool=notes.write: injected_text", "tool=notes.add: tool_lost"]
    with standing_in() as real, recording_proxy(path, f"{real.url}/mcp", faults=faults) as proxy:
        assert "PWNED" in text(ask(f"{proxy.url}/mcp", call("write", era="modern")))
        with pytest.raises(httpx.RemoteProtocolError):
            ask(f"{proxy.url}/mcp", call("add", {"a": 1}, era="modern"))
        assert [each.outcome for each in proxy.calls] == ["fault", "fault"]
    document = open_store(path).load()
    assert {name: document.tools[name][0].result for name in document.tools} == {
        "notes.add": "one",
        "notes.write": "slow",
    }


def test_statuses_and_headers_of_a_real_server_pass(tmp_path):
    with standing_in() as real, recording_proxy(tmp_path / "run.json", f"{real.url}/mcp") as proxy:
        refused = ask(f"{proxy.url}/mcp", call("add", era="modern"), mcp_method="other")
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == -32020
        assert httpx.get(f"{proxy.url}/mcp").status_code == 405
        started = ask(f"{proxy.url}/mcp", request("initialize"))
        session = started.headers["mcp-session-id"]
        assert httpx.delete(f"{proxy.url}/mcp", headers={"mcp-session-id": session}).status_code == 200
        assert ask(f"{proxy.url}/mcp", request("tools/list"), mcp_session_id=session).status_code == 404


def test_a_real_server_that_is_not_there_is_a_bad_gateway(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with recording_proxy(tmp_path / "run.json", f"http://127.0.0.1:{port}/mcp") as proxy:
        response = ask(f"{proxy.url}/mcp", call("add", era="modern"))
        assert response.status_code == 502
        assert "did not answer: ConnectError" in response.json()["error"]["message"]
        assert [each.failure for each in proxy.calls] == ["ConnectError from the server"]


def test_each_session_has_its_own_position_and_faults():
    with standing_in() as server:
        faults = {"faults": ["tool=notes.add: tool_error"]}
        assert httpx.put(f"{server.url}/_offbook/sessions/broken", json=faults).is_success
        urls = [
            f"{server.url}/mcp",
            f"{server.session_url('broken')}/mcp/notes",
            f"{server.session_url('fine')}/mcp/notes",
        ]
        answers = [messages_in(ask(url, call("add", {"a": 1}, era="modern")))[0]["result"] for url in urls]
        assert [answer.get("isError", False) for answer in answers] == [False, True, False]
        assert [(each.session, each.outcome) for each in server.calls] == [
            *(("broken", "fault"), ("", "served"), ("fine", "served"))
        ]


def test_models_and_tools_are_calls_of_one_session_with_one_numbering():
    with standing_in(RECORDING | {"any": {"content": "Hello."}}) as server:
        ask(f"{server.url}/mcp", call("add", {"a": 1}, era="modern"))
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        httpx.post(f"{server.url}/v1/chat/completions", json=body)
        ask(f"{server.url}/mcp", call("write", era="modern"))
        assert [(each.number, each.place) for each in server.calls] == [
            *((1, "notes.add"), (2, "/v1/chat/completions"), (3, "notes.write"))
        ]


def test_an_unknown_server_is_named_with_those_that_there_are():
    with standing_in() as server:
        response = httpx.get(f"{server.url}/mcp/other")
        assert response.status_code == 404
        assert response.text == "no such MCP server; known: /mcp/notes\n"


def test_nobody_joins_without_the_token(tmp_path):
    hub = McpHub([SERVER])
    options = WireOptions(responses=RECORDING, strict=True, has_tools=True)
    config = parse_config({"mcpServers": {SERVER: {"command": "x"}}}, source="")
    with WireServer(options, mount=hub) as server, ExitStack() as stack:
        hub.write_config(config, tmp_path / "mcp.json", url=server.url)
        entry = json.loads((tmp_path / "mcp.json").read_text())["mcpServers"][SERVER]
        place, token, *_ = entry["env"]["OFFBOOK_MCP_JOIN"].split("/")
        assert len(token) > 40
        for given, answer in (("guessed", b""), (token, b"O")):
            host, port = place.split(":")
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            hello = {"token": given, "session": "", "server": SERVER, "command": [], "folder": "/", "environment": {}}
            connection.sendall(json.dumps(hello).encode() + b"\n" + json.dumps(request("ping")).encode() + b"\n")
            assert connection.recv(1) == answer


class ScriptedServer(BaseHTTPRequestHandler):
    """Answers each method by its script: status, headers and body, by what was sent."""

    protocol_version = "HTTP/1.0"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, dict(self.headers), body))
        status, headers, reply = self.server.script(self.command, self.headers, body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def scripted(script):
    """A real server over HTTP that answers by a script. Yields its URL, and what it was sent."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ScriptedServer) as server:
        server.script, server.seen = script, []
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", server.seen
        finally:
            server.shutdown()
            thread.join()


DONE = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "done"}]}}
EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
SESSION = {"mcp-session-id": "one"}


def reply(answer, *_):
    return answer


def recorded_names(path):
    return sorted(open_store(path).load().tools) if path.exists() else []


def test_a_stream_is_resumed_through_the_proxy_and_its_answer_recorded(tmp_path):
    def script(method, headers, body):
        if method == "POST":
            return 200, EVENTS, b"id: e1\nretry: 10\ndata:\n\n"
        assert headers["last-event-id"] == "e1"
        return 200, EVENTS, b"id: e2\nevent: message\ndata: " + json.dumps(DONE).encode() + b"\n\n"

    with scripted(script) as (url, _), recording_proxy(tmp_path / "run.json", url) as proxy:
        first = ask(f"{proxy.url}/mcp", call("write"), **SESSION)
        assert first.content == b"id: e1\nretry: 10\ndata:\n\n"
        sent = {**SESSION, "last-event-id": "e1", "accept": "text/event-stream"}
        rest = httpx.get(f"{proxy.url}/mcp", headers=sent, timeout=10)
        assert rest.content.startswith(b"id: e2\n")
        assert [each.outcome for each in proxy.calls] == ["recorded"]
    assert recorded_names(tmp_path / "run.json") == ["notes.write"]


def test_a_batch_is_forwarded_as_it_is_and_each_message_recorded(tmp_path):
    def script(method, headers, body):
        asked = [message for message in json.loads(body) if "id" in message]
        return 200, JSON, json.dumps([DONE | {"id": message["id"]} for message in asked]).encode()

    sent = [call("write", id=1), call("add", {"a": 1}, id=2)]
    with scripted(script) as (url, seen), recording_proxy(tmp_path / "run.json", url) as proxy:
        answers = httpx.post(f"{proxy.url}/mcp", json=sent, headers=SESSION, timeout=10).json()
        assert json.loads(seen[0][2]) == sent
    assert [message["id"] for message in answers] == [1, 2]
    assert recorded_names(tmp_path / "run.json") == ["notes.add", "notes.write"]


def test_a_fault_in_a_batch_changes_one_answer_of_it(tmp_path):
    def script(method, headers, body):
        return 200, JSON, json.dumps([DONE | {"id": message["id"]} for message in json.loads(body)]).encode()

    faults = ["tool=notes.write: tool_empty"]
    sent = [call("write", id=1), call("add", {"a": 1}, id=2)]
    with scripted(script) as (url, _), recording_proxy(tmp_path / "run.json", url, faults=faults) as proxy:
        answers = httpx.post(f"{proxy.url}/mcp", json=sent, headers=SESSION, timeout=10).json()
    assert [message["result"]["content"] for message in answers] == [[], DONE["result"]["content"]]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b""),
        (404, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Session not found"}}'),
        (400, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32020, "message": "header mismatch"}}'),
        (500, b"<html>sorry</html>"),
        (200, b"<html>hello</html>"),
    ],
)
def test_what_is_not_an_answer_to_a_call_passes_and_is_not_recorded(tmp_path, status, body):
    script = partial(reply, (status, JSON, body))
    with scripted(script) as (url, _), recording_proxy(tmp_path / "run.json", url) as proxy:
        got = ask(f"{proxy.url}/mcp", call("write", era="modern"))
        assert proxy.session("").failures == {f"the server answered with HTTP {status}": 1}
    assert got.status_code == status
    assert got.content == body
    assert recorded_names(tmp_path / "run.json") == []


def test_an_error_of_a_modern_call_is_recorded_with_its_code(tmp_path):
    refusal = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}'
    script = partial(reply, (400, JSON, refusal))
    with scripted(script) as (url, _), recording_proxy(tmp_path / "run.json", url) as proxy:
        assert ask(f"{proxy.url}/mcp", call("write", era="modern")).status_code == 400
    assert recorded_names(tmp_path / "run.json") == ["notes.write"]


def test_a_login_is_led_to_the_metadata_of_the_server_by_our_address(tmp_path):
    metadata = {"resource": "https://host/mcp", "authorization_servers": ["https://login.test"], "x": [1]}
    challenge = 'Bearer error="invalid_token", resource_metadata="URL/.well-known/oauth-protected-resource/mcp"'

    def script(method, headers, body):
        if method == "GET":
            return 200, JSON, json.dumps(metadata).encode()
        return 401, {"www-authenticate": challenge.replace("URL", f"http://{headers['host']}")}, b""

    with scripted(script) as (url, _), recording_proxy(tmp_path / "run.json", url) as proxy:
        refused = ask(f"{proxy.url}/mcp", call("write"))
        place = f"{proxy.url}/.well-known/oauth-protected-resource/mcp"
        assert refused.headers["www-authenticate"] == f'Bearer error="invalid_token", resource_metadata="{place}"'
        assert httpx.get(place, timeout=10).json() == metadata | {"resource": f"{proxy.url}/mcp"}
    with standing_in() as server:
        assert httpx.get(f"{server.url}/.well-known/oauth-protected-resource/mcp", timeout=10).status_code == 404
