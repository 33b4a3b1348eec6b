"""The MCP servers of `exec --mcp` and `serve --mcp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.private_folder import PrivateFolder

if TYPE_CHECKING:
    from offbook.mcp.config import McpConfig
    from offbook.mcp.hub import McpHub
    from offbook.mcp.recorder import McpRecorder
    from offbook.recording.call_cache import CacheCounts
    from offbook.wire.recordings import UnusedExchange
    from offbook.wire.server.wire_server import WireServer
    from offbook.wire.settings import WireArguments


class McpServers:
    """The MCP servers of `--mcp` for a block. Without the option there are none, and `hub` is None.

    Raises:
        InputError: the config cannot be read, or the recording cannot be written; or a server that `has_own_key` would
            record them, and its key would reach the real servers.
    """

    def __init__(
        self,
        options: WireArguments,
        environment: Mapping[str, str],
        *,
        sink: Sink = NULL_SINK,
        has_own_key: bool = False,
    ) -> None:
        if options.mcp is not None and options.record is not None and has_own_key:
            hint = "clients of MCP servers send the keys of those; leave out --api-key"
            raise InputError("MCP servers are not recorded behind an API key", source="--mcp", hint=hint)
        self.hub: McpHub | None = None
        self._config: McpConfig | None = None
        self._recorder: McpRecorder | None = None
        self._recording = options.replay
        self._folder: PrivateFolder | None = None
        if options.mcp is not None:
            self._open(options.mcp, options, environment, sink)

    def _open(self, path: str, options: WireArguments, environment: Mapping[str, str], sink: Sink) -> None:
        from offbook.mcp.config import load_config
        from offbook.mcp.hub import McpHub
        from offbook.mcp.recorder import McpRecorder
        from offbook.recording.latency import Latency

        self._config = load_config(path)
        if options.record is not None:
            self._recorder = McpRecorder(options.record, mode=options.record_mode or "append", sink=sink)
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=0)
        try:
            self.hub = McpHub(
                self._config.servers,
                recorder=self._recorder,
                environment=environment,
                latency=latency,
                default_response=options.default_response,
            )
        except InputError:
            self._close_recorder()
            raise
        self._folder = PrivateFolder()

    @property
    def path(self) -> str:
        """The path of the config that leads to offbook."""
        return "" if self._folder is None else str(Path(self._folder.name) / "mcp.json")

    def point_to(self, server: WireServer) -> dict[str, str]:
        """Write the config that leads to a running server, and return the variables that name it."""
        if self.hub is None or self._config is None:
            return {}
        from offbook.mcp.config import CONFIG_VARIABLE

        self.hub.write_config(self._config, Path(self.path), url=server.url)
        return {CONFIG_VARIABLE: self.path}

    def urls(self, server: WireServer) -> dict[str, str]:
        """Return the URLs of the servers that can be reached over HTTP, by name."""
        if self.hub is None or self._config is None:
            return {}
        is_reached = {each.name: each.kind == "http" or not self.hub.is_live for each in self._config.servers}
        return {name: self.hub.url(name, server.url) for name in self.hub.names if is_reached[name]}

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command with `{mcp}` replaced by the path of the config."""
        if self.hub is None:
            return list(command)
        from offbook.mcp.config import PLACEHOLDER

        return [word.replace(PLACEHOLDER, self.path) for word in command]

    def uncalled(self, server: WireServer) -> list[UnusedExchange]:
        """Return the recorded tool calls that no client has made."""
        if self.hub is None or self._recorder is not None or self._recording is None:
            return []
        from offbook.session.log import Log
        from offbook.wire.recordings import UnusedExchange, describe_exchange

        server.session("")  # whose calls are left over, even if no client has come
        left = Log.of(map(self.hub.log_of, server.sessions)).unserved().items()
        return [
            UnusedExchange(entry.key, entry.position, describe_exchange(stored.exchange), self._recording, "")
            for entry, stored in sorted(left, key=lambda each: each[1].id)
        ]

    def are_ignored(self, unused: Sequence[UnusedExchange]) -> bool:
        """Return whether the program reached none of them, although they are recorded or have `unused` calls."""
        is_expected = self._recorder is not None or bool(unused)
        return self.hub is not None and not self.hub.was_reached and is_expected

    def cache_counts(self, of_models: CacheCounts | None) -> CacheCounts | None:
        """Return the uses of a shared recording by models and by these servers, or None if it is not shared."""
        cache = None if self._recorder is None else self._recorder.cache
        return of_models if cache is None or of_models is None else of_models.plus(cache.counts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._recorder is not None and kind is not None and issubclass(kind, Exception):
            self._recorder.keep()
        self._close_recorder()
        if self._folder is not None:
            self._folder.cleanup()

    def _close_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
