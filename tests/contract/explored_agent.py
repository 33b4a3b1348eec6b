"""An agent to explore, and the clients by which it asks.

As a program, it is `python explored_agent.py FACES AGENT [MCP-CONFIG]`.
It imports nothing of offbook, and little else: programs start often.
"""

import http.client
import itertools
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

KEY = "greet"
MODERN = "2026-07-28"
MISSED = {422, 4422, -32010}
"""The status, the code of a close frame and the JSON-RPC error of a miss."""


def converse(agent, ask):
    """Ask what the agent asks, in order, and return all outcomes.

    A call that fails is tried again, `retries` times. After one that has no answer, `instead` is asked, and no more.
    """
    outcomes = []
    for text in agent["asks"]:
        for attempt in range(1, agent["retries"] + 2):
            outcomes.append(ask(text, attempt))
            if outcomes[-1][0] != "error":
                break
        if outcomes[-1][0] != "answer":
            return outcomes + [ask(text, 1) for text in agent["instead"]]
    return outcomes


def conversation(text):
    """The messages of a text: its lines, in turn of a user and of the model."""
    roles = itertools.cycle(["user", "assistant"])
    return [{"role": role, "content": line} for role, line in zip(roles, text.split("\n"), strict=False)]


def failed(code, text):
    return ["miss" if code in MISSED else "error", text]


def post(url, body, headers):
    """Post JSON, and return the status and the body of the answer."""
    address, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", f"/{path}", json.dumps(body), headers | {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def streamed_outcome(body):
    """The outcome of a stream of chat chunks; an error if it has no end."""
    frames = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
    choices = [choice for frame in frames if frame != b"[DONE]" for choice in json.loads(frame)["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return ["answer" if frames[-1:] == [b"[DONE]"] else "error", text]


def ask_over_http(text, **fields):
    body = {"model": "m", "messages": conversation(text), **fields}
    try:
        status, answer = post(f"{base_url()}/chat/completions", body, {"x-offbook-step": KEY})
    except (OSError, http.client.HTTPException) as error:
        return failed(0, str(error))
    if status != 200:
        return failed(status, json.loads(answer)["error"]["message"])
    if body.get("stream"):
        return streamed_outcome(answer)
    return ["answer", json.loads(answer)["choices"][0]["message"]["content"]]


def tool_call(text, key=KEY):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": key, "arguments": {"text": text}}}


def modern_tool_call(text, key=KEY):
    """The message and the headers of a call over HTTP in the protocol of today."""
    message = tool_call(text, key)
    message["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": key}
    return message, headers | {"accept": "application/json, text/event-stream"}


def mcp_outcome(body):
    """The outcome in the last message of an MCP server; an error if it has sent none."""
    messages = [line.removeprefix(b"data: ") for line in body.splitlines() if b"jsonrpc" in line]
    if not messages:
        return failed(0, "the server has sent no answer")
    response = json.loads(messages[-1])
    if "error" in response:
        return failed(response["error"]["code"], response["error"]["message"])
    result = response["result"]
    return ["error" if result.get("isError") else "answer", result["content"][0]["text"] if result["content"] else ""]


def ask_mcp_over_http(text):
    try:
        _, answer = post(mcp_config()["url"], *modern_tool_call(text))
    except (OSError, http.client.HTTPException) as error:
        return failed(0, str(error))
    return mcp_outcome(answer)


class McpProcess:
    """An MCP server over stdio, whose process is started again after it has ended. `config` returns how."""

    def __init__(self, config):
        self._config, self._process = config, None

    def ask(self, text, key=KEY):
        if self._process is None:
            config = self._config()
            command, environment = [config["command"], *config["args"]], os.environ | config["env"]
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        self._process.stdin.write(json.dumps(tool_call(text, key)).encode() + b"\n")
        line = self._process.stdout.readline()
        if not line:
            self.close()
        return mcp_outcome(line)

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(20)
            self._process.stdout.close()
            self._process = None


class Socket:
    """A session over WebSocket, which is started again after it has failed. `url` returns where."""

    def __init__(self, url):
        self._url, self._socket = url, None

    def ask(self, text):
        from websockets.exceptions import (  # noqa: PLC0415 - other programs start without it
            ConnectionClosed,
            InvalidStatus,
            WebSocketException,
        )

        try:
            if self._socket is None:
                self._connect()
            self._socket.send(json.dumps({"type": "response.create", "text": text}))
            return ["answer", json.loads(self._socket.recv(timeout=20))["text"]]
        except InvalidStatus as error:
            return failed(error.response.status_code, error.response.body.decode())
        except ConnectionClosed as error:
            self.close()
            return failed(error.rcvd and error.rcvd.code, str(error))
        except WebSocketException as error:
            return failed(0, str(error))

    def _connect(self):
        from websockets.sync.client import connect  # noqa: PLC0415 - other programs start without it

        url = self._url().replace("http", "ws", 1)
        self._socket = connect(f"{url}/realtime?model=m", proxy=None, close_timeout=2)
        assert json.loads(self._socket.recv(timeout=20))["type"] == "session.created"

    def close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def ask_function(text):
    import explored_tool  # noqa: PLC0415 - it is next to the program

    try:
        return ["answer", explored_tool.greet(text)]
    except Exception as error:
        return ["miss" if type(error).__name__ == "ToolRefusedError" else "error", str(error)]


def base_url():
    return os.environ["OPENAI_BASE_URL"]


def mcp_config():
    """The only MCP server of the config that a program was given."""
    (config,) = json.loads(Path(sys.argv[3]).read_text())["mcpServers"].values()
    return config


def asked_by(faces, text):
    """Which of the faces of a run asks a text: the first one `a`, and the last one all others."""
    return faces[0 if text == "a" else -1]


def run_program(faces, agent):
    process, socket = McpProcess(mcp_config), Socket(base_url)
    asks = {
        "server": partial(ask_over_http, **{"stream": True} if agent["streams"] else {}),
        "mcp_http": ask_mcp_over_http,
        "mcp_stdio": process.ask,
        "program_tools": ask_function,
        "websocket": socket.ask,
    }
    outcomes = converse(agent, lambda text, _: asks[asked_by(faces, text)](text))
    sys.stdout.write(json.dumps(outcomes))
    process.close()
    socket.close()


if __name__ == "__main__":
    run_program(sys.argv[1].split(","), json.loads(sys.argv[2]))
