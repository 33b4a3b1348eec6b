"""HTTP+SSE, the transport of 2024: one stream for all that a server sends, and one address for its client."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import parse_qsl

from offbook.mcp.http.streams import SSE_HEADERS, SSE_TYPE, EventStream
from offbook.mcp.session import McpSession
from offbook.mcp.stdio import LineServer
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse

CLIENT_QUERY = "offbook_client"


def opens_stream(headers: Mapping[str, str]) -> bool:
    """Return whether a GET is one of the transport of 2024, whose clients have neither sessions nor versions."""
    is_plain = "mcp-session-id" not in headers and "mcp-protocol-version" not in headers
    return is_plain and SSE_TYPE in headers.get("accept", "")


class SseClients:
    """The clients of one session over HTTP+SSE: each is served as over stdio, by its lines."""

    def __init__(self, session: McpSession) -> None:
        self._session = session
        self._servers: dict[str, LineServer] = {}

    def open(self) -> HttpResponse:
        """Return the stream of a new client, which is told first where its messages go."""
        return HttpResponse(200, dict(SSE_HEADERS), is_streamed=True, ending="cut", live=self._serve)

    async def _serve(self) -> AsyncGenerator[bytes]:
        key, lines = secrets.token_hex(16), _StreamLines()
        server = self._servers[key] = LineServer(self._session, lines)
        try:
            yield f"event: endpoint\ndata: ?{CLIENT_QUERY}={key}\n\n".encode()
            async for event in lines.stream.follow(0):
                yield event
        finally:
            del self._servers[key]
            server.close(0)

    def receive(self, request: HttpRequest) -> HttpResponse | None:
        """Take what a client posts; None if it is not a client of this transport."""
        key = dict(parse_qsl(request.query)).get(CLIENT_QUERY)
        if key is None:
            return None
        server = self._servers.get(key)
        if server is None:
            return HttpResponse(404)
        server.receive(b" ".join(request.body.splitlines()) + b"\n")
        return HttpResponse(202)


class _StreamLines:
    """The lines that a server writes, as events."""

    def __init__(self) -> None:
        self.stream = EventStream()

    def write(self, data: bytes) -> None:
        self.stream.write(data.rstrip(b"\n"))

    def end(self, exit_code: int) -> None:
        self.stream.end()
