"""Stands in for agents' MCP servers: records the real ones, or answers from recordings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from offbook.config.recordings import is_folder, recording_file
from offbook.config.roles import StepNames
from offbook.errors import RecordingMismatchError
from offbook.mcp.answer import FoundAnswer
from offbook.mcp.config import McpConfig, load_config
from offbook.mcp.hub import McpHub
from offbook.mcp.message import McpMessage
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.replay import McpReplay, recorded_tools
from offbook.mcp.session import McpToolCall
from offbook.pipeline import Live, Record, Replay
from offbook.private_folder import PrivateFolder
from offbook.recording.format.document import Document
from offbook.recording.stores.locate import open_reader
from offbook.recording.stores.store import RecordingReader
from offbook.scenarios.mocks import MockedTools
from offbook.scenarios.targets import McpServer
from offbook.server import McpWireServer
from offbook.session.log import Log
from offbook.session.sources import RecordedTools
from offbook.session.tape import Tape
from offbook.wire.options import WireOptions
from offbook.wire.session import WireSession


class ConversationMcpServers:
    """Stands in for one agent's MCP servers in every conversation, until it is closed.

    They are recorded under names such as `books a room/billing/1/github`, so each conversation is replayed separately.

    Raises:
        InputError: the config cannot be read; from `begin`, if the recording cannot be read.
    """

    def __init__(self, config: Path, mode: Live | Record | Replay, names: StepNames) -> None:
        self._config, self._mode, self._names = load_config(config), mode, names
        self._folder = PrivateFolder()
        self._tools: dict[str, MockedTools] = {}
        self._opened: dict[str, _Opened] = {}

    def begin(self, conversation: str, tools: MockedTools) -> Mapping[str, McpServer]:
        """Return the servers for a new conversation; see `AgentMcpServers`."""
        self._tools[conversation] = tools
        location = self._location(conversation)
        if location not in self._opened:
            self._opened[location] = self._open(location)
        return self._opened[location].server.mcp_of_session(conversation)

    def logs(self) -> list[Log]:
        """Return the log of each conversation and server, by a name like `mcp:books a room/…`."""
        replays = (replay for opened in self._opened.values() for replay in opened.replays)
        return [replay.log.placed(f"mcp:{replay.server}", of_tools=True) for replay in replays]

    def close(self) -> None:
        """Stop the servers, and close their recordings."""
        for opened in self._opened.values():
            opened.close()
        self._folder.cleanup()

    def _location(self, conversation: str) -> str:
        if isinstance(self._mode, Live):
            return str(Path(self._folder.name) / "live.json")  # what is live is recorded, and thrown away
        path = self._mode.path
        return str(Path(path) / recording_file(self._names, f"{conversation}/agent")) if is_folder(path) else path

    def _open(self, location: str) -> _Opened:
        if not isinstance(self._mode, Replay):
            recorder = McpRecorder(location, mode="all" if isinstance(self._mode, Live) else self._mode.record)
            return _Opened(self._config, self._tool_called, recorder=recorder)
        is_missing = is_folder(self._mode.path) and not Path(location).exists()
        reader = open_reader(Document() if is_missing else location, source=location)
        return _Opened(self._config, self._tool_called, reader=reader, on_miss=self._missed)

    def _tool_called(self, call: McpToolCall) -> None:
        self._tools[call.session].note_call(call.name, call.arguments, result=call.result, error=call.error)

    def _missed(self, session: str, error: RecordingMismatchError) -> None:
        self._tools[session].note_unanswered(error)


class _Opened:
    """The servers of one recording, which is written by a `recorder`, or read."""

    def __init__(
        self,
        config: McpConfig,
        on_tool_call: Callable[[McpToolCall], None],
        *,
        recorder: McpRecorder | None = None,
        reader: RecordingReader | None = None,
        on_miss: Callable[[str, RecordingMismatchError], None] = lambda _, error: None,
    ) -> None:
        self._reader, self._on_miss = reader, on_miss
        self.replays: list[McpReplay] = []
        hub = McpHub(
            config.servers,
            recorder=recorder,
            environment=os.environ,
            source_of=self._replay,
            on_tool_call=on_tool_call,
            recorded_as=_recorded_as,
        )
        self.server = McpWireServer(WireOptions(responses={}, strict=True), config, hub=hub).start()

    def _replay(self, server: str, session: WireSession) -> McpReplay | None:
        if self._reader is None:
            return None
        replay = _ReportedReplay(
            _recorded_as(server, session),
            recorded_tools(Tape(self._reader, strict=True)),
            lambda error: self._on_miss(session.name, error),
        )
        self.replays.append(replay)
        return replay

    def close(self) -> None:
        self.server.stop()
        if self._reader is not None:
            self._reader.close()


class _ReportedReplay(McpReplay):
    """Calls `on_miss` for unanswered requests."""

    def __init__(self, server: str, tools: RecordedTools, on_miss: Callable[[RecordingMismatchError], None]) -> None:
        super().__init__(server, tools)
        self._on_miss = on_miss

    def find(self, request: McpMessage) -> FoundAnswer:
        try:
            return super().find(request)
        except RecordingMismatchError as error:
            self._on_miss(error)
            raise


def _recorded_as(server: str, session: WireSession) -> str:
    return f"{session.name}/{server}"
