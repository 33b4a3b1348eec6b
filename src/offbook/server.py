"""`offbook.serving`: a server that stands in for vendors' APIs and MCP servers, and the settings that lead clients to
it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias, overload
from urllib.parse import quote

from msgspec.structs import replace
from typing_extensions import Unpack

from offbook.errors import InputError
from offbook.mcp.answer import McpSource
from offbook.mcp.config import CONFIG_VARIABLE, McpConfig, ServerConfig, load_config, parse_config, write_config
from offbook.mcp.hub import McpHub
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.session import McpSession, McpToolCall
from offbook.mcp.stdio import ServerProcess, client_streams
from offbook.messages import JsonObject
from offbook.private_folder import PrivateFolder
from offbook.recording.latency import Latency
from offbook.session.log import Log
from offbook.text import did_you_mean
from offbook.wire.options import LOOPBACK, ServingOptions, WireOptions
from offbook.wire.server.wire_server import WireServer
from offbook.wire.session import MAX_CALLS

McpServersConfig: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


class ServedMcp:
    """One MCP server with a stand-in in a `McpWireServer`, and the settings that lead a session's client to it.

    `config` is its entry in the `mcpServers` of a client, and `path` a config file with all servers of the wire server.
    """

    def __init__(self, server: ServerConfig, session: McpSession, *, config: JsonObject, path: Path, url: str) -> None:
        self.name, self.config, self.path = server.name, config, str(path)
        self._server, self._session, self._url = server, session, url

    def __repr__(self) -> str:
        return f"<MCP server {self.name}, {'recorded' if self._session.is_live else 'replayed'}>"

    @property
    def url(self) -> str:
        """The address over HTTP.

        Raises:
            InputError: a server over stdio is being recorded, and has none.
        """
        if self._session.is_live and self._server.kind == "stdio":
            hint = "give its config to the client, or record the server over HTTP, with url="
            raise InputError("a server that is recorded over stdio has no URL", source=self.name, hint=hint)
        return self._url

    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Return a transport for clients of the `mcp` SDK on this event loop: `Client(github.streams())`, or
        `async with github.streams() as (read, write), ClientSession(read, write) as client`.

        Raises:
            InputError: a server over HTTP is being recorded, the SDK is not installed, or the server cannot be started.
        """
        if not self._session.is_live:
            return client_streams(self._session)
        if self._server.kind == "http":
            hint = "give its url to the client"
            raise InputError("a server that is recorded over HTTP has no streams", source=self.name, hint=hint)
        environment = dict(os.environ) | self._server.fields.get("env", {})
        upstream = ServerProcess(self._server.command, environment=environment)
        return client_streams(self._session, upstream=upstream)


class McpWireServer(WireServer):
    """A WireServer that also stands in for the MCP `servers`, at `/mcp/NAME` of each session and over stdio.

    `tool_calls` are the latest calls of their tools, of all sessions, in order. With a `recorder`, which is closed with
    the server, the real servers answer unrecorded requests. A `hub` of these servers may be given instead; `tool_calls`
    are then none.

    Raises:
        InputError: as for WireServer, or the URL of a server is invalid.
    """

    def __init__(
        self,
        options: WireOptions,
        config: McpConfig,
        *,
        recorder: McpRecorder | None = None,
        hub: McpHub | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        api_key: str = "",
        token: str | None = None,
    ) -> None:
        self._config, self._mcp_recorder = config, recorder if hub is None else hub.recorder
        self._tool_calls: deque[McpToolCall] = deque(maxlen=MAX_CALLS)
        self._folder = PrivateFolder()
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=options.seed)
        try:
            self.hub = hub or McpHub(
                config.servers,
                recorder=recorder,
                environment=os.environ,
                latency=latency,
                default_response=options.default_response,
                on_tool_call=self._tool_calls.append,
            )
            super().__init__(
                replace(options, has_tools=True), host=host, port=port, api_key=api_key, token=token, mount=self.hub
            )
        except InputError:
            self._close_mcp()
            raise

    @property
    def log(self) -> Log:
        """The log of the session without a name. Keys of MCP tools are like `_tools.github.create_issue`."""
        return Log.of([super().log, self.hub.log_of(self.session(""))])

    @property
    def tool_calls(self) -> list[McpToolCall]:
        """The calls of MCP tools, in the order in which they were made within each session."""
        return sorted(self._tool_calls.copy(), key=lambda call: call.number)

    @property
    def mcp(self) -> dict[str, ServedMcp]:
        """The MCP servers by name. The server must run."""
        return self.mcp_of_session("")

    def mcp_of_session(self, session: str) -> dict[str, ServedMcp]:
        """Return the MCP servers as clients of a session see them."""
        document, path = self._write_config(session)
        base, entries = self.session_url(session) if session else self.url, document[self._config.section]
        return {
            server.name: ServedMcp(
                server,
                self.hub.session(server.name, self.session(session)),
                config=entries[server.name],
                path=path,
                url=self.hub.url(server.name, base),
            )
            for server in self._config.servers
        }

    def _write_config(self, session: str) -> tuple[JsonObject, Path]:
        document = self.hub.client_config(self._config, url=self.url, session=session)
        path = Path(self._folder.name) / f"mcp{quote(session, safe='')}.json"
        write_config(document, path)
        return document, path

    def add_mcp(self, server: ServerConfig, *, mock: Callable[[], McpSource] | None = None) -> ServedMcp:
        """Stand in for a further MCP server, from now on, by a recording or a `mock`; one of that name is replaced."""
        self.hub.add(server, mock=mock)
        others = [each for each in self._config.servers if each.name != server.name]
        self._config = replace(self._config, servers=(*others, server))
        return self.mcp[server.name]

    def remove_mcp(self, name: str) -> None:
        """Refuse clients of an MCP server from now on. Used exchanges stay used."""
        self.hub.discard(name)
        servers = tuple(server for server in self._config.servers if server.name != name)
        self._config = replace(self._config, servers=servers)
        self._write_config("")

    @property
    def env(self) -> dict[str, str]:
        """The variables of a WireServer, and the path of the config. The server must run."""
        path = next((server.path for server in self.mcp.values()), "")
        return super().env | ({CONFIG_VARIABLE: path} if path else {})

    def stop(self) -> None:
        super().stop()
        self._close_mcp()

    def __exit__(self, *raised: Any) -> None:
        if self._mcp_recorder is not None and raised[0] is not None and issubclass(raised[0], Exception):
            self._mcp_recorder.keep()
        super().__exit__(*raised)

    def _close_mcp(self) -> None:
        if self._mcp_recorder is not None:
            self._mcp_recorder.close()
        self._folder.cleanup()


def read_servers(given: McpServersConfig) -> McpConfig:
    """Return a config from its path, from its dict, or from a dict of servers by name.

    Raises:
        InputError: it is not a config.
    """
    if isinstance(given, str | os.PathLike):
        return load_config(given)
    document = dict(given)
    is_whole = isinstance(document.get("mcpServers", document.get("servers")), dict)
    return parse_config(document if is_whole else {"mcpServers": document}, source="mcp")


@overload
def serving(
    recording: str | os.PathLike[str] | None = None,
    *,
    mcp: None = None,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    token: str | None = None,
    **options: Unpack[ServingOptions],
) -> WireServer: ...


@overload
def serving(
    recording: str | os.PathLike[str] | None = None,
    *,
    mcp: McpServersConfig,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    token: str | None = None,
    **options: Unpack[ServingOptions],
) -> McpWireServer: ...


def serving(
    recording: str | os.PathLike[str] | None = None,
    *,
    mcp: McpServersConfig | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    token: str | None = None,
    **options: Unpack[ServingOptions],
) -> WireServer:
    """Return a server that stands in for the vendors' APIs, and for MCP servers, while its `with` block runs.

    Args:
        recording: a path, a folder of recordings, or `sqlite:///path.db`.
        mcp: the MCP servers: the path of the config of a client (`.mcp.json`), or servers by name, each a dict with a
            `command` and `args`, or with a `url`. Requests to them are answered from the recording, or recorded.
        host, port: where to listen; by default on loopback, at any free port.
        api_key: the key that clients must send; required for hosts other than loopback. It is not sent upstream.
        token: the first part of every path, which requests need; by default a new one if calls are recorded, and none
            in a replay. An empty one lets every program of this machine use the server, and its credentials.
        options: see WireOptions.

    Raises:
        InputError: an option or the config is invalid, a recording cannot be read, or the server cannot listen at the
            address.
    """
    if unknown := sorted(options.keys() - {*WireOptions.__struct_fields__}):
        hint = did_you_mean(unknown[0], WireOptions.__struct_fields__, kind="options")
        raise InputError(f"there is no option {unknown[0]!r}", source="serving", hint=hint)
    given = WireOptions(recording=recording, **options)
    if mcp is None:
        return WireServer(given, host=host, port=port, api_key=api_key, token=token)
    config = read_servers(mcp)
    if api_key and given.record is not None:
        hint = "clients of MCP servers send the keys of those; listen on loopback without an api_key"
        raise InputError("MCP servers are not recorded behind an API key", source="api_key", hint=hint)
    recorder = None
    if given.record is not None:
        recorder = McpRecorder(given.record, mode=given.record_mode, redactor=given.redactor)
    return McpWireServer(given, config, recorder=recorder, host=host, port=port, api_key=api_key, token=token)
