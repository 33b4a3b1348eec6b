"""What stands behind a recorder: a model, tools, an MCP server or a socket that answer every text alike."""

import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.server import serve

from offbook import Provider, ProviderError, Response
from offbook.messages import WholeReply
from tests.contract.mcp_live import Live, mcp_response
from tests.servers.loopback import LoopbackServer


class LiveModel(Provider):
    """The model as a provider."""

    name = "live"

    def __init__(self, live):
        self._live = live

    async def send(self, request):
        try:
            said = self._live.answer(request.messages[-1]["content"])
        except ValueError as error:
            raise ProviderError(str(error), provider=self.name, status_code=500) from error
        return WholeReply(Response(content=said, model=request.model, provider=self.name))


def live_tools(live, names):
    """A tool of each name."""

    def tool(name):
        def function(text: str) -> str:
            """Answer a text."""
            return live.answer(text)

        function.__name__ = name
        return function

    return [tool(name) for name in names]


@contextmanager
def model_server(live):
    """The URL of the model over HTTP, in the protocol of OpenAI."""

    def complete(call):
        try:
            said = live.answer(json.loads(call.body)["messages"][-1]["content"])
        except ValueError as error:
            return call.whole(json.dumps({"error": {"message": str(error)}}).encode(), status=500)
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return call.whole(json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]}).encode())

    with LoopbackServer(complete) as server:
        yield server.url


@contextmanager
def mcp_server(live):
    """The URL of the MCP server."""

    def respond(call):
        call.whole(json.dumps(mcp_response(json.loads(call.body), live.answer)).encode())

    with LoopbackServer(respond) as server:
        yield f"{server.url}/mcp"


class LiveProcess(Live):
    """The MCP server over stdio, whose processes note what they are asked in a file."""

    def __init__(self, log):
        self._log = Path(log)

    @property
    def asked(self):
        return self._log.read_text().splitlines() if self._log.exists() else []

    @property
    def config(self):
        return {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_live.py")), str(self._log)]}


@contextmanager
def socket_server(answer):
    """The URL of a WebSocket server that greets, and answers each text."""

    def respond(socket):
        socket.send(json.dumps({"type": "session.created"}))
        for raw in socket:
            try:
                said = answer(json.loads(raw)["text"])
            except ValueError as error:
                socket.close(1011, str(error))
                return
            socket.send(json.dumps({"type": "response.done", "text": said}))

    with serve(respond, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
    thread.join()
