"""The MCP servers of a run: mounts them on the models' server, and lets stdio clients join their session."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from offbook.decoding import decode
from offbook.errors import InputError
from offbook.mcp.answer import McpSource
from offbook.mcp.config import McpConfig, ServerConfig, write_config
from offbook.mcp.connect import FRAME_HEAD
from offbook.mcp.http.endpoint import HttpEndpoint
from offbook.mcp.http.upstream import HttpUpstream
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.replay import McpReplay, SharedMcpReplay, recorded_tools
from offbook.mcp.session import McpSession, McpToolCall, ignore_tool_call
from offbook.mcp.stdio import READ_BYTES, ServerProcess, open_lines
from offbook.messages import JsonObject
from offbook.recording.call_cache import CallCache
from offbook.recording.latency import NO_LATENCY, Latency
from offbook.session.log import Log
from offbook.session.sources import RecordedTools
from offbook.session.tape import Tape
from offbook.wire.backend import (
    SessionRegistry,
    session_prefix,
    split_session_path,
)
from offbook.wire.options import DEFAULT_RESPONSE, LOOPBACK
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.server.connection import Receive, Scope, Send, send_response, while_client_waits
from offbook.wire.session import WireSession

MAX_HELLO_BYTES = 4 * 1024 * 1024


class _Hello(Struct):
    """The first message of a joining process."""

    token: str
    session: str
    server: str
    command: list[str]
    folder: str
    environment: dict[str, str]


class McpHub:
    """Stands in for MCP `servers` in every session of a wire server, on which it is mounted.

    Args:
        servers: the servers by name; those of a config, or only names for a replay.
        recorder: records the real servers' answers; without it, the sessions' recordings answer everything.
        environment: the variables for the URLs of a config.
        latency: the latency of replayed answers.
        default_response: the result of an unrecorded tool call in a lenient replay.
        source_of: makes the source of a session's answers instead of the recording.
        on_tool_call: called with each answered tool call, on the loop of the server.
        recorded_as: returns a server's name in a session's recordings; by default its own.
    """

    prefix = "/mcp"
    login_prefix = "/.well-known/oauth-"

    def __init__(
        self,
        servers: Sequence[ServerConfig | str],
        *,
        recorder: McpRecorder | None = None,
        environment: Mapping[str, str] | None = None,
        latency: Latency = NO_LATENCY,
        default_response: str | None = None,
        source_of: Callable[[str, WireSession], McpSource | None] | None = None,
        on_tool_call: Callable[[McpToolCall], None] = ignore_tool_call,
        recorded_as: Callable[[str, WireSession], str] = lambda server, _: server,
    ) -> None:
        self.recorder, self._latency, self._environment = recorder, latency, environment or {}
        self._default_response = DEFAULT_RESPONSE if default_response is None else default_response
        self._source_of, self._on_tool_call = source_of or self._recorded, on_tool_call
        self._recorded_as = recorded_as
        self._mocks: dict[str, Callable[[], McpSource]] = {}
        self.was_reached = False  # by a client of any server
        self._configs: dict[str, ServerConfig | str] = {}
        self._upstreams: dict[str, HttpUpstream] = {}
        for server in servers:
            self.add(server)
        self._sessions: WeakKeyDictionary[WireSession, dict[str, HttpEndpoint]] = WeakKeyDictionary()
        self._tools: WeakKeyDictionary[WireSession, RecordedTools] = WeakKeyDictionary()
        self._token = secrets.token_urlsafe(32)
        self._registry: SessionRegistry | None = None
        self._listener: asyncio.Server | None = None
        self._joined: dict[asyncio.Task[None], _JoinedLines | None] = {}
        self._join_port = 0

    @property
    def is_live(self) -> bool:
        """Whether real servers answer unrecorded requests."""
        return self.recorder is not None and self.recorder.is_live

    @property
    def names(self) -> list[str]:
        return list(self._configs)

    def add(self, server: ServerConfig | str, *, mock: Callable[[], McpSource] | None = None) -> None:
        """Stand in for a further server from now on. A `mock` makes the source of each session's answers, instead of a
        recording and the real server; its answers may take time.

        Raises:
            InputError: its URL is invalid.
        """
        name = server if isinstance(server, str) else server.name
        self._mocks.pop(name, None)
        if mock is not None:
            self._mocks[name] = mock
        elif self.is_live and isinstance(server, ServerConfig) and server.kind == "http":
            self._upstreams[name] = HttpUpstream(
                server.url(self._environment), headers=server.headers(self._environment)
            )
        self._configs[name] = server

    def discard(self, name: str) -> None:
        """Refuse clients of a server from now on. Exchanges used by its sessions stay used."""
        self._configs.pop(name, None)

    def endpoint(self, server: str, session: WireSession) -> HttpEndpoint:
        """Return the endpoint of a server in a session."""
        self.was_reached = True
        endpoints = self._sessions.setdefault(session, {})
        if server not in endpoints:
            mock = self._mocks.get(server)
            source = self._source_of(server, session) if mock is None else mock()
            recorder = self.recorder if mock is None else None
            answering = McpSession(
                server,
                session=session,
                source=source,
                recorder=recorder,
                on_tool_call=self._on_tool_call,
                recorded_as=self._recorded_as(server, session),
            )
            endpoints[server] = HttpEndpoint(answering)
        return endpoints[server]

    def session(self, server: str, session: WireSession) -> McpSession:
        """Return the requests to a server in a session."""
        return self.endpoint(server, session).session

    def respond(self, request: HttpRequest, session: WireSession) -> HttpResponse | None:
        """Return the response to an HTTP request, or None if a real server may have to answer it, or it takes time."""
        if request.path.startswith(self.login_prefix):
            return None if self._login_server(request.path) else whole_response(404, b"{}")
        server = self._server_at(request.path)
        if server is None:
            known = ", ".join(f"{self.prefix}/{quote(name)}" for name in self._configs)
            return whole_response(404, f"no such MCP server; known: {known}\n".encode(), content_type="text/plain")
        return (
            None
            if self.is_live or self._takes_time(server, session)
            else self.endpoint(server, session).respond(request)
        )

    def _takes_time(self, server: str, session: WireSession) -> bool:
        """Return whether answers of the server may have to be waited for."""
        return server in self._mocks or (session.has_orders and not self.is_live)

    async def forward(
        self, request: HttpRequest, session: WireSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request that has no response yet."""
        if request.path.startswith(self.login_prefix):
            upstream = self._upstreams[self._login_server(request.path)]
            await upstream.send_metadata(request, scope, receive, send)
            return
        server = self._server_at(request.path)
        assert server is not None
        if self._takes_time(server, session):
            response = await while_client_waits(self.endpoint(server, session).respond_after_work(request), receive)
            if response is not None:
                await send_response(response, scope, receive, send)
            return
        await self._upstreams[server].forward(request, self.session(server, session), scope, receive, send)

    async def start(self, sessions: SessionRegistry) -> None:
        """Listen for processes that join over stdio, on the loop of the server."""
        self._registry = sessions
        self._listener = await asyncio.start_server(self._join, LOOPBACK, 0, limit=MAX_HELLO_BYTES)
        self._join_port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End the servers that run for clients, on the loop of the server."""
        if self._listener is not None:
            self._listener.close()
        for task, client in list(self._joined.items()):
            if client is None:
                task.cancel()
            else:
                client.end(0)  # what is cancelled while it ends would leave a process behind
        await asyncio.gather(*self._joined, return_exceptions=True)
        for upstream in self._upstreams.values():
            await upstream.close()

    def write_config(self, config: McpConfig, path: Path, *, url: str, session: str = "") -> None:
        """Write the `client_config` to a file that only its owner can read."""
        write_config(self.client_config(config, url=url, session=session), path)

    def client_config(self, config: McpConfig, *, url: str, session: str = "") -> JsonObject:
        """Return a config for a client that leads to a session. `url` is the running wire server's."""
        prefix = session_prefix(session) if session else ""
        join = f"{LOOPBACK}:{self._join_port}/{self._token}/{quote(session, safe='')}"
        names = [server.name for server in config.servers]
        return config.leading_to(
            join={name: f"{join}/{name}" for name in names},
            urls={name: self.url(name, f"{url}{prefix}") for name in names},
            is_live=self.is_live,
        )

    def url(self, name: str, base: str) -> str:
        """Return the URL of a server, below the wire server's or a session's."""
        return f"{base}{self.prefix}/{quote(name, safe='')}"

    def log_of(self, session: WireSession) -> Log:
        """Return a session's log of recorded tool calls, including servers that it did not reach."""
        reached = {name: endpoint.session.source for name, endpoint in self._sessions.get(session, {}).items()}
        unreached = (name for name in self._configs if name not in reached and name not in self._mocks)
        sources = [*reached.values(), *(self._recorded(name, session) for name in unreached)]
        return Log.of(each.log.placed(of_tools=True) for each in sources if isinstance(each, McpReplay))

    def _recorded(self, server: str, session: WireSession) -> McpSource | None:
        """Return the replay of a server from the recording of the session, or of the recorder."""
        name = self._recorded_as(server, session)
        if self._cache is not None:
            return SharedMcpReplay(name, self._cache, latency=self._latency)
        tools = self._tools_of(session)
        if tools is None:
            return None
        return McpReplay(
            name,
            tools,
            latency=self._latency,
            default=self._default_response,
            lenient_requests=session.lenient_requests,
        )

    @property
    def _cache(self) -> CallCache | None:
        return None if self.recorder is None else self.recorder.cache

    def _tools_of(self, session: WireSession) -> RecordedTools | None:
        """Return the source of a session's answers for all servers, or None if nothing is recorded."""
        if session not in self._tools:
            if self.recorder is not None:
                tape = None if self.recorder.replay is None else Tape(self.recorder.replay, strict=True)
            else:
                tape = None if session.source is None else session.source.tape
            if tape is None:
                return None
            self._tools[session] = recorded_tools(tape)
            self._tools[session].folders = session.folders
        return self._tools[session]

    def _server_at(self, path: str) -> str | None:
        """Return the server that a path names, or the only one."""
        name = unquote(path.removeprefix(self.prefix).strip("/"))
        if not name and len(self._configs) == 1:
            return next(iter(self._configs))
        is_reached = not self.is_live or name in self._upstreams or name in self._mocks
        return name if name in self._configs and is_reached else None

    def _login_server(self, path: str) -> str:
        """Return the real server whose login metadata is at a path, or ""."""
        _, _, place = path.removeprefix(self.login_prefix).partition("/")
        server = self._server_at(split_session_path(f"/{place}")[1]) if self.is_live else None
        return server if server in self._upstreams else ""

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._joined[task] = None
        task.add_done_callback(self._joined.pop)
        try:
            hello = decode(await reader.readline(), _Hello)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, ConnectionError):
            writer.close()
            return
        if hmac.compare_digest(hello.token.encode(), self._token.encode()) and hello.server in self._configs:
            client = self._joined[task] = _JoinedLines(writer)
            await self._serve_joined(hello, reader, client)
        writer.close()

    async def _serve_joined(self, hello: _Hello, reader: asyncio.StreamReader, client: _JoinedLines) -> None:
        assert self._registry is not None
        session = self.session(hello.server, self._registry.named(unquote(hello.session)))
        upstream = None
        if session.is_live:
            upstream = ServerProcess(hello.command, environment=hello.environment, folder=hello.folder)
        try:
            await _serve(session, client, reader, upstream)
        except InputError as error:
            client.complain(f"offbook: {hello.server}: {error}\n")
            client.end(1)
        except ConnectionError:
            return


async def _serve(
    session: McpSession, client: _JoinedLines, reader: asyncio.StreamReader, upstream: ServerProcess | None
) -> None:
    """Serve a client that has joined until its input ends, or the server."""
    async with open_lines(session, client, upstream) as server:
        ending = asyncio.ensure_future(client.has_ended.wait())
        try:
            while not client.has_ended.is_set():
                reading = asyncio.ensure_future(reader.read(READ_BYTES))
                await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                if not (data := reading.result()):
                    break
                server.receive(data)
        finally:
            ending.cancel()


class _JoinedLines:
    """The stdout of a process that has joined."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.has_ended = asyncio.Event()

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(FRAME_HEAD.pack(b"O", len(data)) + data)

    def complain(self, text: str) -> None:
        """Write to its stderr."""
        data = text.encode()
        self._writer.write(FRAME_HEAD.pack(b"E", len(data)) + data)

    def end(self, exit_code: int) -> None:
        data = str(exit_code).encode()
        if not self._writer.is_closing() and not self.has_ended.is_set():
            self._writer.write(FRAME_HEAD.pack(b"X", len(data)) + data)
        self.has_ended.set()
