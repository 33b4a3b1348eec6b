"""A small MCP server, and clients of both eras and transports that talk to a session without sockets or processes."""

import asyncio
import json
from contextlib import contextmanager

from offbook.mcp.hub import McpHub
from offbook.mcp.message import CAPABILITIES_META, LOG_LEVEL_META, VERSION_META
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.stdio import LineServer
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest

SERVER = "notes"
MODERN = {VERSION_META: "2026-07-28", CAPABILITIES_META: {}, LOG_LEVEL_META: "info"}
TOOLS = [
    {"name": "add", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": {"type": "object"}},
]


def request(method, params=None, *, id=1, era="handshake", token=None):
    params = dict(params or {})
    meta = dict(MODERN) if era == "modern" else {}
    if token is not None:
        meta["progressToken"] = token
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(tool, arguments=None, **settings):
    return request("tools/call", {"name": tool, "arguments": arguments or {}}, **settings)


def line(message):
    return (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"


def real_server(message):
    """Answer as a real server does, in the era of the request; `write` reports progress, and `fail` fails."""
    is_modern = VERSION_META in message.get("params", {}).get("_meta", {})
    params, modern = message.get("params", {}), {"resultType": "complete"} if is_modern else {}
    match message["method"]:
        case "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "real"}}
        case "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 5} | modern
        case "tools/list":
            result = {"tools": TOOLS} | modern
        case "tools/call" if params["name"] == "add":
            total = params["arguments"]["a"] + params["arguments"]["b"]
            result = {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
        case "tools/call" if params["name"] == "fail":
            result = {"content": [{"type": "text", "text": "no such note"}], "isError": True}
        case "tools/call":
            token = params.get("_meta", {}).get("progressToken")
            if token is not None:
                progress = {"progressToken": token, "progress": 1}
                yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
            result = {"content": [{"type": "text", "text": "written"}]}
        case method:
            error = {"code": -32601, "message": f"Method not found: {method}"}
            yield {"jsonrpc": "2.0", "id": message["id"], "error": error}
            return
    yield {"jsonrpc": "2.0", "id": message["id"], "result": result | modern}


class Upstream:
    """A real server that needs no process: what is written to it is answered at once."""

    def __init__(self, answer=real_server, credentials=()):
        self.received, self._answer, self.credentials = [], answer, credentials
        self.server = None

    def write(self, data):
        message = json.loads(data)
        self.received.append(message)
        for reply in self._answer(message) if "id" in message and "method" in message else ():
            self.server.receive_from_server(line(reply).rstrip(b"\n"))


class Client:
    """A client over stdio: what it got, and the exit code of the server when that has ended."""

    def __init__(self):
        self.data, self.exit_code = b"", None

    def write(self, data):
        self.data += data

    def end(self, exit_code):
        self.exit_code = exit_code

    @property
    def messages(self):
        return [json.loads(each) for each in self.data.splitlines()]


def over_stdio(session, *messages, upstream=None, wait_s=0.0):
    """Send messages to a session over stdio, and return the client when all are answered, or `wait_s` has passed."""

    async def talk():
        client = Client()
        server = LineServer(session, client, upstream=upstream)
        if upstream is not None:
            upstream.server = server
        for message in messages:
            server.receive(line(message))
        if wait_s:
            await asyncio.sleep(wait_s)
        return client

    return asyncio.run(talk())


def post(message, **headers):
    """The HTTP request with which a client sends a message; header names have underscores here."""
    params = message.get("params", {})
    sent = {"accept": "application/json, text/event-stream", "mcp-method": message.get("method", "")}
    if (version := params.get("_meta", {}).get(VERSION_META)) is not None:
        sent["mcp-protocol-version"] = version
    if (name := params.get("name") or params.get("uri")) is not None:
        sent["mcp-name"] = name
    sent |= {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    given = {name: value for name, value in sent.items() if headers.get(name.replace("-", "_"), "") is not None}
    return HttpRequest("POST", "/mcp", "", given, json.dumps(message).encode())


def messages_in(response):
    """The messages of an HTTP response, whether it is JSON or server-sent events."""
    text = response.content.decode()
    if response.headers.get("content-type") == "application/json":
        return [json.loads(text)]
    return [json.loads(each.removeprefix("data: ")) for each in text.splitlines() if each.startswith("data: ")]


@contextmanager
def replaying(recording, *, faults=(), server=SERVER):
    """A session that answers from a recording: a path, or a dict."""
    source = {"responses": recording} if isinstance(recording, dict) else {"recording": recording}
    backend = WireBackend(WireOptions(strict=True, faults=faults, has_tools=True, **source))
    try:
        hub = McpHub([server])
        yield hub.endpoint(server, backend.sessions.named(""))
    finally:
        backend.close()


@contextmanager
def recording_to(path, *, mode="append", faults=()):
    """A session whose real server answers, recorded at `path`."""
    backend = WireBackend(WireOptions(responses={}, strict=True, faults=faults, has_tools=True))
    recorder = McpRecorder(path, mode=mode)
    try:
        yield McpHub([SERVER], recorder=recorder).session(SERVER, backend.sessions.named(""))
    finally:
        recorder.close()
        backend.close()


def opening(era):
    """The messages with which a client of an era starts."""
    if era == "modern":
        return [request("server/discover", era=era, id=0)]
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return [request("initialize", info, id=0), {"jsonrpc": "2.0", "method": "notifications/initialized"}]
